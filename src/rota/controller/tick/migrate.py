"""A node is emptied: what can go on elsewhere leaves at once, the rest when it can or must.

Nothing is lost that was saved. A job that named a checkpoint signal hears it and has its grace;
an elastic one gives up its tasks there; one that only reports checkpoints leaves after its next
one; whatever is still there at the deadline is put back into the queue as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.tick import lifecycle
from rota.core.changes import events as ev
from rota.core.facts.states import ACTIVE, Cause, Phase

if TYPE_CHECKING:
    from rota.controller.tick.scribe import Scribe
    from rota.core.facts.job import Job
    from rota.core.facts.node import Node


def empty(scribe: Scribe, node: Node) -> None:
    """Let everything leave the node that loses nothing by it; ask the others to save."""
    for job in _jobs_on(scribe, node):
        if job.spec.checkpoint_signal or not _has_begun(job):
            leave(scribe, job, node, f"node {node.name} is being emptied")
        elif job.spec.save_signal:
            scribe.emit(ev.SaveAsked(job=job.id))
        elif enough_without(job, _tasks_on(job, node)):
            leave(scribe, job, node, f"node {node.name} is being emptied")


def force(scribe: Scribe, node: Node) -> None:
    """The deadline of a node is over: whatever is still there goes back into the queue."""
    for job in _jobs_on(scribe, node):
        leave(scribe, job, node, f"node {node.name} had to be empty by now")


def after_report(scribe: Scribe, job: Job) -> None:
    """A job has just saved its work: the moment to leave a node that is being emptied."""
    nodes = scribe.cluster.nodes
    for name in dict.fromkeys(attempt.allocation.node for attempt in job.live_attempts):
        node = nodes.get(name)
        if node is not None and node.migrates:
            leave(scribe, job, node, f"node {name} is being emptied, and its work is saved")


def leave(scribe: Scribe, job: Job, node: Node, detail: str) -> None:
    """An elastic job that is large enough without them gives up its tasks there; others move."""
    here = _tasks_on(job, node)
    if enough_without(job, here):
        lifecycle.stop_attempts(scribe, job, Cause.SHRUNK, detail, here)
    else:
        lifecycle.put_back(scribe, job, Cause.MIGRATED, detail)


def enough_without(job: Job, missing: set[int]) -> bool:
    """Whether an elastic job has its least size without these tasks."""
    if not job.spec.elastic:
        return False
    for number, role in enumerate(job.spec.roles):
        running = sum(
            task.role == number
            and task.index not in missing
            and task.current is not None
            and task.current.phase is Phase.RUNNING
            for task in job.tasks
        )
        if running < (role.min_count or role.count):
            return False
    return True


def _tasks_on(job: Job, node: Node) -> set[int]:
    """The tasks of a job that hold room on the node."""
    return {
        task.index
        for task in job.tasks
        if task.current is not None
        and task.current.live
        and task.current.allocation.node == node.name
    }


def _jobs_on(scribe: Scribe, node: Node) -> list[Job]:
    """The jobs that hold room there, each once, and are not on their way already."""
    cluster = scribe.cluster
    ids = dict.fromkeys(cluster.live.where[uid][0] for uid in node.live)
    jobs = [cluster.jobs[job_id] for job_id in ids]
    return [job for job in jobs if job.state in ACTIVE and not job.after_stop]


def _has_begun(job: Job) -> bool:
    """Whether there is work of it that could be lost."""
    return any(attempt.phase is Phase.RUNNING for attempt in job.live_attempts)
