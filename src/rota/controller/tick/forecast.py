"""Run times as the live system predicts them: learned from jobs that end, told at submit.

What is told becomes part of the job's spec and so of the event that records it. A replay reads
it there and never asks again, so that what was learned by then does not matter to it.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.core.facts.policy import Estimates
from rota.core.facts.states import JobState
from rota.scheduling.later.predict import Prediction, Predictor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.facts.job import Job, JobSpec
    from rota.core.facts.policy import Policy

#: Ended jobs that a restart learns from.
REMEMBERED = 10_000
#: Ends that say how long the job takes. Who was cancelled or lost would have run longer.
TELLING = (JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT)


class Forecast:
    """The predictor of a controller."""

    def __init__(self) -> None:
        self.predictor = Predictor()
        #: What was said about jobs that have not ended, as far as this process said it.
        self._made: dict[int, Prediction] = {}

    def remember(self, jobs: Iterable[Job]) -> None:
        """Learn from jobs of an earlier life, in the order in which they ended."""
        for job in sorted(jobs, key=lambda job: (job.ended_s, job.id)):
            self.learn(job)

    def tell(self, job_id: int, spec: JobSpec, policy: Policy) -> JobSpec:
        """The spec with what is expected of it, if the policy plans with that.

        ``job_id`` 0: an array, whose elements teach but are not judged.
        """
        if policy.backfill.estimates is not Estimates.PREDICTED or _is_told(spec):
            return spec
        made = self.predictor.predict(spec.user, spec.name, size_of(spec), _limit_s(spec))
        if not made.known:
            return replace(spec, predicted_s=0, predicted_most_s=0) if spec.predicted_s else spec
        if job_id:
            self._made[job_id] = made
        most_s = ceil(made.bound_s)
        return replace(spec, predicted_s=made.planned_s, predicted_most_s=most_s)

    def learn(self, job: Job) -> None:
        """A job has ended."""
        made = self._made.pop(job.id, None)
        started_s = job.started_s
        if job.outcome is None or job.outcome.state not in TELLING or not started_s:
            return
        spec, run_s = job.spec, max(job.ended_s - started_s - job.paused_s, 0.0)
        self.predictor.learn(spec.user, spec.name, size_of(spec), _limit_s(spec), run_s, made)


def size_of(spec: JobSpec) -> int:
    """Its devices, or its CPUs where it asks for none."""
    requests = [(role.count, role.request) for role in spec.roles]
    devices = sum(count * request.device_count for count, request in requests)
    return devices or max(1, sum(count * request.cpu_milli for count, request in requests) // 1000)


def _is_told(spec: JobSpec) -> bool:
    """Whether its user says how long it takes beside how long it may: that wins."""
    return 0 < spec.estimate_s < spec.time_limit_s


def _limit_s(spec: JobSpec) -> float:
    return float(spec.time_limit_s or spec.estimate_s)
