"""Quotas that another program has: what it said last, as the Cluster has it on record.

Nothing is counted here: the program itself counts, so that ``allocate_quota`` gives the same answer
as ``check_quota`` and ``release_quota`` does nothing. Rota's own hard limits bind as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.quotas.api import QuotaInfo, Resources
from rota.quotas.local import LocalQuotas, as_limits, as_resources

if TYPE_CHECKING:
    from rota.core.cluster import Cluster


class OuterQuotas:
    """Of a project that the provider never told of nothing is allowed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._local = LocalQuotas(cluster)

    def get_quota(self, project: str, job_type: str = "") -> QuotaInfo:
        """With a type of job: Rota's own limits, as no provider knows types."""
        if job_type:
            return self._local.get_quota(project, job_type)
        outer = self._cluster.accounts.outer.get(project)
        if outer is None or not outer.seen_s:
            return QuotaInfo(project, Resources(), Resources())
        return QuotaInfo(project, as_limits(outer.limits), as_resources(outer.used))

    def sync_quota_state(self, project: str) -> QuotaInfo:
        """As of the last answer: whoever wants a newer one asks for it first."""
        return self.get_quota(project)

    def check_quota(self, project: str, resources: Resources, job_type: str = "") -> bool:
        """Under the limits of the provider on the way up the tree, and under Rota's own."""
        accounts = self._cluster.accounts
        for name in accounts.chain(project) or [project]:
            outer = accounts.outer.get(name)
            if outer is None or not outer.seen_s:
                return False
            held = self._local.get_quota(name).used + as_resources(outer.foreign)
            if not held + resources <= as_limits(outer.limits):
                return False
        return self._local.check_quota(project, resources, job_type)

    def allocate_quota(self, project: str, resources: Resources, job_type: str = "") -> bool:
        return self.check_quota(project, resources, job_type)

    def release_quota(self, project: str, resources: Resources, job_type: str = "") -> None:
        """The provider sees by itself that a job has ended."""
