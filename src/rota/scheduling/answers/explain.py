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
from rota.core.derived.lanes import key_with
from rota.core.facts.array import Array
from rota.core.facts.job import Job
from rota.core.facts.states import ACTIVE, FINAL, Cause, JobState, Phase
from rota.core.words.units import format_when
from rota.scheduling.answers import reasons as why
from rota.scheduling.answers.cluster_health import (
    ClusterHealth,
    cluster_states,
    is_away,
    named_clusters,
)
from rota.scheduling.answers.filed import waiting_of
from rota.scheduling.answers.outer_words import outer_numbers
from rota.scheduling.answers.prose import lines_of, short, span
from rota.scheduling.answers.queue_position import ahead_of
from rota.scheduling.answers.reasons import DEFERRING, Decision, Expected, Reason, Tree, over_quota
from rota.scheduling.answers.survey import FEW, Survey
from rota.scheduling.api import Entry
from rota.scheduling.limits.least import least_on
from rota.scheduling.order.lengths import run_s_of
from rota.scheduling.order.orderings import terms
from rota.scheduling.outcomes import Barred, Behind, ClaimedRoom
from rota.scheduling.passes import Pass
from rota.scheduling.place.trial_rooms import count_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.facts.job import Attempt
    from rota.core.facts.placing import Placement
    from rota.core.facts.tenant import Queue
    from rota.scheduling.outcomes import Wait
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
        item = self.find(job_id)
        if item is None:
            return why.Ended(state=self.cluster.ids.ended.get(job_id))
        if isinstance(item, Job) and item.state in ACTIVE:
            return self._active(item)
        first = next(self._conditions(item), None) or self._cluster_away(item.spec.placement)
        return first or self._room(self.entry_of(item, job_id), self._filed(item))[0]

    def _filed(self, item: Item) -> Wait | None:
        """What the last pass found the job's lane to wait for; None: it is to be looked at."""
        lane, waits = self.cluster.lanes.where.get(item.id), self.scheduler.waits
        return waits.of(lane.number) if lane is not None and lane.number not in waits.open else None

    def tree(self, job_id: int) -> Tree:
        """All reasons, in the order in which they decide."""
        item = self.find(job_id)
        if item is None or (isinstance(item, Job) and item.state in ACTIVE):
            only = self.decisive(job_id)
            return Tree(decision=Decision.SCHEDULED, reason=only, unsatisfied=(only,))
        entry, filed = self.entry_of(item, job_id), self._filed(item)
        unmet = tuple(self._conditions(item))
        failed = {code_of(reason) for reason in unmet}
        satisfied = [code for code in why.CONDITIONS if code not in failed]
        ahead = promise = None
        if not unmet:
            away = self._cluster_away(item.spec.placement)
            unmet = (*((away,) if away is not None else ()), *self._room(entry, filed))
            promise = self.scheduler.promise_of(entry.job)
            lane = self.cluster.lanes.where.get(item.id)
            ahead = ahead_of(self.this, entry) if lane is not None else None
            first = unmet[0]
            if isinstance(first, why.Turn) and ahead is not None and ahead.first:
                unmet = (msgspec.structs.replace(first, behind=ahead.first[0]), *unmet[1:])
            if not isinstance(first, why.Unfit | why.NoNode | why.Away | why.ClusterAway):
                satisfied += ["node_away", "filter"]
        return Tree(
            decision=_decision(item, unmet),
            reason=unmet[0],
            unsatisfied=unmet,
            satisfied=tuple(satisfied),
            waits=waiting_of(self.scheduler, item.id, filed),
            ahead=ahead,
            priority=terms(entry, self.this.view),
            expected=Expected.by(promise) if promise is not None else None,
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
        if isinstance(item, Array) and job_id in (0, item.id):
            pending = item.pending()
            job_id = item.element_id(pending.first()) if pending else item.id
        shape = cluster.lanes.shape_of(spec)
        return Entry(job_id, key, shape, item.submitted_s, item.eligible_s, run_s)

    def _active(self, job: Job) -> Reason:
        live = job.live_attempts
        nodes = tuple(dict.fromkeys(attempt.allocation.node for attempt in live))
        first = live[0]
        if first.stop_cause is not None:
            cause, grace_s = str(first.stop_cause), first.grace_s
            return why.Active(verb="stopping", nodes=nodes, cause=cause, grace_s=grace_s)
        uids = [uid for attempt in live for uid in attempt.after if uid in self.cluster.live.where]
        if uids:
            others = dict.fromkeys(self.cluster.live.where[uid][0] for uid in uids)
            return why.Leaving(jobs=tuple(others), nodes=nodes)
        verb = "running" if job.state is JobState.RUNNING else "starting"
        engine = self._engine_of(first)
        if engine and first.allocation.early:
            told = f"{first.detail}, " if first.detail else ""
            verb, cause = f"waiting inside {engine}", f"{told}next in turn"
            return why.Active(verb=verb, nodes=nodes, cause=cause)
        if engine and first.detail:
            since_s = max(0.0, self.now_s - (first.waits_s or first.placed_s))
            numbers = outer_numbers(self.cluster, job.spec.project, first.detail)
            cause = f"{first.detail}{numbers}, since {span(since_s)}"
            return why.Active(verb=f"waiting inside {engine}", nodes=nodes, cause=cause)
        return why.Active(verb=verb, nodes=nodes, cause=job.pause or self._silence_at(nodes[0]))

    def _silence_at(self, name: str) -> str:
        """Where its cluster is not there: what runs is held, and nobody gives it up."""
        node = self.cluster.nodes.get(name)
        if node is None or not node.spec.engine or (node.takes_work and not is_away(node)):
            return ""
        state = next(s for s in cluster_states(self.cluster) if s.name == node.cluster)
        if state.health not in (ClusterHealth.AWAY, ClusterHealth.WAITING):
            return ""
        return (
            f"cluster {state.name} is {state.health} since {format_when(state.since_s)}: it is held"
        )

    def _cluster_away(self, placement: Placement) -> Reason | None:
        """All clusters that a job is bound to take no work."""
        named = named_clusters(self.cluster, placement)
        if named is None:
            return None
        states = cluster_states(self.cluster)
        bound = [state for state in states if state.name in named]
        if not bound or any(state.health is ClusterHealth.UP for state in bound):
            return None
        first = bound[0]
        return why.ClusterAway(
            cluster=first.name,
            state=first.health,
            since_s=first.since_s,
            running=len(first.jobs),
            elsewhere=tuple(state.name for state in states if state.health is ClusterHealth.UP),
            note=first.note,
        )

    def _engine_of(self, attempt: Attempt) -> str:
        """The engine that has taken an attempt and not started it; empty: none has."""
        node = self.cluster.nodes.get(attempt.allocation.node)
        placed = attempt.phase is Phase.PLACED
        return node.spec.engine if node is not None and placed else ""

    def _conditions(self, item: Item) -> Iterator[Reason]:
        """What must happen before room is looked for."""
        if item.held:
            yield why.Held(note=item.held_note)
        if item.not_before_s > self.now_s and not item.eligible_s:
            retry = isinstance(item, Job) and item.not_before_s != item.spec.begin_s
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
            kind=kinds[verdict.parent],
            state=verdict.parent_state.value if verdict.parent_state else "unknown",
            never=verdict.never,
        )

    def _limits(self, item: Item) -> Iterator[Reason]:
        """The hard limit on shares, caps and quotas, also of a job that stands in no lane."""
        entry, filed = self.entry_of(item), self._filed(item)
        key, limit = entry.key, self.this.cluster.policy.share.hard_ratio
        if isinstance(filed, Barred) or (
            filed is None and limit and self.this.kept_back_by(key) is not None
        ):
            yield why.OverShare(
                user=key.user,
                project=key.project,
                ratio=self.this.shares.worst(key.user, key.project),
                limit=limit,
            )
        for over in self.this.quotas.shorts(key, least_on(self.cluster, entry.shape)):
            yield over_quota(over)

    def _room(self, entry: Entry, filed: Wait | None) -> list[Reason]:
        """What room has to say; the decisive reason comes first."""
        if not self.cluster.nodes:
            return [why.NoNode()]
        requests = tuple(dict.fromkeys(role.request for role in entry.shape.roles))
        surveys = [Survey(self.this, entry, request) for request in requests]
        for survey in surveys:
            if not survey.open:
                found = survey.all()
                suits = not isinstance(found[0], why.Unfit | why.Away)
                behind = isinstance(filed, Behind) and suits
                return [self._turn(room=False), *found] if behind else found
        others = [reason for survey in surveys for reason in survey.all()]
        return [self._whole(entry, surveys, filed), *others]

    def _whole(self, entry: Entry, surveys: list[Survey], filed: Wait | None) -> Reason:
        """There is room for single tasks: what the lane waits for says what is in the way."""
        names = list(dict.fromkeys(name for survey in surveys for name in survey.open_nodes))
        tasks = sum(map(entry.shape.least_tasks, entry.shape.roles))
        if isinstance(filed, Behind):
            return self._turn()
        if isinstance(filed, ClaimedRoom) and not self.this.cluster.policy.backfill.spare:
            end_s = self.now_s + entry.run_s
            for promise in self.this.promises.all():
                if promise.start_s < end_s and promise.job != entry.job:
                    return why.WouldDelay(
                        job=promise.job,
                        start_s=promise.start_s,
                        nodes=len(names),
                        node=names[0],
                        stays_s=entry.run_s,
                    )
        if filed is not None and tasks > 1:
            return self._parts(entry, names, tasks)
        return why.Soon(node=names[0])

    def _turn(self, *, room: bool = True) -> Reason:
        rules = self.this.cluster.policy
        return why.Turn(room=room, band="" if rules.order.strict or rules.backfill.high else "high")

    def _parts(self, entry: Entry, names: list[str], tasks: int) -> Reason:
        rooms = self.this.space.rooms
        if len(self.cluster.nodes) > FEW or len(entry.shape.roles) > 1:
            return why.Parts(tasks=tasks)
        role = entry.shape.roles[0]
        fit = sum(count_in(rooms[name], entry.shape, role) for name in names if name in rooms)
        return why.Parts(tasks=tasks, fit=min(fit, tasks), nodes=len(names))


def _shut(queue: Queue) -> str:
    if not queue.outside:
        return str(queue.state)
    until = f" until {format_when(queue.turns_s)}" if queue.turns_s else ""
    return f"outside its hours ({queue.hours}){until}"


def code_of(reason: Reason) -> str:
    """Its place in the closed list of codes."""
    return str(reason.__struct_config__.tag)


def _decision(item: Item, unmet: tuple[Reason, ...]) -> Decision:
    first = unmet[0]
    if isinstance(first, why.Unfit) or (isinstance(first, why.Parent) and first.never):
        return Decision.REJECTED
    if isinstance(first, DEFERRING):
        return Decision.DEFERRED
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
