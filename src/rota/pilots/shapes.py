"""What one allocation has, and the names that it goes by."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, NamedTuple

from rota.backends.pilot_tables import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.backends.api import EngineNode
    from rota.core.facts.site.pilot import Pilot

_REST = re.compile(r"(?P<milli>\d+)c(?P<mib>\d+)m(?P<gpus>\d+)g-(?P<tail>[0-9a-f]{8})")


class PilotShape(NamedTuple):
    """CPUs in thousandths, memory and GPUs of one allocation."""

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    gpu_type: str = ""


def new_uid(pilot: str, shape: PilotShape) -> str:
    """It says whose it is and what it has, for people who find it in the engine."""
    size = f"{shape.cpu_milli}c{shape.memory_mib}m{shape.gpus}g"
    return f"{PREFIX}{pilot}-{size}-{secrets.token_hex(4)}"


def is_of(pilot: str, uid: str) -> bool:
    return _parsed(pilot, uid) is not None


def node_of(pilot: str, uid: str) -> str:
    """The name of its node."""
    found = _parsed(pilot, uid)
    return f"{pilot}-{found['tail']}" if found else ""


def size_of(pilot: str, uid: str) -> tuple[int, int, int]:
    """CPUs in thousandths, memory, GPUs."""
    found = _parsed(pilot, uid)
    assert found is not None
    return int(found["milli"]), int(found["mib"]), int(found["gpus"])


def _parsed(pilot: str, uid: str) -> re.Match[str] | None:
    start = f"{PREFIX}{pilot}-"
    return _REST.fullmatch(uid.removeprefix(start)) if uid.startswith(start) else None


def shapes_of(pilot: Pilot, nodes: Iterable[EngineNode]) -> list[PilotShape]:
    """The slice that its settings name, or every kind of whole node that is in service."""
    if pilot.cpu_milli:
        return [PilotShape(pilot.cpu_milli, pilot.memory_mib, pilot.gpus, pilot.gpu_type)]
    kinds: dict[PilotShape, None] = {}
    for node in nodes:
        spec = node.spec
        if node.usable and not node.pool:
            models = {device.model for device in spec.devices}
            model = models.pop() if len(models) == 1 else ""
            kinds[PilotShape(spec.cpu_milli, spec.memory_mib, len(spec.devices), model)] = None
    return sorted(kinds)
