"""From the controller's jobs and arrays to the records that the showing commands print."""

from __future__ import annotations

import re
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING

from rota.api.auth import may_look_into
from rota.api.views.views import indices_text
from rota.controller.launches.launch import awaits_room, fill_in, output_path
from rota.core.derived.families import parent_id
from rota.core.facts.indices import parse_indices
from rota.core.facts.job import Job
from rota.core.facts.parents import DependencyKind
from rota.core.facts.states import FINAL, Cause, JobState
from rota.slurm.records.het_records import het_parts
from rota.slurm.records.holding import add_held
from rota.slurm.records.job_steps import steps_of
from rota.slurm.records.records import JobRecord
from rota.slurm.records.why_words import WaitingWords
from rota.slurm.records.wishes import JobWish, details, person, wish_of
from rota.slurm.steps.step_log import recall
from rota.slurm.steps.steps import steps_of as steps_known_to
from rota.slurm.words.amounts import NO_INDEX
from rota.slurm.words.states import NEVER_BEGAN, end_reason, state_word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.api.context import Context
    from rota.controller.loop import Host
    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import Attempt, JobSpec
    from rota.core.facts.parents import Dependency
    from rota.core.facts.tenant import Actor

_BY = re.compile(r"\bby (\S+)$")
_KINDS = {
    DependencyKind.AFTER: "after",
    DependencyKind.AFTER_OK: "afterok",
    DependencyKind.AFTER_ANY: "afterany",
    DependencyKind.AFTER_NOT_OK: "afternotok",
}
#: What only the owner and operators see.
_PRIVATE = ("command", "submit_line", "workdir", "stdin", "stdout", "stderr", "comment", "wckey")
#: The text of a ragged set of indices is cut here, as squeue does.
INDICES_MAX = 64


class Recorder:
    """Makes records for one command; what specs have in common is worked out once."""

    def __init__(
        self, context: Context, now_s: float, *, actor: Actor, steps: bool = False
    ) -> None:
        host = context.host
        self._actor = actor
        self._cluster = host.cluster
        self._scheduler = host.scheduler
        self._foretelling = context.foretelling
        self._now_s = now_s
        self._words = WaitingWords(host.scheduler, now_s)
        #: What jobs have in common that ask for the same: to be copied and filled in.
        self._patterns: dict[int, tuple[JobWish, JobRecord]] = {}
        self._steps = steps_known_to(context) if steps else None

    def _begin(self, item: Job | Array) -> tuple[JobWish, JobRecord]:
        """What follows from the spec."""
        wish = wish_of(item.spec)
        known = self._patterns.get(id(wish))
        if known is None:
            # The wish is kept beside its pattern, so that its id cannot be given to another one.
            known = self._patterns[id(wish)] = (wish, _pattern(item.spec, wish))
        record = copy(known[1])
        _fill_in(record, item, wish)
        return wish, record

    def job(self, job: Job, number: int = 0) -> JobRecord:
        """A job or an element; with ``number`` as it was in an earlier round."""
        wish, record = self._begin(job)
        attempts = _round(job, number)
        record.name = fill_in(job.spec.name, job)
        record.array_id = job.array_id
        if job.array_id:
            record.array_index = job.array_index
            array = self._cluster.arrays.get(job.array_id)
            record.array_cap = array.cap if array is not None else 0
            waits = array is not None and bool(array.waiting)
            last_id = job.array_id + _size(wish.detail.array)
            record.closes_array = job.id == last_id and not waits
        record.stdout = output_path(job.spec.output, job, 0)
        record.stderr = output_path(job.spec.error, job, 0) or record.stdout
        record.restarts = (attempts[0].number - 1) if attempts else 0
        withheld = _waits_for_others(self._cluster, job)
        record.state = "PENDING" if withheld else state_word(job)
        if record.state == "RUNNING" and wish.detail.stopped in {a.uid for a in attempts}:
            record.state = "STOPPED"
        if record.state == "PENDING":
            self._add_waiting(record, job, wish, "Resources" if withheld else "")
        else:
            self._add_run(record, job, attempts, wish)
        if number:
            _as_it_was(record, attempts)
        if self._steps is not None and attempts:
            record.steps = steps_of(record, attempts, wish.detail, self._steps.of(job.id))
        return self._open_to_actor(record)

    async def recall(self, host: Host, jobs: Iterable[Job]) -> None:
        """Read the steps again that jobs had before this controller was there."""
        if self._steps is not None:
            await recall(host, self._steps, jobs)

    def _open_to_actor(self, record: JobRecord) -> JobRecord:
        """Of other people's jobs a user sees no command, folder, paths or words."""
        if not may_look_into(self._actor, record.user):
            for field in _PRIVATE:
                setattr(record, field, "")
        return record

    def parts(self, job: Job) -> list[JobRecord]:
        """A job as one record; a heterogeneous one as one for each of its groups."""
        record = self.job(job)
        return [record] if not record.het_id else het_parts(record, job, self._cluster)

    def rest(self, array: Array) -> JobRecord:
        """The elements of an array that nothing has touched, as one."""
        wish, record = self._begin(array)
        spans = array.waiting or array.cut
        record.array_id = array.id
        record.array_rest = indices_text(array, spans, INDICES_MAX)
        record.array_cap = array.cap
        record.count = sum(last - first + 1 for first, last in spans)
        example = array.expand(spans[0][0])
        example.array_index = NO_INDEX
        record.stdout = output_path(array.spec.output, example, 0)
        record.stderr = output_path(array.spec.error, example, 0) or record.stdout
        if array.waiting:
            self._add_waiting(record, array, wish)
        elif array.cut_outcome is not None:
            example.outcome, example.ended_s = array.cut_outcome, array.cut_s
            record.state = state_word(example)
            self._add_run(record, example, [], wish)
        return self._open_to_actor(record)

    def _add_waiting(
        self, record: JobRecord, item: Job | Array, wish: JobWish, reason: str = ""
    ) -> None:
        record.partition = wish.detail.partitions or record.partition
        record.reason = reason or self._words.of(item)
        record.priority = 0 if item.held else item.spec.priority
        record.dependency = _dependency(self._cluster, item)
        promise = self._scheduler.promise_of(_next_of(item))
        if promise is not None:
            record.start_s = promise.start_s
            record.sched_nodes = tuple(dict.fromkeys(held.node for held in promise.allocations))
        elif item.not_before_s > self._now_s and not item.held:
            record.start_s = item.not_before_s
        if said := self._foretelling.of(_next_of(item)):
            # What is expected, where a promise is a start at the latest.
            record.start_s = max(said.at_s + said.word.wait_s, self._now_s)
        if record.start_s and record.limit_s is not None:
            record.end_s = record.start_s + record.limit_s

    def _add_run(self, record: JobRecord, job: Job, attempts: list[Attempt], wish: JobWish) -> None:
        record.reason = end_reason(job)
        add_held(record, self._cluster, attempts, wish.memory_total_mib)
        record.start_s = min((a.started_s or a.placed_s for a in attempts), default=0.0)
        record.cpu_s = sum(attempt.cpu_s for attempt in attempts)
        record.suspend_s, record.paused_s = job.suspended_s, int(job.paused_s)
        if job.outcome is None:
            until_s = job.suspended_s or self._now_s
            record.end_s = job.limit_due_s
        else:
            until_s = record.end_s = job.ended_s
            _add_outcome(record, job)
        if record.start_s:
            record.run_s = max(0, int(until_s) - int(record.start_s) - record.paused_s)
        else:
            record.start_s = until_s if job.outcome is not None else 0.0


