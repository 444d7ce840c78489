"""Where a job may run: from the words of a request to the facts that a pass reads, and back."""

from __future__ import annotations

import signal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from rota.api.bodies import checks
from rota.core.facts.errors import Rejected
from rota.core.facts.placing import ANYWHERE, Placement
from rota.core.words.placing_text import (
    format_affinity,
    format_selector,
    format_toleration,
    parse_affinity,
    parse_label_key,
    parse_selectors,
    parse_toleration,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.api.bodies.requests import JobPatch, JobRequest
    from rota.core.facts.job import JobSpec

T = TypeVar("T")

#: Nobody can save anything on these.
_DEADLY = frozenset({"KILL", "STOP"})
SIGNALS = tuple(
    name
    for name in sorted(member.name.removeprefix("SIG") for member in signal.Signals)
    if name not in _DEADLY and not name.startswith("RT")
)


#: The label of nodes with podman or apptainer.
CONTAINERS = "containers"
#: What a request can say about it.
_FIELDS = (
    *("nodes", "exclusive", "node_list", "exclude", "data"),
    *("constraints", "tolerate", "near", "apart", "topology"),
    *("cluster", "engine", "vdc"),
)


class PlacementView(msgspec.Struct, frozen=True):
    """What a job says about where it runs, in the words that a request takes."""

    nodes: int
    node_list: list[str]
    exclude: list[str]
    constraints: list[str]
    tolerate: list[str]
    near: list[str]
    apart: list[str]
    topology: str
    exclusive: bool
    data: list[str]
    cluster: str
    engine: str
    vdc: str


def placement_of(asked: JobRequest) -> Placement:
    """The placement of a new job. Most say nothing, and share one object."""
    if asked.image and CONTAINERS not in asked.constraints:
        # Only where something can run it: the agents say so in a label.
        asked.constraints = [*asked.constraints, CONTAINERS]
    return _with(ANYWHERE, asked) if any(getattr(asked, name) for name in _FIELDS) else ANYWHERE


def changed_placement(now: Placement, asked: JobPatch) -> Placement:
    """The placement of a job after a patch: what it does not name stays."""
    return _with(now, asked)


def _with(now: Placement, asked: JobRequest | JobPatch) -> Placement:
    changes: dict[str, Any] = {
        field: checks.word(field, value)
        for field in ("cluster", "engine", "vdc")
        if (value := getattr(asked, field)) is not None
    }
    for field, name in (("nodes", "node_count"), ("exclusive", "exclusive")):
        if (value := getattr(asked, field)) is not None:
            changes[name] = value
    for field, name in (("node_list", "nodes"), ("exclude", "exclude"), ("data", "data")):
        if (words := getattr(asked, field)) is not None:
            changes[name] = _names(field, words)
    if asked.constraints is not None:
        parts = _read_all("constraints", asked.constraints, parse_selectors)
        changes["selectors"] = tuple(selector for part in parts for selector in part)
    if asked.tolerate is not None:
        changes["tolerations"] = _read_all("tolerate", asked.tolerate, parse_toleration)
    if asked.near is not None or asked.apart is not None:
        changes["affinities"] = _affinities(now, asked)
    if asked.topology is not None:
        (topology,) = _read_all("topology", [asked.topology], _label_or_none)
        changes["topology"] = topology
    made = msgspec.structs.replace(now, **changes)
    clash = set(made.nodes) & set(made.exclude)
    if clash:
        raise Rejected.because(
            "exclude", sorted(clash), f"{', '.join(sorted(clash))} is in node_list as well"
        )
    return ANYWHERE if made == ANYWHERE else made


def _affinities(now: Placement, asked: JobRequest | JobPatch) -> tuple[Any, ...]:
    near = [one for one in now.affinities if not one.apart]
    apart = [one for one in now.affinities if one.apart]
    if asked.near is not None:
        near = list(_read_all("near", asked.near, lambda text: parse_affinity(text, apart=False)))
    if asked.apart is not None:
        apart = list(_read_all("apart", asked.apart, lambda text: parse_affinity(text, apart=True)))
    return (*near, *apart)


def _label_or_none(text: str) -> str:
    return parse_label_key(text) if text else ""


def _names(field: str, words: Iterable[str]) -> tuple[str, ...]:
    found = [checks.word(field, word) for word in words]
    if not all(found):
        raise Rejected.bad(field, "", "a name is missing")
    return tuple(dict.fromkeys(found))


def _read_all(field: str, words: Iterable[str], read: Callable[[str], T]) -> tuple[T, ...]:
    found: dict[T, None] = {}
    for word in words:
        try:
            found[read(word)] = None
        except ValueError as error:
            hint = str(error).partition("; ")[2]
            raise Rejected(f"{field}: {error}", field=field, value=word, allowed=hint) from None
    return tuple(found)


def signal_name(text: str, field: str = "checkpoint_signal") -> str:
    """``USR1`` for ``USR1``, ``SIGUSR1`` or ``usr1``; empty for none."""
    if not text:
        return ""
    name = text.strip().upper().removeprefix("SIG")
    if name not in SIGNALS:
        raise Rejected.bad(field, text, "expected a signal such as USR1, USR2, INT, HUP or TERM")
    return name


@lru_cache(4096)
def placement_view(placement: Placement) -> PlacementView:
    return PlacementView(**_words(placement))


def request_fields(spec: JobSpec) -> dict[str, Any]:
    """The fields with which the same placement could be asked for again."""
    return _words(spec.placement)


def _words(placement: Placement) -> dict[str, Any]:
    return {
        "nodes": placement.node_count,
        "node_list": list(placement.nodes),
        "exclude": list(placement.exclude),
        "constraints": [format_selector(one) for one in placement.selectors],
        "tolerate": [format_toleration(one) for one in placement.tolerations],
        "near": [format_affinity(one) for one in placement.affinities if not one.apart],
        "apart": [format_affinity(one) for one in placement.affinities if one.apart],
        "topology": placement.topology,
        "exclusive": placement.exclusive,
        "data": list(placement.data),
        "cluster": placement.cluster,
        "engine": placement.engine,
        "vdc": placement.vdc,
    }
