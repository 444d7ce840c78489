"""How many jobs wait, by account: held, queued and preempted ones, elements of arrays one by one.

For fair share also which accounts have jobs that are ready, and not held or waiting for others.

Kept in step by the Cluster's indexing; the invariants count again and compare.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.core.derived.lanes import Counter
    from rota.core.facts.job import JobSpec

#: User, project, type and queue: what a waiting job is counted under, and whether it is ready.
_Account = tuple[str, str, str, str, bool]


@lru_cache(maxsize=4096)
def _counters(account: _Account) -> tuple[Counter, ...]:
    """What a job of an account is counted under."""
    user, project, kind, queue, ready = account
    counters: list[Counter] = [("user", user), ("project", project), ("queue", queue)]
    if ready:
        counters.append(("ready", f"{user}\n{project}"))
    if kind:
        counters += [("user type", f"{user}\n{kind}"), ("type", f"{project}\n{kind}")]
    return tuple(counters)


class WaitingCounts:
    """Counts by user, project, queue, by the two first together if ready, and by type of job."""

    def __init__(self) -> None:
        self.of: dict[Counter, int] = {}
        self._items: dict[int, tuple[_Account, int]] = {}
        #: Who has which of these jobs and arrays.
        self.owned: dict[str, dict[int, None]] = {}
        #: One tuple per account, however many jobs it has.
        self._known: dict[_Account, _Account] = {}

    def get(self, account: Counter) -> int:
        return self.of.get(account, 0)

    def put(self, item: int, spec: JobSpec, count: int, *, ready: bool) -> None:
        """A job (or the untouched elements of an array) counts as this many from now on."""
        before = self._items.get(item)
        if not count:
            if before is not None:
                del self._items[item]
                self._disown(item, before[0][0])
                self._shift(before[0], -before[1])
            return
        account = (spec.user, spec.project, spec.type, spec.queue, ready)
        more = count
        if before is None:
            self.owned.setdefault(account[0], {})[item] = None
        else:
            if before == (account, count):
                return
            if before[0] == account:
                more -= before[1]
            else:
                self._shift(before[0], -before[1])
        account = self._known.setdefault(account, account)
        self._items[item] = (account, count)
        self._shift(account, more)

    def _disown(self, item: int, user: str) -> None:
        owned = self.owned[user]
        del owned[item]
        if not owned:
            del self.owned[user]

    def _shift(self, account: _Account, by: int) -> None:
        for counter in _counters(account):
            left = self.of.get(counter, 0) + by
            if left:
                self.of[counter] = left
            else:
                del self.of[counter]
