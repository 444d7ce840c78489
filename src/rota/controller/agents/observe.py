"""What agents report, turned into events. An end that is already on record changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.commands.endpoints import note_ports
from rota.controller.tick import lifecycle
from rota.core.changes import events as ev
from rota.core.facts.faults import blame_of
from rota.core.facts.node import Closure
from rota.core.facts.quarantine import users_of, verdict
from rota.core.facts.states import Blame, Cause, Phase
from rota.core.words.units import format_duration
from rota.rpc.messages import Seen, Sighting

if TYPE_CHECKING:
    from rota.controller.tick.scribe import Scribe
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Attempt, Job
    from rota.core.facts.node import Node

#: The starts in a row that fail for a node's own sake, and their users, that take it out of
#: service for a while. Of the only user with work one user's starts suffice.
FAILED_STARTS_MAX, FAILED_USERS_MIN = 3, 2
#: For how long: twice as long each time, until a start works there.
COOL_S, COOL_S_MAX = 30.0, 1800.0
DOUBLINGS_MAX = 16
#: So long a pool gets no tasks of a kind that it gave back.
CLOSED_S = 60.0
#: Stops after which an exit with 0 still counts as the end of the work.
GIVING_WAY = (Cause.PREEMPTED, Cause.BACKFILL_WINDOW, Cause.MIGRATED)


def observe(scribe: Scribe, node: str, seen: Seen) -> bool:
    """Take in one sighting. False when we do not count the attempt as live: it may be forgotten."""
    cluster = scribe.cluster
    where = cluster.live.where.get(seen.uid)
    if where is None:
        return False
    job = cluster.jobs[where[0]]
    attempt = job.tasks[where[1]].attempts[-1]
    if attempt.allocation.node != node:
        return False
    if seen.sighting is Sighting.WAITING:
        _waits(scribe, job, where[1], attempt, seen)
        return True
    if seen.sighting is Sighting.RUNNING:
        _running(scribe, job, where[1], attempt, seen)
        return True
    _ended(scribe, job, where[1], attempt, seen)
    return True


def _waits(scribe: Scribe, job: Job, task: int, attempt: Attempt, seen: Seen) -> None:
    """Inside its engine; on record when the reason is another one. A machine lets none wait."""
    node = scribe.cluster.nodes.get(attempt.allocation.node)
    if node is None or not node.spec.engine:
        return
    told = (seen.detail, seen.external, seen.where)
    known = (attempt.detail, attempt.external, attempt.where)
    if attempt.phase is Phase.PLACED and known != told:
        scribe.emit(ev.AttemptWaits(job.id, task, attempt.uid, *told))


def _running(scribe: Scribe, job: Job, task: int, attempt: Attempt, seen: Seen) -> None:
    if attempt.phase is not Phase.PLACED:
        return
    started_s = _sane(seen.started_s, attempt.placed_s, scribe.now_s)
    scribe.emit(
        ev.AttemptStarted(
            job=job.id,
            task=task,
            uid=attempt.uid,
            pid=seen.pid,
            started_s=started_s,
            external=seen.external,
            where=seen.where,
        )
    )
    if seen.ports:
        note_ports(scribe, job, task, seen.ports)
    lifecycle.news_of(scribe, job)


def _sane(reported_s: float, placed_s: float, now_s: float) -> float:
    """A node's clock may be off: nothing starts before it was placed or after we heard of it."""
    return min(max(reported_s, placed_s), max(now_s, placed_s))


def _ended(scribe: Scribe, job: Job, task: int, attempt: Attempt, seen: Seen) -> None:
    started_s = attempt.started_s
    if not started_s and seen.started_s:
        started_s = _sane(seen.started_s, attempt.placed_s, scribe.now_s)
    cause, detail = _cause(scribe, job, attempt, seen)
    blame = None
    if cause is Cause.START_FAILED:
        blame = seen.fault or blame_of(detail)
        cause = cause if blame is not None else Cause.NODE_LOST
    scribe.emit(
        ev.AttemptEnded(
            job=job.id,
            task=task,
            uid=attempt.uid,
            started_s=started_s,
            ended_s=max(_sane(seen.ended_s, attempt.placed_s, scribe.now_s), started_s),
            cause=cause,
            exit_code=seen.exit_code,
            signal=seen.signal,
            detail=detail,
            fault=blame,
            peak_memory_mib=seen.peak_memory_mib,
            cpu_s=seen.cpu_s,
            gpu=seen.gpu,
            external=seen.external,
            where=seen.where,
        )
    )
    _judge(scribe, job, task, attempt, blame, detail)
    lifecycle.after_attempt_end(scribe, job, attempt)


