"""The aggregate: all facts that matter for the next decision, and the indexes derived from them.

Only ``apply`` changes a Cluster. Finished jobs leave it; one byte per id remembers how they ended,
so that a dependency on job 12 is answered without asking a database.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from rota.core.derived.holdings import Holdings
from rota.core.derived.lanes import Lanes
from rota.core.derived.running import Running
from rota.core.derived.waiting import Waiting
from rota.core.facts.policy import DEFAULT, Policy
from rota.core.facts.states import ACTIVE, FINAL, WAITING, JobState
from rota.core.facts.tenant import Group, Project, Queue, Reservation, Token, User

if TYPE_CHECKING:
    from rota.core.derived.lanes import Counter
    from rota.core.derived.usage import Usage
    from rota.core.facts.job import Array, Job, JobSpec
    from rota.core.facts.loans import Loan
    from rota.core.facts.node import Node

_STATES = tuple(JobState)
_CODE = {state: code for code, state in enumerate(_STATES, start=1)}


class Ledger:
    """How each finished job ended: a byte per id. Zero: unfinished, or never given out."""

    __slots__ = ("_codes", "counts")

    def __init__(self) -> None:
        self._codes = bytearray()
        self.counts: dict[JobState, int] = dict.fromkeys(FINAL_ORDER, 0)

    def get(self, job_id: int) -> JobState | None:
        if 0 <= job_id < len(self._codes):
            code = self._codes[job_id]
            return _STATES[code - 1] if code else None
        return None

    def states_in(self, first: int, last: int) -> set[JobState]:
        """The states that occur among a block of finished jobs."""
        return {_STATES[code - 1] for code in set(self._codes[first : last + 1]) if code}

    def counts_in(self, first: int, last: int) -> dict[JobState, int]:
        """How often each final state occurs among a block of ids."""
        block = self._codes[first : last + 1]
        return {state: block.count(_CODE[state]) for state in FINAL_ORDER}

    def put(self, job_id: int, state: JobState) -> None:
        self.put_span(job_id, job_id, state)

    def put_span(self, first: int, last: int, state: JobState) -> None:
        if last >= len(self._codes):
            self._codes.extend(bytes(max(last + 1 - len(self._codes), 1024)))
        self._codes[first : last + 1] = bytes([_CODE[state]]) * (last - first + 1)
        self.counts[state] += last - first + 1


FINAL_ORDER = tuple(state for state in _STATES if state in FINAL)

#: How an array ended, by the ends of its elements: the first of these that occurs.
WORST_FIRST = (
    JobState.FAILED,
    JobState.TIMEOUT,
    JobState.NODE_FAILED,
    JobState.UNSCHEDULABLE,
    JobState.CANCELLED,
    JobState.COMPLETED,
)


class Dirty:
    """What changed since the last commit, by kind and key, in order of first change."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.arrays: dict[int, Array] = {}
        self.blobs: dict[str, bytes] = {}
        self.nodes: dict[str, None] = {}
        self.queues: dict[str, None] = {}
        self.groups: dict[str, None] = {}
        self.projects: dict[str, None] = {}
        self.reservations: dict[int, None] = {}
        self.tokens: dict[str, None] = {}
        self.users: dict[str, None] = {}
        self.usage: dict[str, None] = {}
        #: ``policy`` when the rules changed.
        self.settings: dict[str, None] = {}


def counters_of(spec: JobSpec, array_id: int) -> tuple[Counter, ...]:
    """What is counted for a job that holds room: by queue, group, array, user, project, type."""
    user, project, queue = spec.user, spec.project, spec.queue
    counters: list[Counter] = [
        ("queue", queue),
        ("user", user),
        ("project", project),
        ("queue user", f"{queue}\n{user}"),
        ("queue project", f"{queue}\n{project}"),
    ]
    if spec.group:
        counters.append(("group", spec.group))
    if array_id:
        counters.append(("array", array_id))
    if spec.type:
        counters += [("user type", f"{user}\n{spec.type}"), ("type", f"{project}\n{spec.type}")]
    return tuple(counters)


class Timer(NamedTuple):
    """Something to look at when its time has come. Checked again then: it may be moot."""

    at_s: float
    kind: str
    id: int


