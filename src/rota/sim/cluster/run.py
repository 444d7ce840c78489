"""Recorded jobs through the whole scheduling core: nodes, devices, accounts, preemption.

``play`` drives the same Cluster, the same passes and the same rules of life and death as the live
controller, on a clock of its own. Nothing is random: the same jobs, nodes and policy give the
same result.

A job runs for as long as it was recorded to, wherever it is put. With overrun ``kill`` it ends at
its estimate at the latest, with ``extend`` an estimate is only what a pass believes. A job that
gives way begins again and loses what it did, unless it saves it (the preemption mode
``checkpoint``) or stands still until it may go on (``suspend``). Events of one instant are handled
together and followed by one pass (``batch``), or one by one with a pass after each, arrivals first
(``single``).
"""

from __future__ import annotations

import time
from heapq import heappop, heappush
from itertools import compress
from typing import TYPE_CHECKING

from rota.controller.tick import lifecycle
from rota.controller.tick.plan_events import Passes
from rota.controller.tick.timers import fire_due
from rota.core.changes import events as ev
from rota.core.cluster import Cluster
from rota.core.facts.job import Outcome
from rota.core.facts.policy import Estimates, PreemptMode
from rota.core.facts.states import WAITING, Cause, JobState
from rota.scheduling.order.lengths import run_s_of
from rota.sim.cluster.cast import Arrival, Cast, Particulars, StagePart
from rota.sim.cluster.notes import SimNotes
from rota.sim.run import Run
from rota.sim.settings import BEGIN_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rota.core.facts.job import Job
    from rota.core.facts.node import NodeSpec
    from rota.core.facts.policy import Policy
    from rota.scheduling.registry import Catalog
    from rota.sim.trace import TraceJob

__all__ = ["Particulars", "play"]

#: Moments in a row at which time passes and nothing else: what still waits then waits for ever.
IDLE_MOMENTS_MAX = 10_000

#: Timers that are often moot by the time they ring. A pass for nothing is none that a policy asks
#: for: under an order that moves with time it would decide what no event called for.
MOOT = frozenset({"pass", "time-limit", "window"})

#: (moment, rank among those of one moment, in order of making, job, its round).
Due = tuple[float, int, int, StagePart, int]
END, LEAVE, CANCEL = 1, 2, 3


def play(
    jobs: Sequence[TraceJob],
    nodes: Iterable[NodeSpec],
    policy: Policy,
    *,
    name: str = "",
    events: str = "batch",
    overrun: str = "kill",
    begin_s: float = BEGIN_S,
    particulars: Mapping[int, Particulars] | None = None,
    site: Iterable[ev.AnyEvent] = (),
    load: Callable[[Policy], Catalog] | None = None,
    watch: Callable[[float, Cluster], None] | None = None,
) -> Run:
    """What becomes of the jobs on these nodes under this policy.

    ``particulars`` (by the job's id) replace what is made of a trace's line; ``site`` are facts
    such as queues, shares and quotas that hold from the beginning. ``load`` finds plug-ins.
    ``watch`` sees the Cluster at the end of each moment. Jobs that fit on no set of nodes are
    counted in ``Run.too_large``; those that never started for another reason (their parents
    failed, they were cancelled first, a quota is too small) in ``Run.extra["never_started"]``.
    """
    stage = _Stage(policy, begin_s, load)
    for spec in nodes:
        stage.scribe.emit(ev.NodeRegistered(spec=spec, incarnation="i", boot_id="b"))
    for event in site:
        stage.scribe.emit(event)
    cpu_s = time.process_time()
    cast = Cast(stage.cluster, kill=overrun == "kill")
    arrivals = cast.arrivals(jobs, particulars or {})
    stage.play(arrivals, single=events == "single", watch=watch)
    run = _result(stage, [arrival.part for arrival in arrivals])
    run.policy, run.too_large = name, cast.too_large
    if policy.backfill.estimates is Estimates.PREDICTED:
        run.extra["coverage"] = stage.scribe.forecast.predictor.coverage
    run.cpu_s = time.process_time() - cpu_s
    return run


