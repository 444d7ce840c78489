"""What would start a waiting job now: the smallest single changes, each tried before it is told.

Steps of a knob are searched by halves, so a few real passes find the largest amount that works.
How many passes are run is bounded, and by less on a large cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.core.facts.array import Array
from rota.core.facts.job import Job
from rota.core.facts.policy import Backfill
from rota.core.facts.states import ACTIVE
from rota.scheduling.answers import reasons as why
from rota.scheduling.answers.explain import Explanation, Inquiry, explain
from rota.scheduling.answers.possible_changes import knobs
from rota.scheduling.answers.prose import lines_of, short, span
from rota.scheduling.answers.remedies import remedies
from rota.scheduling.answers.whatif import DEPTH, Added, JobGone, Respec, Supposed, WhatIf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Counter
    from rota.core.facts.job import JobSpec
    from rota.scheduling.answers.possible_changes import OtherWish
    from rota.scheduling.answers.reasons import Tree
    from rota.scheduling.scheduler import Scheduler

#: Passes for one question, and on a cluster with more nodes and lanes than that.
TRIALS, LARGE, TRIALS_LARGE = 40, 2000, 10
#: Beyond this even a single pass from nothing would hold up all other requests: nothing is tried.
HUGE = 20_000
#: Advices that are told.
TOLD = 3


class AskerRights(NamedTuple):
    """What the asking user may do, as far as advice depends on it."""

    operator: bool = False
    #: The highest priority that this user may give.
    priority_max: int = 75


class Advice(msgspec.Struct, frozen=True):
    """One change that starts the job now, and the command that makes it."""

    text: str
    command: str
    #: What it costs the job, from 0 to 1.
    loss: float = 0.0
    #: Only an operator may do it, and the rights is none.
    operator: bool = False

    def __str__(self) -> str:
        by = " (an operator can)" if self.operator else ""
        return f"{self.text}{by}" + (f": {self.command}" if self.command else "")


def explain_and_advise(
    scheduler: Scheduler, job_id: int, now_s: float, rights: AskerRights | None = None
) -> Explanation:
    """The whole answer to ``rota why``: reasons, expected start, and what would help."""
    told = explain(scheduler, job_id, now_s)
    inquiry = Inquiry(scheduler, now_s)
    item = inquiry.find(job_id)
    waits = item is not None and not (isinstance(item, Job) and item.state in ACTIVE)
    if item is None or not waits or size_of(inquiry.cluster) > HUGE:
        return told
    with WhatIf(scheduler, now_s) as world:
        adviser = Adviser(world, job_id, item.spec, told.tree, rights or AskerRights(), item=item)
        found = adviser.find()
        told.tree.expected = adviser.expected()
        told.lines = lines_of(told.tree, now_s)
        told.help = [str(advice) for advice in found]
        if not found:
            line, step = adviser.without_hope()
            told.lines += [line] if line else []
            told.help += [step] if step else []
    return told


def size_of(cluster: Cluster) -> int:
    """What a pass from nothing has to look at."""
    return len(cluster.nodes) + len(cluster.lanes.lanes)


@dataclass
class Adviser:
    """Looks for what would start one job, inside a world of trials."""

    world: WhatIf
    job: int
    spec: JobSpec
    tree: Tree
    rights: AskerRights
    #: None: the job is hypothetical, and advice is about its options.
    item: Job | Array | None = None

    @property
    def _trials_max(self) -> int:
        return TRIALS if size_of(self.world.cluster) <= LARGE else TRIALS_LARGE

    def _as(self, spec: JobSpec) -> Supposed:
        return Added(spec) if self.item is None else Respec(self.job, spec)

    def _starts(self, *changes: Supposed) -> bool:
        if self.world.trials >= self._trials_max:
            return False
        return self.world.start_of(self.job, *changes) is not None

    def find(self, most: int = TOLD) -> list[Advice]:
        """Changes that work, the smallest first."""
        self.world.run()
        found = list(self._by_site())
        if not self._blocked_by_state() and not any(advice.loss == 0 for advice in found):
            found += self._by_spec()
        found.sort(key=lambda advice: (advice.operator, advice.loss))
        return found[:most]

    def _blocked_by_state(self) -> bool:
        """A hold, a dependency or a begin time: asking for less does not help."""
        kinds = why.Held | why.NotBefore | why.Parent
        return any(isinstance(reason, kinds) for reason in self.tree.unsatisfied)

    def _by_site(self) -> Iterator[Advice]:
        """What keeps the job from starting beside its own wishes."""
        if self._blocked_by_state():
            yield from self._let_go()
            return
        for reason in self.tree.unsatisfied:
            for remedy in remedies(reason, self.world.cluster):
                if self._starts(remedy.change, self._as(self.spec)):
                    text, command, _, loss, operator = remedy
                    yield Advice(text, command, loss, operator and not self.rights.operator)
            if isinstance(reason, why.OverQuota):
                yield from self._own_jobs(reason)

    def _let_go(self) -> Iterator[Advice]:
        """What it waits for besides room. Of a hold ``without_hope`` tells."""
        reasons = self.tree.unsatisfied
        own = [r for r in reasons if isinstance(r, why.Held | why.NotBefore | why.Parent)]
        if self.item is None or not self._starts(self._as(self.spec)):
            return
        changes = []
        for reason in own:
            if isinstance(reason, why.NotBefore) and not reason.retry:
                changes.append(("let it begin now", "--begin now"))
            elif isinstance(reason, why.Parent):
                changes.append((f"do not wait for job {reason.job}", "--no-dependencies"))
            else:
                return
        text, options = " and ".join(t for t, _ in changes), " ".join(o for _, o in changes)
        yield Advice(text, f"rota update {self.job} {options}", 0.1)

    def _own_jobs(self, reason: why.OverQuota) -> Iterator[Advice]:
        """An own job under the same cap could make way: the one that has run least."""
        cluster, user = self.world.cluster, self.spec.user
        kind, _, name = reason.scope.partition(" ")
        counter: Counter = ("user", user)
        if kind in ("group", "array"):
            counter = (kind, int(name) if kind == "array" else name)
        running = [cluster.jobs[j] for j in cluster.census.active_in.get(counter, ())]
        own = [job for job in running if job.spec.user == user and job.started_s]
        for job in sorted(own, key=lambda job: (-job.started_s, -job.id))[:2]:
            if self._starts(JobGone(job.id), self._as(self.spec)):
                ran = span(self.world.now_s - job.started_s)
                text = f"put your job {job.id} back (it has run {ran})"
                yield Advice(text, f"rota requeue {job.id} --hold", 0.7)
                return

    def _by_spec(self) -> list[Advice]:
        found: list[Advice] = []
        for steps in knobs(self.spec, self.world, self.rights.priority_max):
            if self.world.trials >= self._trials_max:
                break
            step = self._nearest(steps)
            if step is not None:
                update = "" if self.item is None else f"rota update {self.job} "
                found.append(Advice(step.text, update + step.options, step.loss))
        return found

    def _nearest(self, steps: list[OtherWish]) -> OtherWish | None:
        """The first step that works, by halves; None when not even the last one does."""
        if not self._starts(self._as(steps[-1].spec)):
            return None
        low, high = 0, len(steps) - 1
        while low < high:
            middle = (low + high) // 2
            if self._starts(self._as(steps[middle].spec)):
                high = middle
            else:
                low = middle + 1
        return steps[high]

    def expected(self) -> why.Expected | None:
        """When it starts if everything goes to plan, for one of the first in line."""
        tree, known = self.tree, self.tree.expected
        if any(isinstance(reason, why.DEFERRING) for reason in tree.unsatisfied):
            return known
        if tree.ahead is None or tree.ahead.jobs >= DEPTH or self._trials_max == TRIALS_LARGE:
            return known
        job = self.job
        if isinstance(self.item, Array) and self.item.pending():
            job = self.item.element_id(self.item.pending().first())
        if known is None or self._may_move(known):
            promise = self.world.foretell(tree.ahead.jobs + 1).get(job)
            foretold = why.Expected.by(promise, promised=False) if promise is not None else None
            if known is None or (foretold is not None and foretold.start_s > known.start_s):
                known = foretold
        found = self.world.takeover(job, known.start_s if known is not None else inf)
        return why.Expected.by_takeover(found) if found is not None else known

    def _may_move(self, known: why.Expected) -> bool:
        """Whether the next pass may promise the same room to a job that is ahead by now.

        The starts of a pass weigh on the shares of their accounts. What conservative backfill and
        deadlines promised stays with its job.
        """
        is_fixed = self.world.cluster.policy.backfill.kind is Backfill.CONSERVATIVE
        ahead = self.tree.ahead is not None and self.tree.ahead.jobs > 0
        return known.promised and ahead and not (is_fixed or self.spec.reservation)

    def without_hope(self) -> tuple[str, str]:
        """What to say when no single change starts it now: a line, and the first step."""
        if self._blocked_by_state() and self.item is not None:
            held = isinstance(self.tree.reason, why.Held)
            return self._still_waits(), f"release it: rota release {self.job}" if held else ""
        return "no single change would start it now", ""

    def _still_waits(self) -> str:
        """A job that is held, early or a child: what would be in its way after that, if any."""
        world = self.world
        try:
            world.make(self._as(self.spec))
            world.run()
            reason = Inquiry(world.scheduler, world.now_s).tree(self.job).reason
            if isinstance(reason, why.Soon | why.Active):
                return ""
            return f"even then it would wait: {short(reason, world.now_s)}"
        finally:
            world.take_back()
