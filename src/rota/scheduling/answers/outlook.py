"""What would become of a job that is not submitted: ``rota plan``."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.node import Allocation
from rota.scheduling.answers.advice import HUGE, LARGE, Adviser, AskerRights, size_of
from rota.scheduling.answers.explain import Inquiry
from rota.scheduling.answers.prose import lines_of, short
from rota.scheduling.answers.reasons import Decision, Expected, Soon, Tree
from rota.scheduling.answers.waiting_line import part_of
from rota.scheduling.answers.whatif import DEPTH, Added, ComingTakeover, WhatIf, start_in

if TYPE_CHECKING:
    from rota.core.facts.job import JobSpec
    from rota.scheduling.api import PassResult, Promise
    from rota.scheduling.scheduler import Scheduler

#: Less is not worth telling.
DELAY_MIN_S = 1.0


class Delay(msgspec.Struct, frozen=True):
    """A waiting job that would start later."""

    job: int
    start_s: float
    later_s: float


class Outlook(msgspec.Struct, kw_only=True):
    """Whether a job would start now and where, or when, and what it would mean for other jobs."""

    starts: bool
    decision: Decision
    #: Where it would run: now, or (if ``start_s`` is later) then.
    allocations: tuple[Allocation, ...] = ()
    #: When it starts if everything goes to plan; 0: it is not known.
    start_s: float = 0.0
    reason: str = ""
    lines: list[str] = []
    help: list[str] = []
    tree: Tree
    #: Running jobs that would give way to it.
    evicts: tuple[int, ...] = ()
    #: Waiting jobs that would start later because of it, as far as that was worked out.
    delays: tuple[Delay, ...] = ()
    #: Of one that waits: the nodes in service that it may use.
    part: frozenset[str] = frozenset()


def outlook(
    scheduler: Scheduler,
    spec: JobSpec,
    now_s: float,
    rights: AskerRights | None = None,
    *,
    held: bool,
    advice: bool = True,
) -> Outlook:
    """Try the submit of one job (of an array: of its first element), without a trace.

    ``advice``: look for what would help, too.
    """
    with WhatIf(scheduler, now_s) as world:
        small = size_of(world.cluster) <= LARGE
        before = world.foretell(DEPTH) if small else {}
        job = world.cluster.ids.next
        world.make(Added(spec, held))
        plan = world.run()
        after = world.foretell(DEPTH) if small else {}
        start = start_in(plan, job)
        if start is not None:
            answer = _started(plan, job, start.allocations, now_s)
        else:
            world.run()
            answer = _waiting(world, job, after.get(job), now_s)
        answer.delays = _delays(before, after)
        world.take_back()
        if advice and start is None and size_of(world.cluster) <= HUGE:
            adviser = Adviser(world, job, spec, answer.tree, rights or AskerRights())
            answer.help = [str(advice) for advice in adviser.find()]
        return answer


def _started(
    plan: PassResult, job: int, allocations: tuple[Allocation, ...], now_s: float
) -> Outlook:
    reason = Soon(node=allocations[0].node)
    nodes = dict.fromkeys(held.node for held in allocations)
    text = f"it would start now on {', '.join(nodes)}"
    return Outlook(
        starts=True,
        decision=Decision.SCHEDULED,
        allocations=allocations,
        start_s=now_s,
        reason=text,
        tree=Tree(decision=Decision.SCHEDULED, reason=reason),
        evicts=tuple(eviction.job for eviction in plan.evictions if eviction.by == job),
    )


def _waiting(world: WhatIf, job: int, promise: Promise | None, now_s: float) -> Outlook:
    tree, lane = Inquiry(world.scheduler, now_s).tree(job), world.cluster.lanes.where.get(job)
    if promise is not None and tree.expected is None:
        tree.expected = Expected.by(promise, promised=False)
    planned: Promise | ComingTakeover | None = promise
    known, found = tree.expected, None
    if size_of(world.cluster) <= LARGE:
        found = world.takeover(job, known.start_s if known is not None else inf)
    if found is not None:
        planned, tree.expected = found, Expected.by_takeover(found)
    return Outlook(
        starts=False,
        decision=tree.decision,
        allocations=planned.allocations if planned is not None else (),
        start_s=planned.start_s if planned is not None else 0.0,
        reason=short(tree.reason, now_s),
        lines=lines_of(tree, now_s),
        tree=tree,
        part=part_of(world.scheduler, lane.key.shape) if lane is not None else frozenset(),
    )


def _delays(before: dict[int, Promise], after: dict[int, Promise]) -> tuple[Delay, ...]:
    late = [
        Delay(job, promise.start_s, after[job].start_s)
        for job, promise in before.items()
        if job in after and after[job].start_s > promise.start_s + DELAY_MIN_S
    ]
    return tuple(sorted(late, key=lambda delay: (delay.start_s, delay.job)))
