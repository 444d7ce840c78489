"""The machine that a trace is played on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.errors import Rejected
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.resources import Request

if TYPE_CHECKING:
    from rota.sim.trace import Trace, TraceJob

#: Memory of made-up nodes: never what a job waits for.
PLENTY_MIB = 1 << 40


class SimMachine(msgspec.Struct, frozen=True, kw_only=True):
    #: Processors, or GPUs where the trace counts these.
    capacity: int
    #: Nodes with several resources; empty: all that counts is how many processors are free.
    nodes: tuple[NodeSpec, ...] = ()
    #: Processors have numbers.
    pinned: bool = False
    #: Processors or GPUs of each node that was made up; 0: nodes are as given.
    per_node: int = 0


def machine_for(
    trace: Trace,
    *,
    procs: int = 0,
    nodes: int = 0,
    per_node: int = 0,
    cluster: tuple[NodeSpec, ...] = (),
) -> SimMachine:
    """The machine that was asked for, else the one that the trace ran on."""
    cluster = cluster or (() if procs or nodes else trace.nodes)
    if cluster:
        return SimMachine(capacity=_count(cluster, trace.unit), nodes=cluster)
    gpus = trace.unit == "GPUs"
    if nodes:
        each = per_node or (8 if gpus else 1)
        if each == 1 and not gpus:
            return SimMachine(capacity=nodes, pinned=True)
        made = _made_up(nodes, each, gpus=gpus)
        return SimMachine(capacity=nodes * each, nodes=made, per_node=each)
    if not (procs or trace.procs):
        raise Rejected(
            f"{trace.name} does not say how large its machine is; "
            "give --procs N, --nodes N or --cluster FILE",
            field="procs",
        )
    return SimMachine(capacity=procs or trace.procs)


def _count(nodes: tuple[NodeSpec, ...], unit: str) -> int:
    if unit == "GPUs":
        return sum(len(node.devices) for node in nodes)
    return sum(node.cpu_milli for node in nodes) // 1000


def _made_up(count: int, each: int, *, gpus: bool) -> tuple[NodeSpec, ...]:
    """Equal nodes, numbered from 0."""
    return tuple(
        NodeSpec(
            name=str(number),
            cpu_milli=each * (PLENTY_MIB if gpus else 1000),
            memory_mib=PLENTY_MIB,
            devices=tuple(
                Device(index=index, uuid=f"{number}-{index}", memory_mib=1 << 16)
                for index in range(each if gpus else 0)
            ),
        )
        for number in range(count)
    )


def plain_nodes(machine: SimMachine, *, gpus: bool) -> tuple[NodeSpec, ...]:
    """A machine without nodes as the pass takes it: one node, or one for each number."""
    if machine.pinned:
        return _made_up(machine.capacity, 1, gpus=False)
    return _made_up(1, machine.capacity, gpus=gpus)


def as_tasks(job: TraceJob, unit: str, per_node: int) -> TraceJob:
    """A job as the whole core takes it: a number of GPUs on some nodes, or tasks of one CPU."""
    if job.request is not None:
        return job
    if unit != "GPUs":
        tasks = job.procs if per_node else 1
        request = Request(cpu_milli=job.procs // tasks * 1000)
        return msgspec.structs.replace(job, request=request, tasks=tasks)
    each = job.procs
    while per_node and (each > per_node or job.procs % each):
        each -= 1
    request = Request(cpu_milli=0, device="gpu", device_count=each)
    return msgspec.structs.replace(job, request=request, tasks=job.procs // each)
