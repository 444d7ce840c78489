"""The promises that can be checked on a Cluster at any instant, written once.

Tests and worlds check them after every tick; a controller started with ``ROTA_CHECK=1`` does too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.changes.charging import derive_count
from rota.core.derived.census import caps_of
from rota.core.derived.holdings import Holdings, uncharged_s
from rota.core.derived.running import Running
from rota.core.derived.waiting import WaitingCounts
from rota.core.facts.states import ACTIVE, FINAL, WAITING, JobState, Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job
    from rota.core.facts.loans import Loan
    from rota.core.facts.node import Allocation, Node


def violations(cluster: Cluster) -> list[str]:
    """What is wrong, in words; empty when every promise holds."""
    return [
        *_one_live_attempt(cluster),
        *_capacity(cluster),
        *_loans(cluster),
        *_indexes(cluster),
        *_caps(cluster),
        *_holdings(cluster),
        *_waiting(cluster),
        *_ends(cluster),
    ]


def check(cluster: Cluster) -> None:
    """Raise ``AssertionError`` with everything that is wrong."""
    wrong = violations(cluster)
    if wrong:
        raise AssertionError("; ".join(wrong))


def _one_live_attempt(cluster: Cluster) -> Iterator[str]:
    """Promise B: at most one live attempt of a task, and the index knows exactly these."""
    live: dict[str, tuple[int, int]] = {}
    for job in cluster.jobs.values():
        for task in job.tasks:
            alive = [attempt for attempt in task.attempts if attempt.live]
            if len(alive) > 1 or (alive and alive[0] is not task.attempts[-1]):
                yield f"job {job.id} task {task.index} has more than its last attempt alive"
            for attempt in alive:
                live[attempt.uid] = (job.id, task.index)
    if live != cluster.live.where:
        yield f"live index differs: {sorted(set(live) ^ set(cluster.live.where))}"
    held = {uid for node in cluster.nodes.values() for uid in node.live}
    known = {u for u in live if _node_of(cluster, u) in cluster.nodes}
    if held != known:
        yield f"nodes hold room for {sorted(held ^ known)}"


def _node_of(cluster: Cluster, uid: str) -> str:
    job_id, task = cluster.live.where[uid]
    return cluster.jobs[job_id].tasks[task].attempts[-1].allocation.node


def _capacity(cluster: Cluster) -> Iterator[str]:
    """Promise F: never more handed out than there is, in any dimension, on any device.

    A site may overcommit CPUs and memory; what is guaranteed stays within what really exists.
    A node that became smaller keeps what it has; what is over gets no newcomer.
    """
    rules = cluster.policy.place
    for node in cluster.nodes.values():
        spec, room = node.spec, node.headroom()
        cpu_milli = room.cpu_milli + int(spec.cpu_milli * (rules.overcommit_cpu - 1))
        memory_mib = room.memory_mib + int(spec.memory_mib * (rules.overcommit_memory - 1))
        over = (cpu_milli < 0, memory_mib < 0, room.disk_mib < 0)
        if any(over) and any(map(_adds_to(over), _newcomers(node))):
            yield f"node {node.name} is over its capacity: {room}"
        yield from _devices(node)
        yield from _firm(node)
        yield from _ports(cluster, node)


def _newcomers(node: Node) -> list[Allocation]:
    """What is held by attempts that came after the node was last made smaller."""
    return [held for uid, held in _holding(node) if uid not in node.outgrown]


def _adds_to(over: tuple[bool, bool, bool]) -> Callable[[Allocation], bool]:
    """Whether an allocation takes anything of what there is too little of."""
    cpu, memory, disk = over
    return lambda held: bool(
        (cpu and held.cpu_milli) or (memory and held.memory_mib) or (disk and held.disk_mib)
    )


def _holding(node: Node) -> list[tuple[str, Allocation]]:
    """What is really held: nothing yet by attempts that wait for others to leave, and by those
    that were handed to an engine before there is room.
    """
    return [
        (uid, held)
        for uid, held in node.live.items()
        if uid not in node.withheld and not held.early
    ]


def _firm(node: Node) -> Iterator[str]:
    holding = _holding(node)
    firm = [held for _, held in holding if held.firm]
    over = (
        sum(held.cpu_milli for held in firm) > node.spec.cpu_milli,
        sum(held.memory_mib for held in firm) > node.spec.memory_mib,
        False,
    )
    newcomers = [held for held in _newcomers(node) if held.firm]
    if any(over) and any(map(_adds_to(over), newcomers)):
        yield f"node {node.name} has guaranteed more than it has"
    alone = [uid for uid, held in holding if held.exclusive]
    jobs = {uid.rpartition(".")[0].rpartition(".")[0] for uid, _ in holding}
    if alone and len(jobs) > 1:
        yield f"node {node.name} is the own of {alone[0]} and has others"


def _ports(cluster: Cluster, node: Node) -> Iterator[str]:
    """No two gangs meet at one port of a node."""
    held: set[int] = set()
    for uid in node.live:
        job_id, task = cluster.live.where.get(uid, (0, 0))
        job = cluster.jobs.get(job_id)
        port = job.tasks[task].attempts[-1].port if job is not None else 0
        if port and port in held:
            yield f"node {node.name}: port {port} of {uid} is held twice"
        held.add(port)


def _devices(node: Node) -> Iterator[str]:
    known = {device.index: device for device in node.spec.devices}
    alone: set[int] = set()
    shared: dict[int, int] = {}
    cpus: set[int] = set()
    for uid, held in _holding(node):
        if cpus & set(held.cpus):
            yield f"node {node.name}: CPUs of {uid} are held twice"
        cpus |= set(held.cpus)
        for index in held.devices:
            if held.shared:
                share = held.share_of(known[index]) if index in known else 1
                shared[index] = shared.get(index, 0) + share
            elif index in alone:
                yield f"node {node.name}: device {index} is held twice"
            else:
                alone.add(index)
    new = {index for held in _newcomers(node) for index in held.devices}
    for index, used in shared.items():
        memory_mib = known[index].memory_mib if index in known else 0
        if index in alone or (used > memory_mib and index in new):
            yield f"node {node.name}: device {index} is shared beyond its memory or beside an owner"


def _loans(cluster: Cluster) -> Iterator[str]:
    """Lenders of CPUs stand still, or are told to end; nodes know what lenders have left."""
    derived: dict[str, dict[str, Loan]] = {}
    for uid, (job_id, task) in cluster.live.where.items():
        job = cluster.jobs[job_id]
        attempt = job.tasks[task].attempts[-1]
        for loan in attempt.borrows:
            if loan.lender in cluster.live.where:
                derived.setdefault(loan.lender, {})[uid] = loan
        if uid in cluster.live.loans and not job.suspended_s and attempt.stop_cause is None:
            yield f"job {job_id} runs and lends its CPUs"
        node = cluster.nodes.get(attempt.allocation.node)
        if node is not None and node.live.get(uid) != cluster.live.held_by(attempt):
            yield f"node {node.name} does not know what {uid} holds"
    if derived != cluster.live.loans:
        yield f"loans differ: {sorted(set(derived) ^ set(cluster.live.loans))}"


def _indexes(cluster: Cluster) -> Iterator[str]:
    """Derived indexes say what the facts say."""
    for job in cluster.jobs.values():
        if job.id not in cluster.census.by_state.get(job.state, {}):
            yield f"job {job.id} is {job.state} and indexed elsewhere"
        if job.state in FINAL:
            yield f"job {job.id} has ended and is still among the unfinished"
        yield from _lane_of(cluster, job)
    count = sum(len(ids) for ids in cluster.census.by_state.values())
    if count != len(cluster.jobs):
        yield f"{count} jobs indexed by state, {len(cluster.jobs)} on record"


def _lane_of(cluster: Cluster, job: Job) -> Iterator[str]:
    lane = cluster.lanes.where.get(job.id)
    ready = job.state in (JobState.QUEUED, JobState.PREEMPTED) and job.eligible_s > 0
    if ready != (lane is not None):
        yield f"job {job.id} ({job.state}) is {'not ' if ready else ''}in a lane"
    if lane is not None:
        key = cluster.lanes.key_of(job.spec, cluster.capped_array(job))
        if lane.key != key or lane.members.get(job.id) != (-job.spec.priority, job.id):
            yield f"job {job.id} is in the wrong lane or place"


def _caps(cluster: Cluster) -> Iterator[str]:
    """Counters are the jobs that hold room; a cap that was lowered may be exceeded a while."""
    active: dict[tuple[str, str | int], set[int]] = {}
    for job in cluster.jobs.values():
        if job.state in ACTIVE:
            for cap in caps_of(job):
                active.setdefault(cap, set()).add(job.id)
    if active != {cap: set(ids) for cap, ids in cluster.census.active_in.items()}:
        yield "the counters under caps differ from the active jobs"


def _holdings(cluster: Cluster) -> Iterator[str]:
    """Sums by account are the sums over live attempts."""
    derived, running = Holdings(), Running()
    for job_id, task in cluster.live.where.values():
        job = cluster.jobs[job_id]
        attempt = job.tasks[task].attempts[-1]
        count = derive_count(cluster, attempt)
        derived.shift(job.spec, count, 1)
        if attempt.phase is Phase.RUNNING:
            running.shift(job.spec, count.used, uncharged_s(attempt), 1)
    if (derived.of, derived.lent) != (cluster.accounts.holdings.of, cluster.accounts.holdings.lent):
        yield "the sums by account differ from the live attempts"
    if running.of != cluster.accounts.running.of:
        yield "the paces by account differ from the running attempts"


def _waiting(cluster: Cluster) -> Iterator[str]:
    """Counts of waiting jobs by account are the waiting jobs and the untouched elements."""
    derived = WaitingCounts()
    for job in cluster.jobs.values():
        ready = job.id in cluster.lanes.where
        derived.put(job.id, job.spec, int(job.state in WAITING), ready=ready)
    for array in cluster.arrays.values():
        ready = array.id in cluster.lanes.where
        derived.put(array.id, array.spec, len(array.pending()), ready=ready)
    if (derived.of, derived.owned) != (
        cluster.accounts.waiting.of,
        cluster.accounts.waiting.owned,
    ):
        yield "the counts of waiting jobs by account differ from the jobs"


def _ends(cluster: Cluster) -> Iterator[str]:
    """Promise E: a job that waits without being ready has something to wait for."""
    due = {timer.id for timer in cluster.agenda.timers}
    for job in cluster.jobs.values():
        if job.state in (JobState.QUEUED, JobState.PREEMPTED) and not job.eligible_s:
            waits = any(job.id in children for children in cluster.families.children.values())
            if not waits and not (job.not_before_s and job.id in due):
                yield f"job {job.id} waits for nothing"
