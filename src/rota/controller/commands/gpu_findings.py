"""What measuring has found about GPUs, as events: overuse, idleness, devices that fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.tick.lifecycle import stop_attempts
from rota.core.changes import events as ev
from rota.core.changes import gpu_events as gpu
from rota.core.facts.gpu_use import IDLE, OVERUSE
from rota.core.facts.states import Cause
from rota.core.words.units import format_mib

if TYPE_CHECKING:
    from rota.controller.commands import commands as cmd
    from rota.controller.tick.scribe import Scribe
    from rota.core.facts.gpu_use import Overuse
    from rota.core.facts.node import Node


def note_gpus(scribe: Scribe, command: cmd.NoteGpus) -> None:
    """The state may have changed since the look: what is gone or was told before is left out."""
    node = scribe.cluster.nodes.get(command.node)
    if node is None:
        return
    asked_by, scribe.actor = scribe.actor, "rota"
    if command.overuse is not None:
        _note_overuse(scribe, node, command.overuse, ends=command.ends)
    for idle in command.idle:
        _note_idle(scribe, node, idle)
    for uuid, what in command.faults:
        _note_fault(scribe, node, uuid, what, command.failures)
    scribe.actor = asked_by


def _note_overuse(scribe: Scribe, node: Node, found: tuple[Overuse, ...], *, ends: bool) -> None:
    overuse = tuple(use for use in found if use.uid in node.live)
    if overuse != node.overuse:
        scribe.emit(gpu.OveruseSeen(node=node.name, overuse=overuse))
    sizes = {device.index: device for device in node.spec.devices}
    for use in overuse:
        job_id, task = scribe.cluster.live.where[use.uid]
        attempt = scribe.cluster.live.attempt(use.uid)
        held = attempt.allocation
        given = use.device in held.devices and use.device in sizes
        declared_mib = held.share_of(sizes[use.device]) if given else 0
        if OVERUSE not in attempt.warned:
            scribe.emit(
                gpu.GpuOverused(
                    job=job_id,
                    task=task,
                    uid=use.uid,
                    device=use.device,
                    memory_mib=use.memory_mib,
                    declared_mib=declared_mib,
                )
            )
        if ends and attempt.stop_cause is None:
            detail = overuse_words(use.device, use.memory_mib, declared_mib)
            job = scribe.cluster.jobs[job_id]
            stop_attempts(scribe, job, Cause.OUT_OF_MEMORY, detail, tasks=(task,))


def overuse_words(device: int, memory_mib: int, declared_mib: int) -> str:
    """``holds 31G on GPU 0, asked for 10G``."""
    asked = f"asked for {format_mib(declared_mib)}" if declared_mib else "which it was not given"
    return f"holds {format_mib(memory_mib)} on GPU {device}, {asked}"


def _note_idle(scribe: Scribe, node: Node, idle: cmd.Idle) -> None:
    if idle.uid not in node.live:
        return
    attempt = scribe.cluster.live.attempt(idle.uid)
    if IDLE in attempt.warned or attempt.stop_cause is not None:
        return
    job_id, task = scribe.cluster.live.where[idle.uid]
    scribe.emit(
        gpu.GpuIdle(job=job_id, task=task, uid=idle.uid, devices=idle.devices, since_s=idle.since_s)
    )


def _note_fault(scribe: Scribe, node: Node, uuid: str, what: str, failures: int) -> None:
    """One failure says little; several within a day take the device out, and nothing else."""
    scribe.emit(gpu.DeviceFailed(node=node.name, device=uuid, what=what))
    count = sum(fault.uuid == uuid for fault in node.faults)
    if not failures or count < failures or uuid in node.closed:
        return
    index = next((d.index for d in node.spec.devices if d.uuid == uuid), None)
    note = (
        f"quarantined: GPU {index} reported {count} failures within a day, the last one: {what}; "
        f"'rota node resume {node.name}' lifts it"
    )
    scribe.emit(ev.NodeQuarantined(node=node.name, note=note, devices=(uuid,)))