def _judge(
    scribe: Scribe, job: Job, task: int, attempt: Attempt, blame: Blame | None, detail: str
) -> None:
    """What an end says about its node. A pool is no machine: it is not broken, it was full."""
    node = scribe.cluster.nodes.get(attempt.allocation.node)
    if attempt.allocation.early:
        return  # It was handed in before there was room: that it waited says nothing.
    if node is None or not node.spec.pool:
        if blame is Blame.NODE:
            _judge_node(scribe, attempt.allocation.node, detail)
        _judge_ends(scribe, attempt.allocation.node)
    elif blame is Blame.NODE:
        request = job.spec.roles[job.tasks[task].role].request
        others = tuple(closure for closure in node.closures if closure.request != request)
        closure = Closure(request, scribe.now_s + CLOSED_S, detail)
        asked_by, scribe.actor = scribe.actor, "rota"
        scribe.emit(ev.PoolClosed(node=node.name, closures=(*others, closure)))
        scribe.actor = asked_by


def _judge_node(scribe: Scribe, name: str, detail: str) -> None:
    """One start that fails says nothing about a node; several in a row do, one on trial does.

    The last node in service stays: there, jobs wait longer and longer for their next start.
    """
    cluster = scribe.cluster
    node = cluster.nodes.get(name)
    if node is None or node.drained or not (node.coolings or _is_suspect(cluster, node)):
        return
    if not any(other.takes_work for other in cluster.nodes.values() if other is not node):
        return
    asked_by, scribe.actor = scribe.actor, "rota"
    cool_s = min(COOL_S * 2.0 ** min(node.coolings, DOUBLINGS_MAX), COOL_S_MAX)
    note = (
        f"{len(node.failed_starts)} starts in a row failed here, the last one: {detail}; "
        f"it is tried again after {format_duration(int(cool_s))}"
    )
    cools_s = scribe.now_s + cool_s
    scribe.emit(ev.NodeDrained(node=name, drained=True, note=note, cools_s=cools_s, by="rota"))
    scribe.actor = asked_by


def _is_suspect(cluster: Cluster, node: Node) -> bool:
    users = set(node.failed_starts)
    if len(node.failed_starts) < FAILED_STARTS_MAX:
        return False
    return len(users) >= FAILED_USERS_MIN or not _has_others(cluster, users)


def _has_others(cluster: Cluster, users: set[str]) -> bool:
    """Whether any other user has work, so that a start of theirs could speak for a node."""
    return any(job.spec.user not in users for job in cluster.jobs.values()) or any(
        array.spec.user not in users for array in cluster.arrays.values() if array.waiting
    )


def _judge_ends(scribe: Scribe, name: str) -> None:
    """Jobs that keep dying on one node or device, and nowhere else, are kept from it."""
    node = scribe.cluster.nodes.get(name)
    if node is None or node.drained or not node.early_ends:
        return
    blamed = verdict(node, scribe.cluster.nodes.values())
    if blamed is None:
        return
    who = f"{len(node.early_ends)} jobs of {users_of(node)} users"
    how = "died within seconds of their start"
    uuids = tuple(device.uuid for device in node.spec.devices if device.index in blamed)
    where = f" on GPU {','.join(map(str, blamed))}" if blamed else ""
    asked_by, scribe.actor = scribe.actor, "rota"
    note = f"quarantined: {who} {how}{where}; 'rota node resume {name}' lifts it"
    scribe.emit(ev.NodeQuarantined(node=name, note=note, devices=uuids))
    scribe.actor = asked_by


def _cause(scribe: Scribe, job: Job, attempt: Attempt, seen: Seen) -> tuple[Cause, str]:
    """The first cause: what we asked for, else what the agent knows, else the exit status.

    Two tasks of a gang may fail at once. The stop that the first failure caused in this very tick
    was not sent yet, so the second one has a cause of its own.
    """
    both = attempt.stop_cause is Cause.PEER_FAILED and attempt.uid in scribe.stops
    if attempt.stop_cause is not None and not both and not _finished(scribe, job, attempt, seen):
        return attempt.stop_cause, attempt.detail
    if seen.sighting is Sighting.MISSING:
        return Cause.NODE_LOST, seen.detail or "the agent lost track of it"
    if seen.cause is not None:
        return seen.cause, seen.detail
    if seen.signal:
        return Cause.SIGNAL, seen.detail
    return Cause.EXIT, seen.detail


def _finished(scribe: Scribe, job: Job, attempt: Attempt, seen: Seen) -> bool:
    """Whether an attempt that gives way did its work to the end after all.

    One that was asked to save its state exits with 0 when that is done, and has to come back.
    """
    if attempt.stop_cause not in GIVING_WAY or seen.exit_code != 0 or seen.cause is not None:
        return False
    return not job.spec.checkpoint_signal or attempt.uid in scribe.stops
