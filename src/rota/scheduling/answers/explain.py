"""Why a job waits: the true cause as a tree of reasons, and in a few plain lines.

Everything is read from the Cluster and from what the last pass left in its Scheduler; nothing is
changed, and prose is made only for the answer. ``Inquiry`` answers several questions about one
moment, which is what lists want; ``explain`` answers one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.changes.dependencies import judge
from rota.core.derived.families import parent_id
from rota.core.derived.lanes import key_with, shape_of
from rota.core.facts.job import Array, Job
from rota.core.facts.states import ACTIVE, FINAL, Cause, JobState
from rota.core.words.units import format_when
from rota.scheduling.answers import reasons as why
from rota.scheduling.answers.prose import lines_of, short
from rota.scheduling.answers.queue_position import ahead_of
from rota.scheduling.answers.reasons import (
    DEFERRING,
    Decision,
    Expected,
    Reason,
    Tree,
    over_quota,
)
from rota.scheduling.answers.survey import FEW, Survey
from rota.scheduling.api import Entry
from rota.scheduling.limits.least import least_on
from rota.scheduling.order.lengths import run_s_of
from rota.scheduling.order.orderings import terms
from rota.scheduling.passes import Pass
from rota.scheduling.place.trial_rooms import count_in, place_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.facts.tenant import Queue
    from rota.scheduling.scheduler import Scheduler

Item = Job | Array


class Explanation(msgspec.Struct):
    """``reason`` is the one-line form, ``lines`` the whole story, ``help`` what would change it."""

    reason: str
    lines: list[str]
    help: list[str]
    tree: Tree


def explain(scheduler: Scheduler, job_id: int, now_s: float) -> Explanation:
    """Explain an unfinished job or array; ``help`` is left to ``advice.advise``."""
    tree = Inquiry(scheduler, now_s).tree(job_id)
    return Explanation(short(tree.reason, now_s), lines_of(tree, now_s), [], tree)


class Inquiry:
    """Questions about one moment."""

    def __init__(self, scheduler: Scheduler, now_s: float) -> None:
        self.scheduler = scheduler
        self.cluster = scheduler.cluster
        self.now_s = now_s
        self.this = Pass(scheduler, now_s, scheduler.rules())

    def find(self, job_id: int) -> Item | None:
        """A job, the array that holds it untouched, or an array; None when it is over."""
        cluster = self.cluster
        return cluster.jobs.get(job_id) or cluster.array_of(job_id) or cluster.arrays.get(job_id)

    def reason(self, job_id: int) -> str:
        """The decisive reason in a few words; no other waiting job is looked at."""
        return short(self.decisive(job_id), self.now_s)

    def decisive(self, job_id: int) -> Reason:
        """The one reason that comes first."""
        item = self.find(job_id)
        if item is None:
            return self._ended(job_id)
        if isinstance(item, Job) and item.state in ACTIVE:
            return self._active(item)
        first = next(self._conditions(item), None)
        return first or self._room(self.entry_of(item, job_id))[0]

    def tree(self, job_id: int) -> Tree:
        """All reasons, in the order in which they decide."""
        item = self.find(job_id)
        if item is None:
            over = self._ended(job_id)
            return Tree(decision=Decision.SCHEDULED, reason=over, unsatisfied=(over,))
        if isinstance(item, Job) and item.state in ACTIVE:
            active = self._active(item)
            return Tree(decision=Decision.SCHEDULED, reason=active, unsatisfied=(active,))
        unmet = tuple(self._conditions(item))
        entry = self.entry_of(item, job_id)
        if unmet:
            codes = {code_of(reason) for reason in unmet}
            return Tree(
                decision=_decision(item, unmet),
                reason=unmet[0],
                unsatisfied=unmet,
                satisfied=tuple(code for code in why.CONDITIONS if code not in codes),
                priority=terms(entry, self.this.view),
            )
        return self._of_waiting(item, entry)

    def _of_waiting(self, item: Item, entry: Entry) -> Tree:
        unmet = tuple(self._room(entry))
        lane = self.cluster.lanes.where.get(item.id)
        ahead = ahead_of(self.this, entry, lane, item.id) if lane is not None else None
        if isinstance(unmet[0], why.Turn) and ahead is not None and ahead.first:
            unmet = (why.Turn(behind=ahead.first[0]), *unmet[1:])
        satisfied = [*why.CONDITIONS]
        if not isinstance(unmet[0], why.Unfit | why.NoNode | why.Away):
            satisfied += ["node_away", "filter"]
        return Tree(
            decision=_decision(item, unmet),
            reason=unmet[0],
            unsatisfied=unmet,
            satisfied=tuple(satisfied),
            ahead=ahead,
            priority=terms(entry, self.this.view),
            expected=self._expected(entry),
        )

    def entry_of(self, item: Item, job_id: int = 0) -> Entry:
        """The job as orderings see it, whether it stands in a lane or not."""
        cluster, spec = self.cluster, item.spec
        lane = cluster.lanes.where.get(item.id)
        if lane is not None:
            key = lane.key
        else:
            number = item.array_id if isinstance(item, Job) else item.id
            array = cluster.arrays.get(number)
            key = key_with(0, spec, number if array is not None and array.cap else 0)
        run_s = run_s_of(cluster, spec, spec.roles)
        number = job_id if job_id != item.id or isinstance(item, Job) else 0
        if not number and isinstance(item, Array):
            pending = item.pending()
            number = item.element_id(pending.first()) if pending else item.id
        shape = shape_of(spec, cluster.policy.gang.partial)
        return Entry(number, key, shape, item.submitted_s, item.eligible_s, run_s)

    def _ended(self, job_id: int) -> Reason:
        return why.Ended(state=str(self.cluster.ids.ended.get(job_id)))

    def _active(self, job: Job) -> Reason:
        live = job.live_attempts
        nodes = tuple(dict.fromkeys(attempt.allocation.node for attempt in live))
        first = live[0]
        if first.stop_cause is not None:
            return why.Active(
                verb="stopping",
                nodes=nodes,
                cause=str(first.stop_cause),
                grace_s=job.spec.grace_s,
            )
        uids = [uid for attempt in live for uid in attempt.after if uid in self.cluster.live.where]
        if uids:
            others = dict.fromkeys(self.cluster.live.where[uid][0] for uid in uids)
            return why.Leaving(jobs=tuple(others), nodes=nodes)
        verb = "running" if job.state is JobState.RUNNING else "starting"
        return why.Active(verb=verb, nodes=nodes, cause=job.pause)

    def _conditions(self, item: Item) -> Iterator[Reason]:
        """What must happen before room is looked for."""
        if item.held:
            yield why.Held()
        if item.not_before_s > self.now_s and not item.eligible_s:
            retry = isinstance(item, Job) and bool(item.retries_used)
            yield why.NotBefore(at_s=item.not_before_s, retry=retry)
        yield from self._parents(item)
        queue = self.cluster.queues.get(item.spec.queue)
        if queue is not None and not queue.starts_jobs:
            yield why.QueueShut(queue=queue.name, state=_shut(queue))
        yield from self._limits(item)

    def _parents(self, item: Item) -> Iterator[Reason]:
        if item.eligible_s or not item.spec.dependencies:
            return
        verdict = judge(self.cluster, item)
        if verdict.met:
            return
        kinds = {parent_id(d, item): d.kind for d in item.spec.dependencies}
        yield why.Parent(
            job=verdict.parent,
            kind=str(kinds.get(verdict.parent, "")),
            state=str(verdict.parent_state or "unknown"),
            never=verdict.never,
        )

    def _limits(self, item: Item) -> Iterator[Reason]:
        """The hard limit on shares, caps and quotas: for who would be looked at otherwise."""
        entry, limit = self.entry_of(item), self.this.policy.share.hard_ratio
        key = entry.key
        if limit and self.this.kept_back_by(key) is not None:
            yield why.OverShare(
                user=key.user,
                project=key.project,
                ratio=self.this.shares.worst(key.user, key.project),
                limit=limit,
            )
        for over in self.this.quotas.shorts(key, least_on(self.cluster, entry.shape)):
            yield over_quota(over)

    def _room(self, entry: Entry) -> list[Reason]:
        """What room has to say; the decisive reason comes first."""
        if not self.cluster.nodes:
            return [why.NoNode()]
        requests = tuple(dict.fromkeys(role.request for role in entry.shape.roles))
        surveys = [Survey(self.this, entry, request) for request in requests]
        for survey in surveys:
            if not survey.open:
                return survey.all()
        others = [reason for survey in surveys for reason in survey.all()]
        return [self._whole(entry, surveys), *others]

    def _whole(self, entry: Entry, surveys: list[Survey]) -> Reason:
        """There is room for single tasks: is there for all of them at once?"""
        names = list(dict.fromkeys(name for survey in surveys for name in survey.open_nodes))
        tasks = sum(map(entry.shape.least_tasks, entry.shape.roles))
        if tasks > 1 and not self._all_fit(entry, names):
            return self._parts(entry, names, tasks)
        rules = self.this.policy
        if rules.order.strict or rules.backfill.look_ahead:
            return why.Turn()
        return why.Soon(node=names[0])

    def _all_fit(self, entry: Entry, names: list[str]) -> bool:
        space = self.this.space
        known = [name for name in names if name in space.rooms]
        if len(self.cluster.nodes) > FEW or not known:
            return False
        return place_in(space.rooms, entry.shape, space.class_of, known) is not None

    def _parts(self, entry: Entry, names: list[str], tasks: int) -> Reason:
        rooms = self.this.space.rooms
        if len(self.cluster.nodes) > FEW or len(entry.shape.roles) > 1:
            return why.Parts(tasks=tasks)
        role = entry.shape.roles[0]
        fit = sum(count_in(rooms[name], entry.shape, role) for name in names if name in rooms)
        return why.Parts(tasks=tasks, fit=min(fit, tasks), nodes=len(names))

    def _expected(self, entry: Entry) -> Expected | None:
        promise = self.scheduler.promise_of(entry.job)
        if promise is None:
            return None
        nodes = tuple(dict.fromkeys(held.node for held in promise.allocations))
        return Expected(promise.start_s, nodes)


def _shut(queue: Queue) -> str:
    """Why a queue starts nothing."""
    if not queue.outside:
        return str(queue.state)
    until = f" until {format_when(queue.turns_s)}" if queue.turns_s else ""
    return f"outside its hours ({queue.hours}){until}"


def code_of(reason: Reason) -> str:
    """Its place in the closed list of codes."""
    return str(reason.__struct_config__.tag)


def _decision(item: Item, unmet: tuple[Reason, ...]) -> Decision:
    first = unmet[0]
    if isinstance(first, why.Parent) and first.never:
        return Decision.REJECTED
    if isinstance(first, DEFERRING):
        return Decision.DEFERRED
    if isinstance(first, why.Unfit):
        return Decision.REJECTED
    if isinstance(item, Job) and item.preempted:
        return Decision.PREEMPTED
    return Decision.QUEUED


def describe_end(state: JobState, cause: Cause, detail: str) -> str:
    """One line for a finished job: its state and first cause."""
    assert state in FINAL
    if state is JobState.COMPLETED and not detail:
        return str(state)
    if cause is Cause.OUT_OF_MEMORY and detail:
        # The detail has the amounts alone.
        return f"{state}: out of memory, {detail}"
    return f"{state}: {detail}" if detail else f"{state} ({cause})"