def _next_of(item: Job | Array) -> int:
    """Promises are made to jobs; the first element stands for the rest of an array."""
    if isinstance(item, Job):
        return item.id
    return item.element_id(item.pending().first()) if item.waiting else item.id


def _pattern(spec: JobSpec, wish: JobWish) -> JobRecord:
    """What all jobs with this wish have in common."""
    detail, placement = wish.detail, spec.placement
    return JobRecord(
        job_id=0,
        name="",
        user=spec.user,
        uid=wish.person.uid,
        gid=wish.person.gid,
        group=wish.person.group,
        account=wish.account,
        partition="",
        qos=wish.qos,
        state="PENDING",
        reason="None",
        priority=0,
        nice=detail.nice,
        requeue=detail.requeue,
        batch=not detail.interactive,
        node_count=wish.nodes,
        node_range=f"{wish.nodes}-{wish.nodes}" if detail.nodes_given else str(wish.nodes),
        cpus=wish.cpus,
        tasks=wish.tasks,
        cpus_per_task=wish.cpus_per_task,
        tasks_per_node=detail.ntasks_per_node,
        min_cpus_node=wish.min_cpus_node,
        memory_mib=wish.memory_mib,
        memory_per_cpu=wish.memory_per_cpu,
        disk_mib=wish.disk_mib,
        gres=wish.gres,
        tres_req=wish.tres,
        features=wish.features,
        req_nodes=placement.nodes,
        exc_nodes=placement.exclude,
        exclusive=placement.exclusive or detail.exclusive,
        reservation=detail.reservation,
        licenses=detail.licenses,
        comment=detail.comment,
        wckey=detail.wckey,
        time_min=detail.time_min,
        kept=detail.kept,
        submit_line=detail.submit_line,
        stdin=detail.stdin or "/dev/null",
    )


