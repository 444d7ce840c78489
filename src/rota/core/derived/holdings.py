"""What each account holds right now: sums over live attempts, kept in step by ``apply``.

The invariants derive the same sums from the attempts and compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.derived.usage import device_milli_of
from rota.core.facts.resources import NOTHING, Amount

if TYPE_CHECKING:
    from rota.core.derived.lanes import Counter
    from rota.core.facts.job import JobSpec
    from rota.core.facts.node import Allocation


class Holdings:
    """Amounts by ("user", name), ("project", name), ("account", both) and by type of job."""

    def __init__(self) -> None:
        self.of: dict[Counter, Amount] = {}

    def get(self, account: Counter) -> Amount:
        return self.of.get(account, NOTHING)

    def shift(self, spec: JobSpec, allocation: Allocation, sign: int) -> None:
        """An attempt of a job with this spec took (1) or gave back (-1) an allocation."""
        amount = amount_of(allocation)
        for account in accounts_of(spec):
            left = self.get(account).plus(amount, sign)
            if left == NOTHING:
                self.of.pop(account, None)
            else:
                self.of[account] = left


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
    return accounts


def amount_of(allocation: Allocation) -> Amount:
    return Amount(
        allocation.cpu_milli,
        allocation.memory_mib,
        allocation.disk_mib,
        device_milli_of(allocation),
    )
