"""The scheduling core by itself: whole passes over a large site, in this process, without a disk.

The site has nodes of six kinds; the queue has two hundred shapes, a fifth of them gangs, three
tenths on shared devices, and twenty users. A *placement* is one task that is given room.
"""

from __future__ import annotations

import gc
import statistics
from random import Random
from typing import TYPE_CHECKING

import msgspec

from bench import core_growth, core_small, crowd, gauge, kernel, past
from bench.report import Row, against, value_at_least, value_at_most
from rota.controller.chores.garbage import quiet_collector
from rota.core.changes import events as ev
from rota.core.changes.apply import apply
from rota.core.facts.policy import Backfill, Policy
from rota.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from bench.context import Context
    from bench.gauge import Took
    from rota.core.cluster import Cluster
    from rota.scheduling.api import PassResult

SECTION = "core"
NOW_S = 5_000.0
#: No limit on the starts of one pass.
ALL = 10**9

PLACEMENTS_MIN = 20_000
INCREMENTAL_MS_MAX = 10
EASY_S_MAX = 5
PREEMPT_MS_MAX = 1_000


def measure(context: Context) -> list[Row]:
    rows: list[Row] = []
    for part in (large, preempting, core_growth.measure, core_small.measure):
        context.say(f"core: {part.__module__.rpartition('.')[2]}.{part.__name__}")
        rows += part(context)
    return rows


def rounds_of(cluster: Cluster, now_s: float, rounds: int) -> tuple[list[Took], PassResult]:
    """The same pass from cold, again and again: a new Scheduler knows nothing yet."""
    found = []
    plan = None
    for _ in range(rounds):
        # What the last round left behind is not this one's to clear away.
        plan = None
        gc.collect()
        with gauge.taking() as took:
            plan = Scheduler(cluster).run(now_s, ALL)
        found.append(took)
    assert plan is not None
    return found, plan


def large(context: Context) -> list[Row]:
    """Full passes, what EASY adds, and passes after single ends in the steady state."""
    node_count, job_count = context.pick(10_000, 1_000), context.pick(100_000, 10_000)
    gauge.forget_peak()
    before = gauge.memory_mib()
    cluster = crowd.site(node_count, job_count)
    loaded = gauge.memory_mib()
    quiet_collector()
    took, plan = rounds_of(cluster, NOW_S, context.pick(5, 3))
    peak = gauge.memory_mib("VmHWM")
    size = f"{job_count:,} jobs on {node_count:,} nodes"
    rows = full_rows(cluster, plan, took, size)
    rows.append(Row(
        SECTION, "memory: the process at its highest", peak, "MiB",
        note=f"{before:.0f} before, {loaded - before:.0f} more with the site loaded, "
        f"{peak - loaded:.0f} more for the passes",
    ))  # fmt: skip
    easy = gauge.median_cpu_s(took)
    rows += easy_rows(context, cluster, size, easy, len(plan.starts))
    return rows + steady_rows(context, cluster, plan)


def full_rows(cluster: Cluster, plan: PassResult, took: list[Took], size: str) -> list[Row]:
    seconds = gauge.median_cpu_s(took)
    tasks = sum(len(start.allocations) for start in plan.starts)
    best = kernel.placements_per_s(cluster)
    rate = tasks / seconds
    return [
        against(
            SECTION, f"full pass, {size}: placements", "/s", rate,
            "bare kernel, same queue", best, value_at_least(PLACEMENTS_MIN),
            note=f"{tasks:,} tasks; {gauge.spread(took)}" + ("" if best else kernel.ABSENT),
        ),
        Row(SECTION, f"full pass, {size}: jobs", len(plan.starts) / seconds, "/s",
            note=f"{len(plan.starts):,} jobs started"),
    ]  # fmt: skip


