"""CPUs on loan: what a stopped attempt lends to another one until that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.facts.node import Allocation


class Loan(msgspec.Struct, frozen=True, omit_defaults=True):
    """An amount of CPU, and these single CPUs, of the attempt with this uid."""

    lender: str
    cpu_milli: int
    cpus: tuple[int, ...] = ()


def without(held: Allocation, loans: Iterable[Loan]) -> Allocation:
    """What is left of an allocation when these loans are taken off."""
    cpu_milli, lent = held.cpu_milli, set[int]()
    for loan in loans:
        cpu_milli -= loan.cpu_milli
        lent.update(loan.cpus)
    cpus = tuple(cpu for cpu in held.cpus if cpu not in lent)
    return msgspec.structs.replace(held, cpu_milli=cpu_milli, cpus=cpus)
