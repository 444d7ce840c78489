"""The aggregate: all facts that matter for the next decision, and what is derived from them.

Only ``apply`` changes a Cluster. Finished jobs and arrays leave it; one byte per id remembers how
they ended, so that a dependency on job 12 is answered without asking a database.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from rota.core.derived.accounts import Accounts
from rota.core.derived.agenda import Agenda
from rota.core.derived.census import Census
from rota.core.derived.dirty import Dirty as Dirty
from rota.core.derived.families import Families
from rota.core.derived.ids import Ids
from rota.core.derived.lanes import Lanes
from rota.core.derived.live import Live
from rota.core.facts.policy import DEFAULT, Policy
from rota.core.facts.states import ACTIVE, FINAL, WAITING, JobState
from rota.core.facts.tenant import Group, Queue, Reservation

if TYPE_CHECKING:
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job, JobSpec
    from rota.core.facts.node import Node
    from rota.core.facts.site.pilot import Pilot

#: How an array ended, by the ends of its elements: the first of these that occurs.
WORST_FIRST = (
    JobState.FAILED,
    JobState.TIMEOUT,
    JobState.NODE_FAILED,
    JobState.UNSCHEDULABLE,
    JobState.CANCELLED,
    JobState.COMPLETED,
)


class Cluster:
    """All unfinished work and all capacity."""

    def __init__(self, cluster_id: str = "") -> None:
        self.ids = Ids(cluster_id)
        self.jobs: dict[int, Job] = {}
        self.nodes: dict[str, Node] = {}
        self.queues: dict[str, Queue] = {"default": Queue(name="default")}
        self.groups: dict[str, Group] = {}
        self.reservations: dict[int, Reservation] = {}
        self.pilots: dict[str, Pilot] = {}
        self.policy: Policy = DEFAULT
        self.accounts = Accounts()
        # Derived, in step with the facts above.
        self.lanes = Lanes()
        self.census = Census()
        self.families = Families()
        self.live = Live(self.jobs, self.nodes)
        self.agenda = Agenda(self.jobs, self.arrays)
        self.dirty = Dirty()

    @property
    def arrays(self) -> dict[int, Array]:
        """Facts, kept beside what follows from them: their elements and their blocks of ids."""
        return self.families.arrays

    def array_of(self, job_id: int) -> Array | None:
        """The array that holds this id as an untouched element, if any."""
        array = self.families.family_of(job_id)
        if array is not None and array.position(job_id) in array.pending():
            return array
        return None

    def state_of(self, job_id: int) -> JobState | None:
        """The state of any job ever submitted, or None when there is no such job."""
        job = self.jobs.get(job_id)
        if job is not None:
            return job.state
        ended = self.ids.ended.get(job_id)
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
        if unfinished := self.families.unfinished.get(array_id):
            started = all(self.jobs[element].started_s for element in unfinished)
            return JobState.RUNNING if started else JobState.QUEUED
        ends = self.ids.ended.states_in(array.id + 1, array.id + array.count)
        return next((state for state in WORST_FIRST if state in ends), None)

    def items_of(self, user: str) -> list[Job | Array]:
        """The unfinished jobs of a user, and the arrays that have untouched elements."""
        waiting = self.accounts.waiting.owned.get(user, ())
        ids = {*waiting, *self.census.active_in.get(("user", user), ())}
        return [self.jobs.get(item) or self.arrays[item] for item in ids]

    def count_states(self) -> dict[JobState, int]:
        """How many jobs are in each state, elements of arrays counted one by one."""
        counts = {state: len(ids) for state, ids in self.census.by_state.items()}
        for array in self.arrays.values():
            waiting = len(array.pending())
            counts[JobState.HELD if array.held else JobState.QUEUED] += waiting
        return counts | self.ids.ended.counts

    def count_elements(self, array: Array) -> dict[JobState, int]:
        """How many elements of one array are in each state."""
        counts = dict.fromkeys(JobState, 0)
        counts |= self.ids.ended.counts_in(array.id + 1, array.id + array.count)
        counts[JobState.HELD if array.held else JobState.QUEUED] += len(array.pending())
        for job_id in self.families.unfinished.get(array.id, ()):
            counts[self.jobs[job_id].state] += 1
        return counts

    def take_dirty(self) -> Dirty:
        taken, self.dirty = self.dirty, Dirty()
        return taken

    def index_job(self, job: Job, before: JobState | None) -> None:
        """Bring everything that is derived in step with what the job is now."""
        after = job.state
        if before is not after:
            self.census.move(job.id, before, after)
            if after in FINAL:
                self._leave(job, after)
        active = after in ACTIVE
        if (before in ACTIVE) is not active:
            self._index_caps(job, active)
            self.census.mark_elastic(job.id, active and self.may_grow(job.spec))
        ready = after in (JobState.QUEUED, JobState.PREEMPTED) and bool(job.eligible_s)
        self.accounts.waiting.put(job.id, job.spec, int(after in WAITING), ready=ready)
        self.census.demand.put(job.id, job.spec, int(after not in FINAL))
        if ready:
            key = self.lanes.key_of(job.spec, self.capped_array(job))
            self.lanes.add(key, (-job.spec.priority, job.id))
        else:
            self.lanes.remove(job.id)

    def capped_array(self, job: Job) -> int:
        """The array that it is an element of, when that has a cap of its own; else 0."""
        array = self.families.arrays.get(job.array_id) if job.array_id else None
        return array.id if array is not None and array.cap else 0

    def index_array(self, array: Array) -> None:
        """An array with untouched elements is one member of a lane."""
        ready = bool(array.waiting and array.eligible_s and not array.held)
        self.accounts.waiting.put(array.id, array.spec, len(array.pending()), ready=ready)
        self.census.demand.put(array.id, array.spec, len(array.pending()))
        if ready:
            key = self.lanes.key_of(array.spec, array.id if array.cap else 0)
            self.lanes.add(key, (-array.spec.priority, array.id))
        else:
            self.lanes.remove(array.id)

    def _index_caps(self, job: Job, active: bool) -> None:
        if active:
            self.census.count(job)
        else:
            for cap in self.census.uncount(job):
                self.lanes.given_back.add(cap)

    def may_grow(self, spec: JobSpec) -> bool:
        """Whether a job may run with fewer tasks than it asks for, and get the rest later."""
        return spec.elastic or (self.policy.gang.partial < 1.0 and spec.task_count > 1)

    def set_policy(self, policy: Policy) -> None:
        """Other rules; where they say how gangs start, waiting jobs have other shapes."""
        before, self.policy = self.policy, policy
        if policy.gang.partial == before.gang.partial:
            return
        self.lanes.partial = policy.gang.partial
        self._reshape()
        for job in self.jobs.values():
            self.census.mark_elastic(job.id, job.state in ACTIVE and self.may_grow(job.spec))

    def owners_changed(self) -> None:
        """A node starts the jobs of one user only, or does no more: then shapes tell users."""
        personal = any(node.spec.user for node in self.nodes.values())
        if personal != self.lanes.personal:
            self.lanes.personal = personal
            self._reshape()

    def clusters_changed(self) -> None:
        """A node went or is in another cluster: shapes tell whether there are several."""
        self._set_clustered(len({node.cluster for node in self.nodes.values()}) > 1)

    def cluster_joined(self, node: Node) -> None:
        """A node came. As long as all are in one cluster, any other stands for all of them."""
        if not self.lanes.clustered:
            some = islice(self.nodes.values(), 2)
            self._set_clustered(any(other.cluster != node.cluster for other in some))

    def _set_clustered(self, clustered: bool) -> None:
        if clustered != self.lanes.clustered:
            self.lanes.clustered = clustered
            self._reshape()

    def _reshape(self) -> None:
        """What waits has another shape than before."""
        for job in self.jobs.values():
            self.lanes.remove(job.id)
            self.index_job(job, job.state)
        for array in self.arrays.values():
            self.lanes.remove(array.id)
            self.index_array(array)

    def lengths_changed(self, user: str, project: str) -> None:
        """Jobs of an account are taken to run for another time than before."""
        for lane in self.lanes.by_number.values():
            if lane.account == (user, project):
                self.lanes.changed.add(lane.number)
        for number in self.census.active_in.get(("user", user), ()):
            job = self.jobs[number]
            for attempt in job.live_attempts if job.spec.project == project else ():
                self.agenda.touch(attempt.allocation.node, attempt.uid)

    def cap_changed(self, group: str) -> None:
        """The jobs of a group, and no others, are worth another look.

        Every user makes groups, and as often as they like: that must not concern all that waits.
        """
        for lane in self.lanes.by_number.values():
            if lane.key.group == group:
                self.lanes.changed.add(lane.number)

    def rules_changed(self) -> None:
        """Every lane is worth another look, and what was worked out from the rules is void."""
        self.agenda.rules_version += 1

    def _leave(self, job: Job, state: JobState) -> None:
        self.ids.ended.put(job.id, state)
        self.jobs.pop(job.id, None)
        self.families.leave(job)
        array = self.arrays.get(job.array_id)
        if array is not None:
            self.let_go(array)

    def let_go(self, array: Array) -> None:
        """An array leaves once all of its elements have ended.

        Elements that ended untouched have no record but the array's, so an array that has some
        stays.
        """
        if array.waiting or array.cut or self.families.unfinished.get(array.id):
            return
        state = self.array_state(array.id)
        if state is not None:
            self.ids.ended.put_array(array.id, state)
        self.families.forget(array.id)