class _Stage:
    """A Cluster, its passes, and what is to come. Moments are seconds of the trace."""

    def __init__(
        self, policy: Policy, begin_s: float, load: Callable[[Policy], Catalog] | None
    ) -> None:
        self.begin_s = begin_s
        self.cluster = Cluster("sim")
        self.scribe = SimNotes(self.cluster, begin_s)
        self.scribe.emit(ev.PolicySet(policy=policy))
        self.passes = Passes(self.cluster, load)
        self.parts: dict[int, StagePart] = {}
        self.lost_s = 0.0
        self._coming: list[Arrival] = []
        self._due: list[Due] = []
        self._made = 0
        self._withheld: dict[str, ev.AttemptPlaced] = {}
        self._moment_s = 0.0
        #: When the last pass wanted to be woken; 0: only by what happens.
        self._wake_s = 0.0

    def play(
        self,
        arrivals: list[Arrival],
        *,
        single: bool,
        watch: Callable[[float, Cluster], None] | None,
    ) -> None:
        """From moment to moment, until nothing happens any more."""
        self._coming = arrivals[::-1]
        idle = 0
        while (moment_s := self._next_s()) is not None and idle < IDLE_MOMENTS_MAX:
            idle = 0 if self._coming or self._due else idle + 1
            self._moment_s = moment_s
            self.scribe.now_s = max(self.scribe.now_s, self.begin_s + moment_s)
            if single:
                self._one_by_one()
            else:
                self._together()
            self.cluster.take_dirty()
            if watch is not None:
                watch(moment_s, self.cluster)

    def _next_s(self) -> float | None:
        """The next moment: of the trace, or of a timer of the core that rings before."""
        next_s = self._coming[-1].submit_s if self._coming else None
        if self._due and (next_s is None or self._due[0][0] < next_s):
            next_s = self._due[0][0]
        timers = self.cluster.agenda.timers
        if not timers or (next_s is None and not self.parts):
            return next_s
        ring_s = timers[0].at_s
        if next_s is not None and self.begin_s + next_s <= ring_s:
            return next_s
        at_s = max(ring_s - self.begin_s, self._moment_s)
        # A difference is rounded: the clock must not stand a hair before the timer for ever.
        return at_s if self.begin_s + at_s >= ring_s else at_s + 1e-6

    def _together(self) -> None:
        while self._due and self._due[0][0] <= self._moment_s:
            self._happen(heappop(self._due))
        while self._coming and self._coming[-1].submit_s <= self._moment_s:
            self._arrive(self._coming.pop())
        self._decide()

    def _one_by_one(self) -> None:
        """By what is known a job that ends when it is taken to is over before anybody comes."""
        ends: list[Due] = []
        while self._due and self._due[0][0] <= self._moment_s:
            ends.append(heappop(self._due))
        known = [due[1] == END and due[3].ends_as_taken for due in ends]
        for due in compress(ends, known):
            self._happen(due)
        while self._coming and self._coming[-1].submit_s <= self._moment_s:
            self._arrive(self._coming.pop())
            self._decide()
        for due, is_over in zip(ends, known, strict=True):
            if not is_over:
                self._happen(due)
            self._decide()
        self._decide()

    def _push(self, moment_s: float, kind: int, part: StagePart) -> None:
        self._made += 1
        heappush(self._due, (moment_s, kind, self._made, part, part.round))

    def _arrive(self, arrival: Arrival) -> None:
        part = arrival.part
        self.parts[part.number] = part
        spec = self.scribe.forecast.tell(part.number, arrival.spec, self.cluster.policy)
        if spec is not arrival.spec:
            part.estimate_s = run_s_of(self.cluster, spec, spec.roles)
        begin_s = self.begin_s + arrival.not_before_s if arrival.not_before_s else 0.0
        eligible = not spec.dependencies and begin_s <= self.scribe.now_s
        submitted = ev.JobSubmitted(
            job=part.number,
            uid=str(part.number),
            spec=spec,
            eligible=eligible,
            not_before_s=0.0 if eligible else begin_s,
        )
        self.scribe.emit(submitted)
        if not eligible:
            lifecycle.consider(self.scribe, part.number)
        if arrival.cancel_s >= 0:
            self._push(max(arrival.cancel_s, self._moment_s), CANCEL, part)

    def _happen(self, due: Due) -> None:
        _, kind, _, part, round_ = due
        job = self.cluster.jobs.get(part.number)
        if job is None:
            return
        if kind == CANCEL:
            self._cancel(part, job)
        elif part.round == round_ and job.live_attempts:
            if kind == END:
                self._end(part, job, Outcome(part.ends, Cause.EXIT))
            else:
                self._leave(job)

    def _cancel(self, part: StagePart, job: Job) -> None:
        outcome = Outcome(JobState.CANCELLED, Cause.CANCELLED)
        if job.state in WAITING:
            lifecycle.settle(self.scribe, job, outcome)
        else:
            self._end(part, job, outcome)

    def _end(self, part: StagePart, job: Job, outcome: Outcome) -> None:
        """Its time is over, even if it was just being told to give way."""
        for task in job.tasks:
            attempt = task.current
            if attempt is not None and attempt.live:
                self._gone(job, task.index, attempt.uid, Cause.EXIT)
        lifecycle.settle(self.scribe, job, outcome)

    def _leave(self, job: Job) -> None:
        """Whatever of a job was asked to go has gone."""
        for task in job.tasks:
            attempt = task.current
            if attempt is not None and attempt.live and attempt.stop_cause is not None:
                self._gone(job, task.index, attempt.uid, attempt.stop_cause)
        if not job.live_attempts:
            lifecycle.conclude(self.scribe, job)

    def _gone(self, job: Job, task: int, uid: str, cause: Cause) -> None:
        self._withheld.pop(uid, None)
        self.scribe.emit(
            ev.AttemptEnded(
                job=job.id,
                task=task,
                uid=uid,
                ended_s=self.scribe.now_s,
                cause=cause,
                exit_code=0 if cause is Cause.EXIT else None,
            )
        )

    def _decide(self) -> None:
        """Timers, a pass (or several, while there is more to do), and what follows from it."""
        timers, now_s = self.cluster.agenda.timers, self.scribe.now_s
        looks = any(timer.kind not in MOOT for timer in timers if timer.at_s <= now_s)
        fire_due(self.scribe)
        self._settle_accounts()
        more = looks or self.scribe.told or 0.0 < self._wake_s <= now_s
        while more:
            plan = self.passes.run(self.scribe)
            more, self._wake_s = plan.more, plan.wake_s
            self._settle_accounts()
        self.scribe.told = False

    def _settle_accounts(self) -> None:
        """See to whatever the last events mean for the clock."""
        scribe = self.scribe
        for number, still in scribe.paused:
            self._pause(self.parts[number], still)
        scribe.paused.clear()
        while scribe.asked:
            asked, scribe.asked = scribe.asked, {}
            for number in asked:
                self._ask_to_go(number)
        for number, gave_way in scribe.back:
            self._is_back(self.parts[number], gave_way)
        for number in scribe.settled:
            self._is_over(self.parts.pop(number))
        scribe.back.clear()
        scribe.settled.clear()
        self._start_placed()

    def _ask_to_go(self, number: int) -> None:
        job = self.cluster.jobs.get(number)
        if job is None:
            return
        grace_s = self._grace_s(job)
        if grace_s:
            self._push(self._moment_s + grace_s, LEAVE, self.parts[number])
        else:
            self._leave(job)

    def _grace_s(self, job: Job) -> int:
        """As agents are told: somebody waits for the room, unless the time is for saving."""
        rules = self.cluster.policy.preempt
        if self._saves(job):
            return max(job.spec.grace_s, rules.grace_s)
        return min(job.spec.grace_s, rules.grace_s)

    def _saves(self, job: Job) -> bool:
        mode = job.spec.preempt_mode or self.cluster.policy.preempt.mode
        return mode is PreemptMode.CHECKPOINT

    def _is_back(self, part: StagePart, gave_way: bool) -> None:
        """It waits again: with what it has done, or from the beginning."""
        part.gave_way += gave_way
        part.round += 1
        part.stop(self._moment_s)
        part.start_s = None
        if self._saves(self.cluster.jobs[part.number]):
            part.left_s = max(part.left_s - part.done_s, 0)
        else:
            self.lost_s += part.job.procs * part.done_s
        part.done_s = 0

    def _pause(self, part: StagePart, still: bool) -> None:
        part.round += 1
        if still:
            part.stop(self._moment_s)
        elif part.start_s is not None:
            self._go_on(part)

    def _is_over(self, part: StagePart) -> None:
        part.round += 1
        part.stop(self._moment_s)
        if part.start_s is not None:
            part.over_s = self._moment_s

    def _start_placed(self) -> None:
        """Whatever was placed and waits for nobody starts."""
        nodes, placed = self.cluster.nodes, self.scribe.placed
        if self._withheld:
            free = [
                uid
                for uid, event in self._withheld.items()
                if uid not in nodes[event.allocation.node].withheld
            ]
            placed += [self._withheld.pop(uid) for uid in free]
        for event in placed:
            if event.uid not in self.cluster.live.where:
                continue
            if event.uid in nodes[event.allocation.node].withheld:
                self._withheld[event.uid] = event
            else:
                self._start(event)
        placed.clear()

    def _start(self, event: ev.AttemptPlaced) -> None:
        part = self.parts[event.job]
        self.scribe.emit(
            ev.AttemptStarted(
                job=event.job, task=event.task, uid=event.uid, pid=1, started_s=self.scribe.now_s
            )
        )
        if part.start_s is None:
            part.start_s = self._moment_s
            part.round += 1
            live = self.cluster.jobs[event.job].live_attempts
            part.nodes = ",".join(dict.fromkeys(a.allocation.node for a in live))
            self._go_on(part)

    def _go_on(self, part: StagePart) -> None:
        part.began_s = self._moment_s
        self._push(self._moment_s + part.left_s - part.done_s, END, part)


def _result(stage: _Stage, parts: list[StagePart]) -> Run:
    """Those that ran to their end, as columns."""
    over = [part for part in parts if part.over_s is not None]
    devices = sum(len(node.spec.devices) for node in stage.cluster.nodes.values())
    cpus = sum(node.spec.cpu_milli for node in stage.cluster.nodes.values()) // 1000
    run = Run(
        policy="",
        jobs=[part.job for part in over],
        capacity=devices or cpus,
        unit="GPUs" if devices else "processors",
        start_s=[part.start_s for part in over if part.start_s is not None],
        end_s=[part.over_s for part in over if part.over_s is not None],
        estimate_s=[part.estimate_s for part in over],
        nodes=[part.nodes for part in over],
        killed=[place for place, part in enumerate(over) if part.limited],
        lost_s=stage.lost_s,
        pieces=[
            (place, *piece)
            for place, part in enumerate(over)
            if len(part.pieces) > 1
            for piece in part.pieces
        ],
    )
    if any(part.gave_way for part in over):
        run.preemptions = [part.gave_way for part in over]
    run.extra["never_started"] = len(parts) - len(over)
    return run
