"""Why a job waits, in the one word that Slurm has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.changes.dependencies import judge
from rota.scheduling.answers import reasons as why
from rota.scheduling.answers.explain import Inquiry

if TYPE_CHECKING:
    from rota.core.derived.lanes import Lane
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job
    from rota.scheduling.answers.reasons import Reason
    from rota.scheduling.scheduler import Scheduler

#: What is limited -> Slurm's words for a limit of an account, of a user, of a queue.
_ACCOUNT = {
    "jobs": "AssocGrpJobsLimit",
    "cpu_milli": "AssocGrpCpuLimit",
    "memory_mib": "AssocGrpMemLimit",
    "device_milli": "AssocGrpGRES",
    "device_hours": "AssocGrpGRESMinutes",
}
_USER = {
    "jobs": "QOSMaxJobsPerUserLimit",
    "cpu_milli": "QOSMaxCpuPerUserLimit",
    "memory_mib": "QOSMaxMemoryPerUser",
    "device_milli": "QOSMaxGRESPerUser",
    "device_hours": "AssocGrpGRESMinutes",
}
_QUEUE = {
    "jobs": "QOSGrpJobsLimit",
    "cpu_milli": "QOSGrpCpuLimit",
    "memory_mib": "QOSGrpMemLimit",
    "device_milli": "QOSGrpGRES",
    "device_hours": "QOSGrpGRESMinutes",
}
_WORDS: dict[type, str] = {
    why.Held: "JobHeldUser",
    why.NotBefore: "BeginTime",
    why.QueueShut: "PartitionDown",
    why.OverShare: "Priority",
    why.NoNode: "Resources",
    why.Away: "ReqNodeNotAvail",
    why.ClusterAway: "ReqNodeNotAvail",
    why.Unfit: "BadConstraints",
    why.Scarce: "Resources",
    why.Metered: "Resources",
    why.BadCompany: "Resources",
    why.Claimed: "ReqNodeNotAvail",
    why.WouldDelay: "Priority",
    why.Parts: "Resources",
    why.Turn: "Priority",
}


def word_for(reason: Reason) -> str:
    """One word, never empty: clients count the words of a line."""
    if isinstance(reason, why.Parent):
        return "DependencyNeverSatisfied" if reason.never else "Dependency"
    if isinstance(reason, why.OverQuota):
        return _limit_word(reason)
    return _WORDS.get(type(reason), "None")


def _limit_word(over: why.OverQuota) -> str:
    kind = over.scope.partition(" ")[0]
    if kind == "array":
        return "JobArrayTaskLimit"
    if kind == "license":
        return "Licenses"
    table = {"user": _USER, "queue": _QUEUE}.get(kind, _ACCOUNT)
    return table.get(over.dimension, "AssocGrpBillingRunMinutes")


class WaitingWords:
    """The reasons of one listing: jobs that get the same answer are asked about once."""

    def __init__(self, scheduler: Scheduler, now_s: float) -> None:
        self._scheduler = scheduler
        self._cluster = scheduler.cluster
        self._now_s = now_s
        self._inquiry: Inquiry | None = None
        #: The lane is kept beside its answer, so that its id cannot be given to another one.
        self._of_lane: dict[int, tuple[Lane, str]] = {}

    def of(self, item: Job | Array) -> str:
        """The word for something that waits."""
        if item.held:
            return "JobHeldUser"
        if not item.eligible_s:
            return self._of_condition(item)
        lane = self._cluster.lanes.where.get(item.id)
        if lane is None:
            return self._ask(item.id)
        key = id(lane)
        if key not in self._of_lane:
            self._of_lane[key] = (lane, self._ask(item.id))
        return self._of_lane[key][1]

    def _of_condition(self, item: Job | Array) -> str:
        """Something other than room must happen first; cheap to find out, and often asked."""
        verdict = judge(self._cluster, item)
        if not verdict.met:
            return "DependencyNeverSatisfied" if verdict.never else "Dependency"
        if item.not_before_s > self._now_s:
            return "BeginTime"
        return self._ask(item.id)

    def _ask(self, item_id: int) -> str:
        if self._inquiry is None:
            self._inquiry = Inquiry(self._scheduler, self._now_s)
        return word_for(self._inquiry.decisive(item_id))
