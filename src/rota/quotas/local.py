"""Quotas from Rota's own records. What jobs hold is derived from them, so it cannot drift.

``allocate_quota`` is for what is no job of Rota's yet: it counts beside what jobs hold until it is
released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.tenant import UNLIMITED as NO_LIMITS
from rota.quotas.api import UNLIMITED, QuotaInfo, Resources

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.resources import Amount
    from rota.core.facts.tenant import Limits


class LocalQuotas:
    """The hard limits of projects; those of a project bind all projects below it together."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: What was allocated beside jobs, by project and type of job.
        self._beside: dict[tuple[str, str], Resources] = {}

    def get_quota(self, project: str, job_type: str = "") -> QuotaInfo:
        known = self._cluster.accounts.projects.get(project)
        limits = NO_LIMITS
        if known is not None:
            quota = known.quota
            limits = quota.types.get(job_type, NO_LIMITS) if job_type else quota.hard
        return QuotaInfo(project, as_limits(limits), self._used(project, job_type))

    def sync_quota_state(self, project: str) -> QuotaInfo:
        """Nothing is kept that could be out of step."""
        return self.get_quota(project)

    def check_quota(self, project: str, resources: Resources, job_type: str = "") -> bool:
        """Under every limit on the way up the tree of projects, for all jobs and for the type."""
        types = ("", job_type) if job_type else ("",)
        infos = [
            self.get_quota(name, kind)
            for name in self._cluster.accounts.chain(project)
            for kind in types
        ]
        return all(info.used + resources <= info.limits for info in infos)

    def allocate_quota(self, project: str, resources: Resources, job_type: str = "") -> bool:
        if not self.check_quota(project, resources, job_type):
            return False
        key = (project, job_type)
        self._beside[key] = self._beside.get(key, Resources()) + resources
        return True

    def release_quota(self, project: str, resources: Resources, job_type: str = "") -> None:
        key = (project, job_type)
        left = self._beside.pop(key, Resources()) - resources
        if left != Resources():
            self._beside[key] = left

    def _used(self, project: str, job_type: str) -> Resources:
        names, used = self._cluster.accounts.below(project), Resources()
        holdings = self._cluster.accounts.holdings
        for name in names:
            counter = ("type", f"{name}\n{job_type}") if job_type else ("project", name)
            used += as_resources(holdings.get(counter))
        for (name, kind), beside in self._beside.items():
            if name in names and (not job_type or kind == job_type):
                used += beside
        return used


def as_resources(amount: Amount) -> Resources:
    return Resources(amount.cpu_milli / 1000, amount.memory_mib / 1024, amount.device_milli / 1000)


def as_limits(limits: Limits) -> Resources:
    cpu, memory, gpu = limits.cpu_milli, limits.memory_mib, limits.device_milli
    return Resources(
        UNLIMITED.cpu if cpu is None else cpu / 1000,
        UNLIMITED.memory_gb if memory is None else memory / 1024,
        UNLIMITED.gpu if gpu is None else gpu / 1000,
    )
