"""Fair share in a pool: users at the root of the tree, and processors as the one resource.

No project of a recorded log is on record, so each user has one share. Use is remembered by the
very sums of the core, and weighed as the core does.
"""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING

from rota.core.derived.running import Running
from rota.core.derived.usage import Spent, Usage, rate_of, usage_key
from rota.core.facts.resources import Amount
from rota.scheduling.order.share_use import weights
from rota.sim.settings import BEGIN_S

if TYPE_CHECKING:
    from rota.core.derived.lanes import Counter, LaneKey
    from rota.core.facts.policy import ShareRules

#: Whose it is, how many processors, and since when.
Held = tuple["LaneKey", Amount, float]


class PoolShares:
    """Use over target of users, as of a pass."""

    def __init__(self, rules: ShareRules, total: int) -> None:
        self._half_life_s = rules.half_life_s
        of_live, of_past = weights(rules, Amount(cpu_milli=total * 1000))
        self._of_live, self._of_past = of_live[0], of_past[0]
        self._running = Running()
        #: By user: thousandths of processors that are held, jobs that wait, and records of use.
        #: A user who holds nothing, or waits for nothing, is not among those.
        self._held: dict[str, int] = {}
        self._waiting: dict[str, int] = {}
        self._names: dict[str, dict[Counter, None]] = {}
        self._records: dict[str, dict[str, Usage]] = {}
        self._counters: dict[tuple[str, str], Counter] = {}
        self._holders: dict[int, Held] = {}
        self._left: list[Held] = []
        #: The users that divide what there is as of this pass (0: nobody has asked yet), and
        #: what each one's use came to in it.
        self._active = 0
        self._loads: dict[str, float] = {}
        self._now_s = 0.0

    def waits(self, key: LaneKey, more: int) -> None:
        """Count more (or fewer) jobs of an account that wait."""
        _shift(self._waiting, key.user, more)

    def begin(self, now_s: float) -> None:
        """A pass begins: jobs that left are charged, and all use is as of now."""
        self._now_s = BEGIN_S + now_s
        for key, amount, since_s in self._left:
            self._running.shift_of((self._counter(key),), amount, since_s, -1)
            records = self._records.setdefault(key.user, {})
            usage = records.get(key.project)
            if usage is None:
                usage = Usage(key.user, key.project, Spent(), self._now_s, {})
                records[key.project] = usage
            if self._now_s > since_s:
                usage.charge_recent(rate_of(amount), since_s, self._now_s, self._half_life_s)
        self._left.clear()
        self._loads.clear()
        self._active = 0

    def starts(self, job: int, key: LaneKey, size: int) -> None:
        """A job takes processors in this pass."""
        amount = Amount(cpu_milli=size * 1000)
        load = self._load(key.user)
        self._loads[key.user] = load + self._of_live * amount.cpu_milli
        self._holders[job] = (key, amount, self._now_s)
        _shift(self._held, key.user, amount.cpu_milli)
        counter = self._counter(key)
        self._names.setdefault(key.user, {})[counter] = None
        self._running.shift_of((counter,), amount, self._now_s, 1)

    def leaves(self, job: int) -> None:
        """A job is over at the moment of the next pass."""
        held = self._holders.pop(job)
        key, amount, _ = held
        _shift(self._held, key.user, -amount.cpu_milli)
        self._left.append(held)

    def ratio(self, user: str) -> float:
        """Use over target; 0 for nothing used, 1 for exactly the share."""
        if not self._active:
            # No start changes it: a user that begins to hold was waiting.
            self._active = len(self._held.keys() | self._waiting.keys())
        return max(0.0, self._load(user)) / (1 / self._active)

    def _counter(self, key: LaneKey) -> Counter:
        known = self._counters.get((key.user, key.project))
        if known is None:
            known = ("account", usage_key(key.user, key.project))
            self._counters[key.user, key.project] = known
        return known

    def _load(self, user: str) -> float:
        load = self._loads.get(user)
        if load is None:
            load = self._loads[user] = self._of_live * self._held.get(user, 0)
            load = self._loads[user] = load + self._of_past * self._spent_s(user)
        return load

    def _spent_s(self, user: str) -> float:
        """Processor-seconds, each instant decayed by its own age."""
        now_s, half_life_s, running = self._now_s, self._half_life_s, self._running
        spent = [
            running.decayed(counter, now_s, half_life_s).cpu_s
            for counter in self._names.get(user, ())
            if counter in running.of
        ]
        records = self._records.get(user, {}).values()
        past = [each.recent.cpu_s * each.left_at(now_s, half_life_s) for each in records]
        return fsum(spent + past)


def _shift(sums: dict[str, int], user: str, more: int) -> None:
    """Add to what a user has, and forget who has nothing."""
    sums[user] = sums.get(user, 0) + more
    if not sums[user]:
        del sums[user]
