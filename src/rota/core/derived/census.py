"""Unfinished jobs by state, by what they ask for and, while they hold room, by their caps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.derived.demand import Demand
from rota.core.facts.states import FINAL, JobState

if TYPE_CHECKING:
    from rota.core.derived.lanes import Counter
    from rota.core.facts.job import Job, JobSpec


class Census:
    """Ids of jobs. Elements of arrays are in it once they are jobs of their own."""

    def __init__(self) -> None:
        self.by_state: dict[JobState, dict[int, None]] = {
            state: {} for state in JobState if state not in FINAL
        }
        self.active_in: dict[Counter, dict[int, None]] = {}
        #: Active jobs whose number of tasks may change while they run.
        self.elastic: dict[int, None] = {}
        self.demand = Demand()

    def move(self, job_id: int, before: JobState | None, after: JobState) -> None:
        """A job has another state; a finished one is in none of these."""
        if before is not None:
            self.by_state[before].pop(job_id, None)
        if after not in FINAL:
            self.by_state[after][job_id] = None

    def count(self, job: Job) -> None:
        """A job holds room from now on."""
        for cap in caps_of(job):
            self.active_in.setdefault(cap, {})[job.id] = None

    def uncount(self, job: Job) -> list[Counter]:
        """A job holds no room any more: the counters that it was counted under."""
        left = []
        for cap in caps_of(job):
            counted = self.active_in.get(cap)
            if counted is not None and job.id in counted:
                del counted[job.id]
                if not counted:
                    del self.active_in[cap]
                left.append(cap)
        return left

    def mark_elastic(self, job_id: int, elastic: bool) -> None:
        if elastic:
            self.elastic[job_id] = None
        else:
            self.elastic.pop(job_id, None)


def caps_of(job: Job) -> tuple[Counter, ...]:
    """The counters that this job takes part in while it holds room."""
    return counters_of(job.spec, job.array_id)


def counters_of(spec: JobSpec, array_id: int) -> tuple[Counter, ...]:
    """What is counted for a job that holds room: by queue, group, array, user, project, type,
    licence."""
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
    counters += [("license", name) for name, _ in spec.licenses]
    if array_id:
        counters.append(("array", array_id))
    if spec.type:
        counters += [("user type", f"{user}\n{spec.type}"), ("type", f"{project}\n{spec.type}")]
    if vdc := spec.placement.vdc:
        counters += [("vdc", vdc), ("vdc user", f"{vdc}\n{user}")]
    return tuple(counters)
