"""How far the runs of an account outlive what they were taken to last.

Two numbers follow from the runs that ended: by which factor a run was too long, and how long such
a run was. Both are powers of two, so that they seldom change: plans that use them need not
be made again with every end. Eight runs in a row that stay below both halve them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from rota.core.derived.lanes import LaneKey
    from rota.core.facts.job import JobSpec, Role
    from rota.core.facts.policy import BackfillRules

#: A run that is too long by less than this factor is not late.
SLACK = 1.25
#: This many runs in a row that stay below halve what was learned.
PATIENCE = 8


class Overruns(msgspec.Struct, frozen=True, array_like=True):
    """What was learned of the estimates of an account."""

    #: How many times longer than said a run was; 1: runs are over in time.
    times: int = 1
    #: As long as this, in seconds.
    run_s: int = 0
    #: Runs in a row that stayed below both.
    below: int = 0

    def stretch(self, taken_s: float) -> float:
        """How long a job will run that is taken to run so long by what its user said."""
        return max(taken_s, min(taken_s * self.times, float(self.run_s)))

    def after(self, taken_s: float, ran_s: float) -> Overruns:
        """What is known when one more run is over."""
        times = run_s = 0
        if ran_s > taken_s * SLACK:
            times, run_s = _power(ran_s / taken_s), _power(ran_s)
        if times >= self.times or run_s > self.run_s:
            return Overruns(max(times, self.times), max(run_s, self.run_s))
        if self.times == 1 or run_s == self.run_s:
            return Overruns(self.times, self.run_s)
        if self.below + 1 < PATIENCE:
            return Overruns(self.times, self.run_s, self.below + 1)
        times = self.times // 2
        return Overruns(times, self.run_s // 2) if times > 1 else Overruns()


def _power(value: float) -> int:
    """The power of two that is about as large."""
    power = 1
    while power * SLACK < value:
        power *= 2
    return power


def taken_s(item: JobSpec | LaneKey, roles: tuple[Role, ...], rules: BackfillRules) -> float:
    """How long a job is taken to run by what its user said: its estimate, else its limit, else
    what the policy assumes."""
    said_s = item.estimate_s or item.time_limit_s
    if said_s:
        return float(said_s)
    devices = any(role.request.device_count for role in roles)
    return float(rules.estimate_device_s if devices else rules.estimate_cpu_s)
