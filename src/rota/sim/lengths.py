"""How long a recorded job runs when it is played, and how long it is taken to.

A live site knows limits and estimates in whole seconds, of which there is at least one. A log is
played by the same measure, whatever plays it.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from rota.sim.settings import SimEstimates, SimOverrun

if TYPE_CHECKING:
    from rota.sim.settings import SimSettings
    from rota.sim.trace import TraceJob


def told_s(job: TraceJob) -> float:
    """What its user said. A log without estimates is taken to have users who know: a prediction
    then has to be better than what they know, and is told no less than a run that goes by them."""
    return job.estimate_s or job.run_s


def is_stopped(job: TraceJob, settings: SimSettings) -> bool:
    """Whether its limit ends it."""
    return settings.overrun is SimOverrun.KILL and 0 < ceil(job.estimate_s) < job.run_s


def lasts_s(job: TraceJob, settings: SimSettings) -> float:
    """How long it runs."""
    return ceil(job.estimate_s) if is_stopped(job, settings) else job.run_s


def taken_s(job: TraceJob, settings: SimSettings) -> int:
    """How long it is taken to run by people who know, or by what its user said."""
    exact = settings.estimates is SimEstimates.EXACT
    return max(ceil(lasts_s(job, settings) if exact else told_s(job)), 1)


def limit_s(job: TraceJob, settings: SimSettings) -> int:
    """Its time limit; 0: none."""
    return taken_s(job, settings) if settings.overrun is SimOverrun.KILL else 0
