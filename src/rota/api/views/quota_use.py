"""What accounts hold and have spent, against their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from rota.core.facts.resources import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.cluster import Cluster
    from rota.core.facts.resources import Amount
    from rota.core.facts.tenant import Limits


AccountKind = Literal["project", "user"]


class QuotaUse(NamedTuple):
    """One limit of one project or user; both in CPUs, GiB, GPUs or jobs."""

    kind: AccountKind
    name: str
    resource: str
    used: float
    limit: float

    @property
    def part(self) -> float:
        """1 is all of it; of a limit of nothing, anything is too much."""
        if self.limit:
            return self.used / self.limit
        return 1.0 if self.used else 0.0


def quota_uses(cluster: Cluster) -> Iterator[QuotaUse]:
    """Every hard limit on what may be held at once."""
    accounts, active = cluster.accounts, cluster.census.active_in
    for name, project in accounts.projects.items():
        held, jobs = NOTHING, 0
        for below in accounts.below(name):
            held = held.plus(accounts.holdings.get(("project", below)))
            jobs += len(active.get(("project", below), ()))
        yield from _uses("project", name, project.quota.hard, held, jobs)
    for name, user in accounts.users.items():
        if name:
            held, jobs = accounts.holdings.get(("user", name)), len(active.get(("user", name), ()))
            yield from _uses("user", name, user.quota.hard, held, jobs)


def _uses(
    kind: AccountKind, name: str, hard: Limits, held: Amount, jobs: int
) -> Iterator[QuotaUse]:
    limits = (
        ("cpu", held.cpu_milli / 1000, hard.cpu_milli, 1000),
        ("memory", held.memory_mib / 1024, hard.memory_mib, 1024),
        ("gpu", held.device_milli / 1000, hard.device_milli, 1000),
        ("jobs", jobs, hard.jobs, 1),
    )
    for resource, used, limit, size in limits:
        if limit is not None:
            yield QuotaUse(kind, name, resource, used, limit / size)
