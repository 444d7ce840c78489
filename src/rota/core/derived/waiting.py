"""How many jobs wait, by account: held, queued and preempted ones, elements of arrays one by one.

Kept in step by the Cluster's indexing; the invariants count again and compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.core.derived.lanes import Counter
    from rota.core.facts.job import JobSpec

#: User, project and type: what a waiting job is counted under.
_Account = tuple[str, str, str]


class Waiting:
    """Counts by ("user", name), ("project", name), ("account", both) and by type of job."""

    def __init__(self) -> None:
        self.of: dict[Counter, int] = {}
        self._items: dict[int, tuple[_Account, int]] = {}
        #: One tuple per account, however many jobs it has.
        self._known: dict[_Account, _Account] = {}

    def get(self, account: Counter) -> int:
        return self.of.get(account, 0)

    def put(self, item: int, spec: JobSpec, count: int) -> None:
        """A job (or the untouched elements of an array) counts as this many from now on."""
        before = self._items.get(item)
        if not count:
            if before is not None:
                del self._items[item]
                self._shift(before[0], -before[1])
            return
        account = (spec.user, spec.project, spec.type)
        more = count
        if before is not None:
            if before == (account, count):
                return
            if before[0] == account:
                more -= before[1]
            else:
                self._shift(before[0], -before[1])
        account = self._known.setdefault(account, account)
        self._items[item] = (account, count)
        self._shift(account, more)

    def _shift(self, account: _Account, by: int) -> None:
        user, project, kind = account
        counters: list[Counter] = [
            ("user", user),
            ("project", project),
            ("account", f"{user}\n{project}"),
        ]
        if kind:
            counters += [("user type", f"{user}\n{kind}"), ("type", f"{project}\n{kind}")]
        for counter in counters:
            left = self.of.get(counter, 0) + by
            if left:
                self.of[counter] = left
            else:
                del self.of[counter]
