"""Licences: what the site owns a number of and no node does. Jobs hold them with their room."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.errors import Rejected
from rota.core.words.licenses import Licenses, read_licenses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.cluster import Cluster
    from rota.core.facts.job import JobSpec


class Lacking(NamedTuple):
    """A licence of which a job wants more than is left."""

    name: str
    used: int
    wanted: int
    limit: int


@lru_cache(maxsize=8)
def limits_of(rules: tuple[str, ...]) -> dict[str, int]:
    """How many there are of each, as the policy says."""
    return dict(read_licenses(",".join(rules))) if rules else {}


def held_of(cluster: Cluster, name: str) -> int:
    """How many jobs hold of one."""
    holders = cluster.census.active_in.get(("license", name), ())
    return sum(dict(cluster.jobs[number].spec.licenses)[name] for number in holders)


class LicenseCounts:
    """What is held of each during a pass, what it gave included."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._limits = limits_of(cluster.policy.licenses)
        self._used: dict[str, int] = {}

    def lacking(self, wanted: Licenses) -> Iterator[Lacking]:
        for name, count in wanted:
            limit = self._limits.get(name, 0)
            if self._of(name) + count > limit:
                yield Lacking(name, self._of(name), count, limit)

    def take(self, wanted: Licenses) -> None:
        for name, count in wanted:
            self._used[name] = self._of(name) + count

    def _of(self, name: str) -> int:
        used = self._used.get(name)
        if used is None:
            used = self._used[name] = held_of(self._cluster, name)
        return used


def refuse_licenses(cluster: Cluster, spec: JobSpec) -> None:
    """Refuse licences that the site does not have, or has fewer of."""
    limits = limits_of(cluster.policy.licenses)
    for name, count in spec.licenses:
        if name not in limits:
            known = ", ".join(sorted(limits)) or "none; an admin sets them: policy licenses"
            why = f"there is no licence {name} here; known: {known}"
            raise Rejected.because("licenses", name, why)
        if count > limits[name]:
            why = f"{count} of {name} wanted, and this site has {limits[name]}"
            raise Rejected.because("licenses", f"{name}:{count}", why)
