"""What Rota answers as a provider of quotas: limits, use, and whether more may start now.

Nothing is counted here. What jobs hold follows from their live attempts, and another program that
has the quotas counts by itself: a start is an allocation and an end is its release, so that
``allocate_quota`` gives the answer of ``check_quota`` and ``release_quota`` does nothing. Whether
more may start is said by the rules that every pass obeys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.derived.lanes import LaneKey
from rota.core.facts.resources import Amount
from rota.core.facts.tenant import UNLIMITED as NO_LIMITS
from rota.quotas.api import UNLIMITED, ProjectResources, QuotaInfo
from rota.scheduling.limits.quota import Quotas

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.tenant import Limits


class ProjectQuotas:
    """The quotas of projects, Rota's own and those that another program has."""

    def __init__(self, cluster: Cluster, now_s: float) -> None:
        self._cluster = cluster
        self._now_s = now_s

    def get_quota(self, project: str, job_type: str = "") -> QuotaInfo:
        """As the provider in force has it. With a type of job Rota's own: no other knows types."""
        accounts = self._cluster.accounts
        if accounts.provider and not job_type:
            outer = accounts.outer.get(project)
            if outer is None or not outer.seen_s:
                return QuotaInfo(project, ProjectResources(), ProjectResources())
            return QuotaInfo(project, as_limits(outer.limits), as_resources(outer.used))
        known, limits = accounts.projects.get(project), NO_LIMITS
        if known is not None:
            quota = known.quota
            limits = quota.types.get(job_type, NO_LIMITS) if job_type else quota.hard
        return QuotaInfo(project, as_limits(limits), self._held(project, job_type))

    def sync_quota_state(self, project: str) -> QuotaInfo:
        """As of the last answer of a program outside: a newer one is asked for elsewhere."""
        return self.get_quota(project)

    def shortage(self, project: str, resources: ProjectResources, job_type: str = "") -> str:
        """Why a job of the project that asks for this would wait now; empty: it may start."""
        key = LaneKey(
            shape=0,
            queue="",
            group="",
            capped_array=0,
            user="",
            project=project,
            priority=0,
            time_limit_s=0,
            estimate_s=0,
            deadline_s=0.0,
            type=job_type,
        )
        return str(Quotas(self._cluster, self._now_s).short(key, as_amount(resources)) or "")

    def check_quota(self, project: str, resources: ProjectResources, job_type: str = "") -> bool:
        return not self.shortage(project, resources, job_type)

    def allocate_quota(self, project: str, resources: ProjectResources, job_type: str = "") -> bool:
        return self.check_quota(project, resources, job_type)

    def release_quota(self, project: str, resources: ProjectResources, job_type: str = "") -> None:
        """An end is seen by itself."""

    def _held(self, project: str, job_type: str) -> ProjectResources:
        accounts, used = self._cluster.accounts, ProjectResources()
        for name in accounts.below(project):
            counter = ("type", f"{name}\n{job_type}") if job_type else ("project", name)
            used += as_resources(accounts.holdings.get(counter))
        return used


def as_amount(resources: ProjectResources) -> Amount:
    return Amount(
        cpu_milli=round(resources.cpu * 1000),
        memory_mib=round(resources.memory_gb * 1024),
        device_milli=round(resources.gpu * 1000),
    )


def as_resources(amount: Amount) -> ProjectResources:
    return ProjectResources(
        amount.cpu_milli / 1000, amount.memory_mib / 1024, amount.device_milli / 1000
    )


def as_limits(limits: Limits) -> ProjectResources:
    cpu, memory, gpu = limits.cpu_milli, limits.memory_mib, limits.device_milli
    return ProjectResources(
        UNLIMITED.cpu if cpu is None else cpu / 1000,
        UNLIMITED.memory_gb if memory is None else memory / 1024,
        UNLIMITED.gpu if gpu is None else gpu / 1000,
    )