def easy_rows(
    context: Context, cluster: Cluster, size: str, easy_s: float, starts: int
) -> list[Row]:
    """The same pass with and without EASY; the default looks ahead over the whole queue."""
    usual = cluster.policy
    assert usual.backfill.kind is Backfill.EASY
    assert not usual.backfill.look_ahead
    rules = msgspec.structs.replace(usual.backfill, kind=Backfill.NONE)
    plain = msgspec.structs.replace(usual, backfill=rules)
    apply(cluster, ev.PolicySet(policy=plain), NOW_S)
    took, plan = rounds_of(cluster, NOW_S, context.pick(3, 3))
    apply(cluster, ev.PolicySet(policy=usual), NOW_S)
    none_s = gauge.median_cpu_s(took)
    return [
        against(
            SECTION, f"EASY over the whole queue, {size}", "s", easy_s, "no backfill, s", none_s,
            value_at_most(EASY_S_MAX),
            note=f"{starts:,} jobs start, without backfill {len(plan.starts):,}",
        )
    ]  # fmt: skip


def steady_rows(context: Context, cluster: Cluster, plan: PassResult) -> list[Row]:
    """The site is full; single jobs end, and each time one pass follows."""
    scheduler = Scheduler(cluster)
    past.commit(cluster, plan, NOW_S, Random(5))
    with gauge.taking() as whole:
        scheduler.run(NOW_S + 1, ALL)
    with gauge.taking() as unchanged:
        scheduler.run(NOW_S + 1, ALL)
    chance = Random(1)
    running = sorted({job for job, _ in cluster.live.where.values()})
    chance.shuffle(running)
    quiet_collector()
    passes: list[float] = []
    starts = 0
    for number, job in enumerate(running[: context.pick(100, 50)]):
        now_s = NOW_S + 2 + number * 0.1
        past.end(cluster, job, now_s)
        with gauge.taking() as took:
            found = scheduler.run(now_s, ALL)
        passes.append(took.cpu_s * 1000)
        starts += len(found.starts)
        past.commit(cluster, found, now_s)
    waiting = len(cluster.lanes.where)
    return [
        Row(SECTION, "pass after one job ended, median", statistics.median(passes), "ms",
            bar=value_at_most(INCREMENTAL_MS_MAX),
            note=f"p90 {gauge.quantile(passes, 0.9):.1f} ms, worst {max(passes):.1f} ms, "
            f"{len(passes)} ends, {starts} starts, {waiting:,} jobs wait"),
        Row(SECTION, "pass after nothing changed", unchanged.cpu_s * 1000, "ms"),
        Row(SECTION, "pass over the whole queue, site full", whole.cpu_s * 1000, "ms",
            note="every lane is looked at, nothing starts, one promise is made"),
    ]  # fmt: skip


def preempting(context: Context) -> list[Row]:
    """A site full of jobs that may be evicted, and a burst of urgent ones of all shapes."""
    node_count = context.pick(1_000, 300)
    usual = Policy()
    rules = msgspec.structs.replace(usual.preempt, enabled=True, max_per_pass=1_000)
    policy = msgspec.structs.replace(usual, preempt=rules)
    took, evictions, starts = [], 0, 0
    for seed in range(context.pick(5, 3)):
        cluster = crowd.site(
            node_count, node_count * 10, policy, seed, priority=25, preemptible=True
        )
        scheduler = Scheduler(cluster)
        past.commit(cluster, scheduler.run(NOW_S, ALL), NOW_S)
        later_s = NOW_S + 2 * rules.min_runtime_s
        scheduler.run(later_s, ALL)
        crowd.submit(cluster, 200, later_s, seed + 100, priority=90)
        quiet_collector()
        with gauge.taking() as one:
            plan = scheduler.run(later_s + 1, ALL)
        took.append(one)
        evictions += len(plan.evictions)
        starts += len(plan.starts)
    rounds = len(took)
    whole_s = sum(one.cpu_s for one in took)
    return [
        Row(SECTION, f"pass with preemption, 200 urgent jobs on {node_count:,} full nodes",
            gauge.median_cpu_s(took) * 1000, "ms", bar=value_at_most(PREEMPT_MS_MAX),
            note=f"{evictions / rounds:.0f} evictions for {starts / rounds:.0f} starts; "
            + gauge.spread(took)),
        Row(SECTION, "pass with preemption: each start", 1000 * whole_s / max(starts, 1), "ms"),
        Row(SECTION, "pass with preemption: each eviction",
            1000 * whole_s / max(evictions, 1), "ms"),
    ]  # fmt: skip