def _fill_in(record: JobRecord, item: Job | Array, wish: JobWish) -> None:
    """What each of them has for itself."""
    spec = item.spec
    record.job_id = item.id
    record.name = spec.name
    record.partition = spec.queue
    record.priority = spec.priority
    record.submit_s = item.submitted_s
    record.eligible_s = item.eligible_s
    record.deadline_s = spec.deadline_s
    record.limit_s = spec.time_limit_s or None
    record.container = spec.image
    record.command = wish.command_of(spec)
    record.workdir = spec.workdir
    if wish.detail.het_size > 1:
        record.het_id = item.id
        record.het_ids = str(item.id)


@lru_cache(maxsize=1024)
def _size(indices: str) -> int:
    """How many elements an array has, by the words it was asked for with; 0: it has none."""
    return sum(map(len, parse_indices(indices)[0])) if indices else 0


def _round(job: Job, number: int) -> list[Attempt]:
    """The attempts of the latest round, or of an earlier one."""
    if not number:
        return job.round
    return [a for task in job.tasks for a in task.attempts if a.number == number]


def _waits_for_others(cluster: Cluster, job: Job) -> bool:
    """It has been promised the room of others who have not left it: it runs nowhere yet."""
    if job.state is not JobState.SCHEDULED:
        return False
    return any(attempt.after and awaits_room(cluster, attempt) for attempt in job.round)


def _add_outcome(record: JobRecord, job: Job) -> None:
    outcome = job.outcome
    assert outcome is not None
    record.signal = outcome.signal
    record.exit_code = 0 if outcome.signal else outcome.exit_code or 0
    if outcome.cause is Cause.OUT_OF_MEMORY:
        record.exit_code, record.signal = 0, 125
    elif outcome.cause is Cause.START_FAILED:
        record.exit_code, record.signal = 0, NEVER_BEGAN
    elif outcome.state in (JobState.CANCELLED, JobState.TIMEOUT):
        record.exit_code, record.signal = 0, 15 if record.nodes else 0
    elif outcome.state is JobState.UNSCHEDULABLE:
        record.exit_code = 1
    elif record.exit_code > _SIGNALLED and details(job.spec).interactive:
        # Nobody but its tasks ran in it; the job that held the nodes ended as they did.
        record.exit_code, record.signal = 0, record.exit_code - _SIGNALLED
    if outcome.state is JobState.CANCELLED:
        found = _BY.search(outcome.detail)
        record.cancelled_by = person(found[1]).uid if found else -1


#: Above it an exit code of srun or salloc says of which signal a task died.
_SIGNALLED = 128
#: How an earlier round ended, in Slurm's words.
_EARLIER = {
    Cause.REQUEUED: "REQUEUED",
    Cause.PREEMPTED: "PREEMPTED",
    Cause.NODE_LOST: "NODE_FAIL",
    Cause.TIME_LIMIT: "TIMEOUT",
    Cause.OUT_OF_MEMORY: "OUT_OF_MEMORY",
}


def _as_it_was(record: JobRecord, attempts: list[Attempt]) -> None:
    """An earlier round: it ended, whatever became of the job."""
    first = attempts[0]
    record.state = _EARLIER.get(first.cause or Cause.EXIT, "FAILED")
    record.reason = "None"
    record.start_s = min(a.started_s or a.placed_s for a in attempts)
    record.end_s = max(a.ended_s for a in attempts)
    record.run_s = max(0, int(record.end_s) - int(record.start_s))
    record.exit_code, record.signal = first.exit_code or 0, 0
    record.cancelled_by = -1


def _dependency(cluster: Cluster, item: Job | Array) -> str:
    """``afterok:23(unfulfilled)``: only what still stands in the way."""
    spec = item.spec
    if item.parents_met or item.eligible_s or not spec.dependencies:
        return ""
    if details(spec).dependency == "singleton":
        return "singleton(unfulfilled)"
    parts = [_one_dependency(cluster, item, one) for one in spec.dependencies]
    return ("?" if spec.any_dependency else ",").join(part for part in parts if part)


def _one_dependency(cluster: Cluster, item: Job | Array, one: Dependency) -> str:
    kind = "aftercorr" if one.element else _KINDS.get(one.kind, "afterany")
    state = cluster.state_of(parent_id(one, item))
    if state is not None and state in FINAL:
        met = one.kind is DependencyKind.AFTER_ANY or (
            (state is JobState.COMPLETED) == (one.kind is not DependencyKind.AFTER_NOT_OK)
        )
        if met:
            return ""
        verdict = "failed"
    else:
        verdict = "unfulfilled"
    family = cluster.families.family_of(one.parent)
    if one.parent in cluster.arrays or cluster.ids.ended.is_array(one.parent):
        shown = f"{one.parent}_*"
    elif family is not None:
        shown = f"{family.id}_{family.expand(family.position(one.parent)).array_index}"
    else:
        shown = str(one.parent)
    return f"{kind}:{shown}({verdict})"
