"""The openb lists of a GPU cluster: pods that share devices, and the nodes that they ran on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.resources import Request
from rota.sim.readers.sheet import Row, read_rows
from rota.sim.readers.text import Text
from rota.sim.readers.values import parse_count, parse_time, shown
from rota.sim.trace import Trace, TraceJob

if TYPE_CHECKING:
    from pathlib import Path

POD_COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
)
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")

#: The lists do not tell how much memory a GPU has, and a device without memory cannot be shared.
#: A multiple of 1000 keeps every thousandth exact.
DEVICE_MEMORY_MIB = 1000 * 1024
#: More in one machine, or in all of them, is a typing error that would fill the memory.
NODE_DEVICES_MAX = 1024
DEVICES_MAX = 1_000_000


def read_pods(path: Path) -> Trace:
    """The pods in the order of the file.

    Every pod is kept, because placement asks for all of them: one that never ran has a run time
    of 0, one without a GPU has 0 ``procs``. Its name is the job's name; its id is the
    number of its row. A list without times can be placed, but not played on a clock.
    """
    return pods_of(Text(path))


def pods_of(text: Text) -> Trace:
    """The same from a text that is open already."""
    rows = read_rows(text, POD_COLUMNS)
    timed = "creation_time" in text.head()
    jobs = [_pod(row, number, timed=timed) for number, row in enumerate(rows, 1)]
    if not jobs:
        raise text.bad(text.last_line, "no pods")
    return Trace(text.stem, jobs, unit="GPUs", timed=timed)


def read_nodes(path: Path) -> tuple[NodeSpec, ...]:
    """The nodes in the order of the file."""
    return nodes_of(Text(path))


def nodes_of(text: Text) -> tuple[NodeSpec, ...]:
    """The same from a text that is open already."""
    nodes: dict[str, NodeSpec] = {}
    devices = 0
    for row in read_rows(text, NODE_COLUMNS):
        node = _node(row)
        if node.name in nodes:
            raise row.bad("sn", f"{shown(node.name)} is there twice")
        devices += len(node.devices)
        if devices > DEVICES_MAX:
            raise row.bad("gpu", f"more than {DEVICES_MAX} GPUs up to here")
        nodes[node.name] = node
    if not nodes:
        raise text.bad(text.last_line, "no nodes")
    return tuple(nodes.values())


def make_devices(node: str, count: int, model: str, memory_mib: int) -> tuple[Device, ...]:
    """The GPUs of a node that exists only on paper."""
    return tuple(
        Device(index, f"{node}-gpu{index}", model=model, memory_mib=memory_mib, fake=True)
        for index in range(count)
    )


def _pod(row: Row, number: int, *, timed: bool) -> TraceJob:
    gpus = row.read_or("num_gpu", parse_count, 0)
    return TraceJob(
        id=number,
        submit_s=row.read("creation_time", parse_time) if timed else 0,
        run_s=_run_s(row),
        procs=gpus,
        name=row.cell("name").strip(),
        queue=row.cell("qos").strip(),
        request=_request(row, gpus),
    )


def _run_s(row: Row) -> float:
    if not row.cell("scheduled_time") or not row.cell("deletion_time"):
        return 0
    started_s = row.read("scheduled_time", parse_time)
    ended_s = row.read("deletion_time", parse_time)
    if ended_s < started_s:
        ended, started = row.cell("deletion_time"), row.cell("scheduled_time")
        raise row.bad("deletion_time", f"{shown(ended)} is before scheduled_time {started}")
    return ended_s - started_s


def _request(row: Row, gpus: int) -> Request:
    cpu_milli = row.read_or("cpu_milli", parse_count, 0)
    memory_mib = row.read_or("memory_mib", parse_count, 0)
    if not gpus:
        return Request(cpu_milli, memory_mib)
    # A share is told for one device only; several are taken whole, whatever gpu_milli says.
    milli = row.read_or("gpu_milli", parse_count, 1000) if gpus == 1 else 1000
    if milli > 1000:
        raise row.bad("gpu_milli", f"'{milli}' is more than one GPU; at most 1000 is allowed")
    shared = 0 < milli < 1000
    return Request(
        cpu_milli,
        memory_mib,
        device="gpu",
        device_count=gpus,
        device_type=row.cell("gpu_spec").strip(),
        shared=shared,
        device_milli=milli if shared else 0,
    )


def _node(row: Row) -> NodeSpec:
    name = row.cell("sn").strip()
    if not name:
        raise row.bad("sn", "a node needs a name")
    gpus = row.read("gpu", parse_count)
    if gpus > NODE_DEVICES_MAX:
        raise row.bad("gpu", f"'{gpus}' is too large; at most {NODE_DEVICES_MAX} is allowed")
    return NodeSpec(
        name,
        cpu_milli=row.read("cpu_milli", parse_count),
        memory_mib=row.read("memory_mib", parse_count),
        devices=make_devices(name, gpus, row.cell("model").strip(), DEVICE_MEMORY_MIB),
    )
