"""Clusters: which machines belong together, and what a virtual data centre makes of several.

A node's label ``cluster`` names its cluster; nodes without one are the cluster ``local``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.placing import cluster_of
from rota.core.facts.tenant import UNLIMITED, Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The taint of a node whose engine's process waits for an engine that does not answer.
AWAY_KEY, AWAY_VALUE = "engine", "away"


class Choice(StrEnum):
    """By what a virtual data centre chooses among its clusters."""

    LOAD = "load"  # the least loaded: 0.3 CPUs, 0.3 memory, 0.4 devices
    FIT = "fit"  # where the request leaves the least over
    WEIGHT = "weight"  # priority times weight
    AFFINITY = "affinity"  # the preferred ones, in their order
    COST = "cost"  # the cheapest


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cluster in a virtual data centre."""

    name: str
    priority: int = 50
    weight: float = 1.0


class Vdc(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A virtual data centre: some clusters, how to choose among them, and what may be held."""

    name: str
    clusters: tuple[Member, ...]
    strategy: Choice = Choice.LOAD
    #: For ``affinity``: the clusters that are taken first, the best of them first.
    preferred: tuple[str, ...] = ()
    #: Labels that a node must have.
    labels: tuple[tuple[str, str], ...] = ()
    #: What all its jobs may hold at once: amounts count times ``overcommit``, jobs as they are.
    limits: Limits = UNLIMITED
    overcommit: float = 1.0
    max_per_user: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.clusters)

    def problem(self, labels: Mapping[str, str]) -> str:
        """Why a node with these labels is not part of it; empty: it is."""
        cluster = cluster_of(labels)
        if cluster not in self.names:
            return f"is in cluster {cluster}, which is not part of {self.name}"
        for key, value in self.labels:
            if labels.get(key) != value:
                return f"has no label {key}={value}, which {self.name} asks for"
        return ""

    @property
    def offered(self) -> Limits:
        """The ceilings as they bind."""
        amounts = {
            name: int(value * self.overcommit)
            for name in ("cpu_milli", "memory_mib", "device_milli")
            if (value := getattr(self.limits, name)) is not None
        }
        return msgspec.structs.replace(self.limits, **amounts)
