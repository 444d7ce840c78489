"""A small cluster: what one job costs in the queue, in placement, and from submit to decision."""

from __future__ import annotations

import statistics
import time
from random import Random
from typing import TYPE_CHECKING

from bench import crowd, gauge, past
from bench.report import Row, value_at_most
from rota.controller.chores.garbage import quiet_collector
from rota.core.changes import events as ev
from rota.core.changes.apply import apply
from rota.core.facts.job import JobSpec, Role
from rota.scheduling.order.heads import entry_in
from rota.scheduling.passes import Pass
from rota.scheduling.place.gang import place
from rota.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from bench.context import Context
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane, Lanes

SECTION = "core"
NODES = 96
QUEUED = 1_000
NOW_S = 5_000.0
#: Microseconds, as the requirement has them.
QUEUE_MAX, PLACEMENT_MAX, DECISION_MAX = 1, 100, 200


def measure(context: Context) -> list[Row]:
    rounds = context.pick(2_000, 500)
    quiet_collector()
    return [queue_row(rounds), placement_row(rounds), decision_row(rounds)]


def row(what: str, times_us: list[float], most: float) -> Row:
    note = f"p90 {gauge.quantile(times_us, 0.9):.1f} us, {len(times_us)} rounds"
    return Row(SECTION, what, statistics.median(times_us), "us", bar=value_at_most(most), note=note)


def queue_row(rounds: int) -> Row:
    """One more job at the end of a lane of a thousand, and the first one out, by turns."""
    cluster = crowd.site(1, QUEUED)
    lanes: Lanes = cluster.lanes
    lane: Lane = max(lanes.lanes.values(), key=len)
    for number in range(10**6, 10**6 + QUEUED):
        lanes.add(lane.key, (-lane.key.priority, number))
    newest, key, priority = 2 * 10**6, lane.key, -lane.key.priority
    oldest = [number for _, number in lane.walk()]
    times: list[float] = []
    for at in range(min(rounds, len(oldest) // 10)):
        began = time.process_time_ns()
        for step in range(10):
            lanes.add(key, (priority, newest + at * 10 + step))
            lanes.remove(oldest[at * 10 + step])
        times.append((time.process_time_ns() - began) / 20 / 1000)
    return row("queue operation (one in or one out), 1,000 in the lane", times, QUEUE_MAX)


def half_full() -> tuple[Cluster, Scheduler]:
    """Nodes with work on them, and nobody who waits."""
    cluster = crowd.site(NODES, 2 * NODES)
    scheduler = Scheduler(cluster)
    past.commit(cluster, scheduler.run(NOW_S, 10**6), NOW_S, Random(5))
    for job in [number for number in cluster.lanes.where]:
        outcome = past.CANCELLED
        apply(cluster, ev.JobSettled(job=job, outcome=outcome), NOW_S)
    scheduler.run(NOW_S, 10**6)
    return cluster, scheduler


def small_specs(count: int) -> list[JobSpec]:
    """Jobs of one task each, of all shapes that have one."""
    chance = Random(9)
    singles = [(request, limit_s) for request, tasks, limit_s in crowd.shapes() if tasks == 1]
    return [
        JobSpec(
            name="job", user=f"u{chance.randrange(crowd.USERS)}", command=("true",),
            roles=(Role(count=1, request=request),), time_limit_s=limit_s,
        )
        for request, limit_s in chance.choices(singles, k=count)
    ]  # fmt: skip


def placement_row(rounds: int) -> Row:
    """Find the best node, choose CPUs and devices there, take them."""
    cluster, scheduler = half_full()
    times: list[float] = []
    for number, spec in enumerate(small_specs(rounds)):
        job = 10**6 + number
        apply(cluster, ev.JobSubmitted(job=job, uid=f"u{job}", spec=spec, eligible=True), NOW_S)
        this = Pass(scheduler, NOW_S, scheduler.rules())
        entry = entry_in(cluster, cluster.lanes.where[job], job)
        began = time.process_time_ns()
        placed = place(this.asker(entry))
        took = time.process_time_ns() - began
        if placed is not None:
            times.append(took / 1000)
            for _, allocation in placed:
                this.space.give_back(allocation.node, allocation)
        apply(cluster, ev.JobSettled(job=job, outcome=past.CANCELLED), NOW_S)
    return row(f"placement of a task, {NODES} nodes half full", times, PLACEMENT_MAX)


def decision_row(rounds: int) -> Row:
    """A job comes in, a pass decides its start; then, outside of the clock, it runs and ends."""
    cluster, scheduler = half_full()
    times: list[float] = []
    for number, spec in enumerate(small_specs(rounds)):
        job, now_s = 10**6 + number, NOW_S + 1 + number * 0.01
        event = ev.JobSubmitted(job=job, uid=f"u{job}", spec=spec, eligible=True)
        began = time.process_time_ns()
        apply(cluster, event, now_s)
        plan = scheduler.run(now_s)
        took = time.process_time_ns() - began
        if plan.starts:
            times.append(took / 1000)
            past.commit(cluster, plan, now_s)
            past.end(cluster, job, now_s)
        else:
            apply(cluster, ev.JobSettled(job=job, outcome=past.CANCELLED), now_s)
        # The room that it gave back is taken in by a pass of its own.
        scheduler.run(now_s)
    return row(f"submit to decided start, {NODES} nodes, no disk", times, DECISION_MAX)
