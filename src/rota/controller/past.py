"""What an installation has lived through: its jobs and the site that they ran on.

Enough to play the same work again under other rules. The simulator reads it out of a store that
somebody else may be writing; the API hands it to a process of its own, so that no tick waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.array import Array
from rota.core.facts.job import Job
from rota.core.facts.node import Node
from rota.core.facts.policy import Policy
from rota.core.facts.tenant import Group, Project, Queue, Reservation, User
from rota.store.api import JobFilter

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.store.api import Store

PAGE = 500


class SiteNow(msgspec.Struct):
    """The machines and the rules, as they are now."""

    policy: Policy
    nodes: list[Node] = []
    queues: list[Queue] = []
    groups: list[Group] = []
    projects: list[Project] = []
    users: list[User] = []
    reservations: list[Reservation] = []


class Past(msgspec.Struct):
    """The jobs that were submitted since a moment, oldest first, and the site."""

    site: SiteNow
    jobs: list[Job]
    #: Those that these jobs are elements of or wait for, without the rows of a sweep.
    arrays: list[Array] = []
    since_s: float = 0.0
    #: There were older ones since then that were left out because they are too many.
    cut: bool = False


class PastQuestion(msgspec.Struct):
    """The past, and the rules that it is to be played under once more."""

    past: Past
    policy: Policy


class Figures(msgspec.Struct):
    """How all jobs fared together. Times are seconds; utilisation is a share of 1."""

    mean_wait_s: float
    median_wait_s: float
    p95_wait_s: float
    mean_bounded_slowdown: float
    utilization: float
    preemptions: int = 0
    max_wait_s: float = 0.0


class Gain(msgspec.Struct):
    """What other rules mean for one user or project: mean waits, and who starts when."""

    name: str
    jobs: int
    wait_before_s: float
    wait_after_s: float
    earlier: int
    later: int


class Comparison(msgspec.Struct):
    """The same past under the present rules and under others."""

    jobs: int
    first_s: float
    last_s: float
    #: What users really waited, beside what the replay under the present rules says.
    recorded_mean_wait_s: float
    before: Figures
    after: Figures
    #: What the utilisation is of: GPUs, or processors.
    unit: str
    users: list[Gain]
    projects: list[Gain]
    #: What could not be played as it was, in sentences.
    notes: list[str]
    #: Who gains, who pays and by how much, in a sentence.
    verdict: str = ""
    #: The longest mean wait that is to be expected then, by project; "": of all jobs together.
    most_s: dict[str, float] = {}


def site_of(cluster: Cluster) -> SiteNow:
    """The facts of a Cluster that outlive single jobs."""
    return SiteNow(
        policy=cluster.policy,
        nodes=[*cluster.nodes.values()],
        queues=[*cluster.queues.values()],
        groups=[*cluster.groups.values()],
        projects=[*cluster.accounts.projects.values()],
        users=[*cluster.accounts.users.values()],
        reservations=[*cluster.reservations.values()],
    )


def read_arrays(store: Store, jobs: list[Job]) -> list[Array]:
    """The arrays that these jobs are elements of or wait for, also those that have ended."""
    needed = {job.array_id for job in jobs}
    needed |= {parent.parent for job in jobs for parent in job.spec.dependencies}
    found = map(store.array, sorted(needed.difference(job.id for job in jobs)))
    return [msgspec.structs.replace(array, rows=()) for array in found if array is not None]


def read_jobs(store: Store, since_s: float = 0.0, limit: int = 0) -> tuple[list[Job], bool]:
    """The jobs submitted since a moment, oldest first: the newest ``limit`` of them (0: all).

    Also whether older ones were left out for being too many.
    """
    found: list[Job] = []
    before = 0
    while True:
        page = store.list_jobs(JobFilter(), after=before, limit=PAGE, newest_first=True)
        recent = [job for job in page if job.submitted_s >= since_s]
        found += recent
        if limit and len(found) > limit:
            return found[:limit][::-1], True
        if len(page) < PAGE or not recent:
            return found[::-1], False
        before = page[-1].id
