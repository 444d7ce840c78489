"""The machines to play a trace on: a TOML file with ``[[nodes]]``, or an openb list of nodes."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from rota.core.facts.node import NodeSpec
from rota.core.words.units import parse_cpu_milli, parse_memory_mib
from rota.sim.readers.openb import (
    DEVICES_MAX,
    NODE_COLUMNS,
    NODE_DEVICES_MAX,
    make_devices,
    nodes_of,
)
from rota.sim.readers.text import Text
from rota.sim.readers.values import shown, unknown
from rota.sim.trace import BadTrace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEYS = ("name", "count", "cpus", "memory", "gpus", "gpu_type", "gpu_memory", "labels")
NODES_MAX = 100_000
_TOML_BYTES_MAX = 1 << 22
_TOML_LINE = re.compile(r" \(at line ([0-9]+), column [0-9]+\)$")


def read_cluster(path: Path) -> tuple[NodeSpec, ...]:
    """The nodes in the order of the file; a group with a ``count`` is numbered from 1."""
    text = Text(path)
    columns = [name.strip(' "') for name in text.head().split(",")]
    if set(NODE_COLUMNS) <= set(columns):
        return nodes_of(text)
    groups = _groups(text)
    nodes: dict[str, NodeSpec] = {}
    devices = 0
    for place, group in enumerate(groups, 1):
        try:
            for node in _nodes(group):
                if node.name in nodes:
                    raise ValueError(f"name: {shown(node.name)} is there twice")
                nodes[node.name] = node
                devices += len(node.devices)
                if len(nodes) > NODES_MAX or devices > DEVICES_MAX:
                    raise ValueError(f"more than {NODES_MAX} nodes or {DEVICES_MAX} GPUs")
        except ValueError as error:
            raise BadTrace(f"{text.file}: nodes {place}: {error}") from None
    return tuple(nodes.values())


def _groups(text: Text) -> list[object]:
    """The entries ``[[nodes]]`` of the file."""
    body = _whole(text)
    try:
        found = tomllib.loads(body)
    except tomllib.TOMLDecodeError as error:
        place = _TOML_LINE.search(str(error))
        line = int(place[1]) if place else text.last_line
        raise text.bad(line, f"not TOML: {_TOML_LINE.sub('', str(error))}") from None
    except RecursionError:
        raise text.bad(1, "not TOML that could be a cluster: too deep") from None
    for name in found:
        if name != "nodes":
            raise BadTrace(f"{text.file}: {unknown('the key', name, ('nodes',))}")
    groups = found.get("nodes")
    if not isinstance(groups, list) or not groups:
        raise BadTrace(f"{text.file}: no nodes; a cluster is one or more tables [[nodes]]")
    return groups


def _whole(text: Text) -> str:
    lines = [""]
    size = 0
    for number, line in text.lines():
        size += len(line)
        if size > _TOML_BYTES_MAX:
            raise text.bad(number, f"longer than {_TOML_BYTES_MAX} bytes; no cluster is")
        # Blank lines come back, so that the parser counts as the reader of its message does.
        lines.extend([""] * (number - len(lines)))
        lines.append(line)
    return "\n".join(lines[1:])


def _nodes(group: object) -> Iterator[NodeSpec]:
    if not isinstance(group, dict):
        raise ValueError(f"{shown(group)} is no table; write [[nodes]]")
    for key in group:
        if key not in KEYS:
            raise ValueError(unknown("the key", key, KEYS))
    name = _text(group, "name")
    if not name:
        raise ValueError("name: a node needs a name")
    count = _count(group, "count", 1, 1, NODES_MAX)
    gpus = _count(group, "gpus", 0, 0, NODE_DEVICES_MAX)
    cpu_milli = _amount(group, "cpus")
    memory_mib = _amount(group, "memory")
    gpu_memory_mib = _amount(group, "gpu_memory")
    gpu_type = _text(group, "gpu_type")
    labels = _labels(group)
    for each in _names(name, count):
        devices = make_devices(each, gpus, gpu_type, gpu_memory_mib)
        yield NodeSpec(each, cpu_milli, memory_mib, devices=devices, labels=labels)


def _names(name: str, count: int) -> Iterator[str]:
    """Numbers of one width, so that the order of names is the order of nodes."""
    if count == 1:
        yield name
        return
    width = len(str(count))
    for number in range(1, count + 1):
        yield f"{name}-{number:0{width}d}"


def _text(group: dict[str, object], key: str) -> str:
    value = group.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"{key}: {shown(value)} is not text")
    return value.strip()


def _count(group: dict[str, object], key: str, default: int, least: int, most: int) -> int:
    value = group.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{key}: {shown(value)} is not a whole number from {least} to {most}")
    return value


def _amount(group: dict[str, object], key: str) -> int:
    """CPUs in thousandths, sizes in MiB. A bare number of bytes is always a slip: refused."""
    value = group.get(key)
    try:
        if key == "cpus":
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ValueError(f"{shown(value)} is no number of CPUs such as 64")
            return parse_cpu_milli(str(value))
        if not isinstance(value, str | None):
            raise ValueError(f"{shown(value)} is no size such as '64g'")
        return parse_memory_mib(value or "")
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _labels(group: dict[str, object]) -> dict[str, str]:
    found = group.get("labels", {})
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"labels: {shown(found)} is no table of texts such as {{zone = 'a'}}")
    return found
