"""What a job holds when it starts: an elastic one with its fewest tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.resources import NOTHING, Amount

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.facts.job import Role


def least_amount(roles: Iterable[Role]) -> Amount:
    found = NOTHING
    for role in roles:
        request = role.request
        each = Amount(
            request.cpu_milli, request.memory_mib, request.disk_mib, request.device_use_milli
        )
        found = found.plus(each, role.min_count or role.count)
    return found
