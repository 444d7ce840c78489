"""Why a job waits: the true cause in a few plain lines, made only when somebody asks."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import msgspec

from rota.core.dependencies import judge, parent_id
from rota.core.job import Array, Job
from rota.core.states import ACTIVE, FINAL, Cause, JobState, QueueState
from rota.core.units import format_duration, format_mib
from rota.scheduling.fit import Room
from rota.scheduling.passes import caps_on, rank_of, requests_of

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.node import Node
    from rota.core.resources import Request


class Explanation(msgspec.Struct):
    """``reason`` is the one-line form, ``lines`` the whole story, ``help`` what would change it."""

    reason: str
    lines: list[str]
    help: list[str]


def explain(cluster: Cluster, job_id: int, now_s: float) -> Explanation:
    """Explain an unfinished job or array; a finished one is the caller's to describe."""
    story = _story(cluster, job_id, now_s)
    ahead = _ahead(cluster, job_id)
    if ahead:
        who = "1 waiting job is" if ahead == 1 else f"{ahead} waiting jobs are"
        story.lines.append(f"{who} ahead of it")
    return story


def reason_of(cluster: Cluster, job_id: int, now_s: float) -> str:
    """The one-line form, for lists: it does not look at the other waiting jobs."""
    return _story(cluster, job_id, now_s).reason


def _story(cluster: Cluster, job_id: int, now_s: float) -> Explanation:
    job: Job | Array | None = cluster.jobs.get(job_id)
    if job is None:
        job = cluster.array_of(job_id) or cluster.arrays.get(job_id)
    if job is None:
        ended = cluster.ended.get(job_id)
        return Explanation(f"it is {ended}", [f"it is {ended}"], [])
    if isinstance(job, Job) and job.state in ACTIVE:
        return _of_active(job)
    return _of_waiting(cluster, job, now_s)


def _of_active(job: Job) -> Explanation:
    attempt = job.live_attempts[0]
    where = ", ".join(dict.fromkeys(a.allocation.node for a in job.live_attempts))
    if attempt.stop_cause is not None:
        reason = f"stopping on {where}: {attempt.stop_cause}"
        return Explanation(reason, [reason, f"it has {job.spec.grace_s} s to end by itself"], [])
    verb = "running" if job.state is JobState.RUNNING else "starting"
    return Explanation(f"{verb} on {where}", [f"it is {verb} on {where}"], [])


def _of_waiting(cluster: Cluster, job: Job | Array, now_s: float) -> Explanation:
    if job.held:
        return Explanation("held", ["it is held"], [f"release it: rota release {job.id}"])
    waits = _conditions(cluster, job, now_s)
    if waits is not None:
        return waits
    queue = cluster.queues.get(job.spec.queue)
    if (
        queue is not None
        and queue.state is not QueueState.ACTIVE
        and (queue.state is not QueueState.DRAINING)
    ):
        reason = f"queue {queue.name} is {queue.state}"
        return Explanation(reason, [reason], ["an operator can activate the queue"])
    return _cap(cluster, job) or _room(cluster, job, now_s)


def _conditions(cluster: Cluster, job: Job | Array, now_s: float) -> Explanation | None:
    if job.not_before_s > now_s and not job.eligible_s:
        wait = format_duration(ceil(job.not_before_s - now_s))
        retried = isinstance(job, Job) and job.retries_used
        why = "next try" if retried else "begin time"
        return Explanation(f"{why} in {wait}", [f"it waits for its {why}, in {wait}"], [])
    if job.eligible_s:
        return None
    verdict = judge(cluster, job)
    if verdict.met:
        return None
    kinds = {parent_id(cluster, d, job): d.kind for d in job.spec.dependencies}
    state = verdict.parent_state or "unknown"
    reason = f"waits for job {verdict.parent} ({state})"
    line = f"it depends on job {verdict.parent} ({kinds.get(verdict.parent, '')}), which is {state}"
    aid = []
    if verdict.never:
        reason = f"job {verdict.parent} {state}: can never start"
        aid = [f"change its dependencies (rota update {job.id}) or cancel it"]
    return Explanation(reason, [line], aid)


def _cap(cluster: Cluster, job: Job | Array) -> Explanation | None:
    lane = cluster.lanes.where.get(job.id)
    for (kind, name), limit in caps_on(cluster, lane) if lane is not None else ():
        used = len(cluster.active_in.get((kind, name), ()))
        if used >= limit:
            reason = f"{kind} {name} runs {used} of at most {limit}"
            return Explanation(
                reason, [f"{reason} jobs at once"], [f"raise the cap of {kind} {name}"]
            )
    return None