class Cluster:
    """All unfinished work and all capacity."""

    def __init__(self, cluster_id: str = "") -> None:
        self.cluster_id = cluster_id
        self.next_id = 1
        self.jobs: dict[int, Job] = {}
        self.arrays: dict[int, Array] = {}
        self.array_ids: list[int] = []
        self.ended = Ledger()
        self.nodes: dict[str, Node] = {}
        self.queues: dict[str, Queue] = {"default": Queue(name="default")}
        self.groups: dict[str, Group] = {}
        self.projects: dict[str, Project] = {}
        self.reservations: dict[int, Reservation] = {}
        self.tokens: dict[str, Token] = {}
        self.users: dict[str, User] = {}
        #: By ``usage_key``.
        self.usage: dict[str, Usage] = {}
        self.policy: Policy = DEFAULT
        #: (user, Idempotency-Key) -> the id that the first submit got.
        self.keys: dict[tuple[str, str], int] = {}
        # Derived, in step with the facts above.
        self.lanes = Lanes()
        self.holdings = Holdings()
        self.running = Running()
        self.waiting = Waiting()
        #: Active jobs whose number of tasks may change while they run.
        self.elastic: dict[int, None] = {}
        #: Nodes that changed since a pass last looked: which attempts on them, or None for all.
        self.touched: dict[str, dict[str, None] | None] = {}
        #: Grows when the rules change: policy, queues, reservations, shares, quotas.
        self.rules_version = 0
        self.live: dict[str, tuple[int, int]] = {}
        #: Live attempts that others wait for to leave a room, and those others.
        self.waited_for: dict[str, dict[str, None]] = {}
        #: Live attempts that lend CPUs, and to whom.
        self.loans: dict[str, dict[str, Loan]] = {}
        #: Jobs that got a loan back since the controller last looked.
        self.repaid: dict[int, None] = {}
        #: Live attempts of jobs that chose to be stopped, and not ended, when they give way.
        self.stoppable: dict[str, None] = {}
        self.children: dict[int, dict[int, None]] = {}
        self.active_in: dict[Counter, dict[int, None]] = {}
        self.by_state: dict[JobState, dict[int, None]] = {
            state: {} for state in _STATES if state not in FINAL
        }
        self.unfinished_elements: dict[int, dict[int, None]] = {}
        self.timers: list[Timer] = []
        self.dirty = Dirty()

    def job(self, job_id: int) -> Job | None:
        """An unfinished job that has a record of its own."""
        return self.jobs.get(job_id)

    def array_of(self, job_id: int) -> Array | None:
        """The array that holds this id as an untouched element, if any."""
        array = self.family_of(job_id)
        if array is not None and array.position(job_id) in array.pending():
            return array
        return None

    def family_of(self, job_id: int) -> Array | None:
        """The array whose block of ids this id lies in, touched or not."""
        at = bisect_left(self.array_ids, job_id) - 1
        if at < 0:
            return None
        array = self.arrays[self.array_ids[at]]
        return array if job_id <= array.id + array.count else None

    def state_of(self, job_id: int) -> JobState | None:
        """The state of any job ever submitted, or None when there is no such job."""
        job = self.jobs.get(job_id)
        if job is not None:
            return job.state
        ended = self.ended.get(job_id)
        if ended is not None:
            return ended
        if (array := self.array_of(job_id)) is not None:
            return JobState.HELD if array.held else JobState.QUEUED
        return self.array_state(job_id) if job_id in self.arrays else None

    def array_state(self, array_id: int) -> JobState | None:
        """A whole array as a parent: it runs once every element has started, ends with the last
        one, and its end is the worst of them."""
        array = self.arrays.get(array_id)
        if array is None:
            return None
        if array.waiting:
            return JobState.QUEUED
        if unfinished := self.unfinished_elements.get(array_id):
            started = all(self.jobs[element].started_s for element in unfinished)
            return JobState.RUNNING if started else JobState.QUEUED
        ends = self.ended.states_in(array.id + 1, array.id + array.count)
        return next((state for state in WORST_FIRST if state in ends), None)

    def count_states(self) -> dict[JobState, int]:
        """How many jobs are in each state, elements of arrays counted one by one."""
        counts = {state: len(ids) for state, ids in self.by_state.items()}
        for array in self.arrays.values():
            waiting = len(array.pending())
            counts[JobState.HELD if array.held else JobState.QUEUED] += waiting
        return counts | self.ended.counts

    def count_elements(self, array: Array) -> dict[JobState, int]:
        """How many elements of one array are in each state."""
        counts = dict.fromkeys(_STATES, 0)
        counts |= self.ended.counts_in(array.id + 1, array.id + array.count)
        counts[JobState.HELD if array.held else JobState.QUEUED] += len(array.pending())
        for job_id in self.unfinished_elements.get(array.id, ()):
            counts[self.jobs[job_id].state] += 1
        return counts

    def push_timer(self, at_s: float, kind: str, item: int) -> None:
        heappush(self.timers, Timer(at_s, kind, item))

    def pop_due(self, now_s: float) -> Timer | None:
        if self.timers and self.timers[0].at_s <= now_s:
            return heappop(self.timers)
        return None

    def take_dirty(self) -> Dirty:
        taken, self.dirty = self.dirty, Dirty()
        return taken

    def index_job(self, job: Job, before: JobState | None) -> None:
        """Bring every index in step with what the job is now."""
        after = job.state
        if before is not after:
            if before is not None:
                self.by_state[before].pop(job.id, None)
            if after in FINAL:
                self._leave(job, after)
            else:
                self.by_state[after][job.id] = None
        if (before in ACTIVE) is not (after in ACTIVE):
            self._index_caps(job, after in ACTIVE)
            if after in ACTIVE and self.may_grow(job.spec):
                self.elastic[job.id] = None
            else:
                self.elastic.pop(job.id, None)
        self.waiting.put(job.id, job.spec, int(after in WAITING))
        if after in (JobState.QUEUED, JobState.PREEMPTED) and job.eligible_s:
            key = self.lanes.key_of(job.spec, self.capped_array(job))
            self.lanes.add(key, (-job.spec.priority, job.id))
        else:
            self.lanes.remove(job.id)

    def capped_array(self, job: Job) -> int:
        """The array that it is an element of, when that has a cap of its own; else 0."""
        array = self.arrays.get(job.array_id)
        return array.id if array is not None and array.cap else 0

    def index_array(self, array: Array) -> None:
        """An array with untouched elements is one member of a lane."""
        self.waiting.put(array.id, array.spec, len(array.pending()))
        if array.waiting and array.eligible_s and not array.held:
            key = self.lanes.key_of(array.spec, array.id if array.cap else 0)
            self.lanes.add(key, (-array.spec.priority, array.id))
        else:
            self.lanes.remove(array.id)

    def caps_of(self, job: Job) -> tuple[Counter, ...]:
        """The counters that this job takes part in while it holds room."""
        spec = job.spec
        return counters_of(spec, job.array_id)

    def _index_caps(self, job: Job, active: bool) -> None:
        for cap in self.caps_of(job):
            if active:
                self.active_in.setdefault(cap, {})[job.id] = None
            elif cap in self.active_in and job.id in self.active_in[cap]:
                del self.active_in[cap][job.id]
                if not self.active_in[cap]:
                    del self.active_in[cap]
                self.lanes.open_counter(cap)

    def may_grow(self, spec: JobSpec) -> bool:
        """Whether a job may run with fewer tasks than it asks for, and get the rest later."""
        return spec.elastic or (self.policy.gang.partial < 1.0 and spec.task_count > 1)

    def set_policy(self, policy: Policy) -> None:
        """Other rules; where they say how gangs start, waiting jobs have other shapes."""
        before, self.policy = self.policy, policy
        if policy.gang.partial == before.gang.partial:
            return
        self.lanes.partial = policy.gang.partial
        for job in self.jobs.values():
            self.lanes.remove(job.id)
            self.index_job(job, job.state)
            if job.state in ACTIVE and self.may_grow(job.spec):
                self.elastic[job.id] = None
            else:
                self.elastic.pop(job.id, None)
        for array in self.arrays.values():
            self.lanes.remove(array.id)
            self.index_array(array)

    def touch(self, node: str, uid: str = "") -> None:
        """The room on a node changed: the next pass looks at it again, or at one attempt there."""
        known = self.touched.setdefault(node, {})
        if not uid:
            self.touched[node] = None
        elif known is not None:
            known[uid] = None

    def lengths_changed(self, user: str, project: str) -> None:
        """Jobs of an account are taken to run for another time than before."""
        for lane in self.lanes.by_number.values():
            if lane.account == (user, project):
                lane.note = None
        for number in self.active_in.get(("user", user), ()):
            job = self.jobs[number]
            for attempt in job.live_attempts if job.spec.project == project else ():
                self.touch(attempt.allocation.node, attempt.uid)

    def rules_changed(self) -> None:
        self.rules_version += 1
        self.lanes.reopen()

    def _leave(self, job: Job, state: JobState) -> None:
        self.ended.put(job.id, state)
        self.jobs.pop(job.id, None)
        if job.array_id in self.unfinished_elements:
            self.unfinished_elements[job.array_id].pop(job.id, None)
