"""What each account keeps from others now: sums over live attempts, kept in step by ``apply``.

An attempt counts with what it was given; where it has a node to itself, with all of the node, once
for all tasks of its job there. CPUs that an attempt lends stay with it for quotas, as they come
back unasked, but the borrower is charged for them. The invariants derive the same sums from the
attempts and compare.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.resources import NOTHING, Amount

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.derived.lanes import Counter, Shape
    from rota.core.facts.job import Attempt, JobSpec
    from rota.core.facts.node import Allocation


class Count(NamedTuple):
    """What one live attempt counts with."""

    #: For quotas.
    kept: Amount
    #: Of it: CPUs on loan, which it is not charged for.
    lent: Amount = NOTHING

    @property
    def used(self) -> Amount:
        return self.kept.plus(self.lent, -1) if self.lent != NOTHING else self.kept


class Holdings:
    """Amounts by ("user", name), ("project", name), ("account", both) and by type of job."""

    def __init__(self) -> None:
        self.of: dict[Counter, Amount] = {}
        #: Of that: CPUs on loan.
        self.lent: dict[Counter, Amount] = {}
        #: Live attempts that count with something else than they were given.
        self.special: dict[str, Count] = {}

    def twin(self) -> Holdings:
        """A copy to try things on."""
        twin = Holdings()
        twin.of, twin.lent, twin.special = self.of.copy(), self.lent.copy(), self.special.copy()
        return twin

    def get(self, account: Counter) -> Amount:
        return self.of.get(account, NOTHING)

    def used(self, account: Counter) -> Amount:
        """What is held and not on loan."""
        lent = self.lent.get(account)
        return self.get(account) if lent is None else self.get(account).plus(lent, -1)

    def count_of(self, attempt: Attempt) -> Count:
        """What a live attempt counts with."""
        return self.special.get(attempt.uid) or Count(amount_of(attempt.allocation))

    def shift(self, spec: JobSpec, count: Count, sign: int) -> None:
        """An attempt of a job with this spec counts with this (1), or does so no longer (-1)."""
        for account in accounts_of(spec):
            _shift(self.of, account, count.kept, sign)
            if count.lent != NOTHING:
                _shift(self.lent, account, count.lent, sign)


def _shift(sums: dict[Counter, Amount], account: Counter, amount: Amount, sign: int) -> None:
    left = sums.get(account, NOTHING).plus(amount, sign)
    if left == NOTHING:
        sums.pop(account, None)
    else:
        sums[account] = left


def accounts_of(spec: JobSpec) -> list[Counter]:
    """Whose sums an attempt of this job counts in."""
    user, project = spec.user, spec.project
    accounts: list[Counter] = [
        ("user", user),
        ("project", project),
        ("account", f"{user}\n{project}"),
    ]
    if spec.type:
        accounts += [("user type", f"{user}\n{spec.type}"), ("type", f"{project}\n{spec.type}")]
    if spec.placement.vdc:
        accounts.append(("vdc", spec.placement.vdc))
    return accounts


def amount_of(allocation: Allocation) -> Amount:
    """What a task keeps from others, if it is the only one of its job on the node."""
    if allocation.keeps is not None:
        return allocation.keeps
    each = allocation.device_milli if allocation.shared and allocation.device_milli else 1000
    return Amount(
        allocation.cpu_milli,
        allocation.memory_mib,
        allocation.disk_mib,
        len(allocation.devices) * each,
    )


def price_of(attempt: Attempt, count: Count) -> float:
    """What an hour of a live attempt costs now: a node of its own is paid once for all tasks."""
    return attempt.price if count.kept != NOTHING else 0.0


def amount_of_all(allocations: Iterable[Allocation]) -> Amount:
    """What tasks of one job keep from others together: a node of their own counts once."""
    total, own = NOTHING, set[str]()
    for allocation in allocations:
        if allocation.keeps is None or allocation.node not in own:
            total = total.plus(amount_of(allocation))
        if allocation.keeps is not None:
            own.add(allocation.node)
    return total


@lru_cache(maxsize=4096)
def least_of(shape: Shape) -> Amount:
    """What a job holds at the least when it starts: an elastic one has its fewest tasks then.

    What it keeps from others beyond that, on nodes of its own, depends on the nodes.
    """
    least = NOTHING
    for role in shape.roles:
        least = least.plus(role.request.amount, shape.least_tasks(role))
    return least


def uncharged_s(attempt: Attempt) -> float:
    """Since when the use of an attempt that ran is still to be charged."""
    return max(attempt.charged_s, attempt.started_s)