def _room(cluster: Cluster, job: Job | Array, now_s: float) -> Explanation:
    if not cluster.nodes:
        return Explanation(
            "no node has registered",
            ["no node has registered yet"],
            ["start an agent: rota up, or rota doctor to see what is wrong"],
        )
    views = [_view(node, job) for node in sorted(cluster.nodes.values(), key=lambda n: n.name)]
    # A node that could never take the job says nothing about why it waits, if there is another.
    decisive = min(views, key=lambda view: (not view.possible, not view.takes_work))
    lines = [view.line for view in views]
    return Explanation(decisive.reason, lines, _advice(cluster, decisive, now_s))


class _View(msgspec.Struct):
    """What one node has to say about a job that waits for room."""

    takes_work: bool
    #: Whether it could take the job (or some of its tasks) if nothing else were there.
    possible: bool
    reason: str
    line: str
    short: str = ""


def _view(node: Node, job: Job | Array) -> _View:
    requests = tuple(dict.fromkeys(requests_of(job.spec.roles)))
    possible = not any(Room.empty(node).shortage(request) for request in requests)
    if not node.takes_work:
        state = "drained" if node.drained else str(node.state)
        line = f"node {node.name} is {state}" + (f" ({node.note})" if node.note else "")
        return _View(False, possible, line, line)
    room = Room.now(node)
    for request in requests:
        if short := room.shortage(request):
            line = f"node {node.name}: {_shortage(room, request, short)}"
            reason = f"not enough free {short}"
            if short.endswith(" type"):
                reason = f"no {request.device} of type {request.device_type}"
            return _View(True, possible, reason, line, short)
    if job.spec.task_count > 1:
        line = f"node {node.name} has room for some of its {job.spec.task_count} tasks"
        return _View(
            True, True, f"no room for all of its {job.spec.task_count} tasks", line, "tasks"
        )
    line = f"node {node.name} has room: it starts with the next pass"
    return _View(True, True, line, line)


def _shortage(room: Room, request: Request, short: str) -> str:
    if short == "cpus":
        return (
            f"needs {request.cpu_milli / 1000:g} CPUs, {room.cpu_milli / 1000:g} of "
            f"{room.node.spec.cpu_milli / 1000:g} free"
        )
    if short == "memory":
        return (
            f"needs {format_mib(request.memory_mib)} of memory, "
            f"{format_mib(room.memory_mib)} of {format_mib(room.node.spec.memory_mib)} free"
        )
    if short == "disk":
        return f"needs {format_mib(request.disk_mib)} of disk, {format_mib(room.disk_mib)} free"
    free = sum(device.offers(request) for device in room.devices.values())
    kind = f"{request.device_type} {request.device}".strip()
    text = f"needs {request.device_count} x {kind}, {free} of {len(room.devices)} free for it"
    foreign = sum(bool(device.foreign_pids) for device in room.devices.values())
    return text + (f"; {foreign} in use by processes outside Rota" if foreign else "")


def _ahead(cluster: Cluster, job_id: int) -> int:
    """How many ready jobs come first: by queue, priority and age; elements counted one by one."""
    job: Job | Array | None = cluster.jobs.get(job_id) or cluster.array_of(job_id)
    if job is None or job.id not in cluster.lanes.where:
        return 0
    place = (rank_of(cluster, job.spec.queue), -job.spec.priority, job.id)
    count = 0
    for lane in cluster.lanes.lanes.values():
        rank = rank_of(cluster, lane.key.queue)
        for item, other in lane.members.items():
            if (rank, *other) < place:
                array = cluster.arrays.get(item)
                count += 1 if array is None else len(array.pending())
    return count


def _advice(cluster: Cluster, decisive: _View, now_s: float) -> list[str]:
    if not decisive.takes_work:
        return ["bring a node back: rota nodes, rota doctor"]
    if not decisive.short:
        return []
    running = [cluster.jobs[i] for i in cluster.by_state[JobState.RUNNING]]
    ends = [j.started_s + j.spec.time_limit_s for j in running if j.spec.time_limit_s]
    unit = decisive.short.rpartition(" ")[2]
    less = {"memory": "less", "disk": "less", "type": "another"}.get(unit, "fewer")
    aid = [f"ask for {less} {decisive.short}"]
    if ends:
        left = format_duration(max(1, ceil(min(ends) - now_s)))
        aid.append(f"wait: the first running job with a limit ends within {left}")
    return aid


def describe_end(state: JobState, cause: Cause, detail: str) -> str:
    """One line for a finished job: its state and first cause."""
    assert state in FINAL
    return f"{state}: {detail}" if detail else f"{state} ({cause})"
