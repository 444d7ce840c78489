"""Quotas that another program enforces: what it said when it was last asked."""

from __future__ import annotations

import msgspec

from rota.core.facts.resources import NOTHING, Amount
from rota.core.facts.tenant import UNLIMITED, Limits


class Outer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits and use of one project, as its provider has them.

    The record with the empty name says which provider is in force. Of a project without a record,
    or with one that was never seen, nothing may start.
    """

    project: str
    #: ``k8s`` or ``slurm``.
    provider: str
    #: CPUs, memory and devices; the provider has no others that Rota knows.
    limits: Limits = UNLIMITED
    #: All that the provider counts, and of it what no job of Rota holds.
    used: Amount = NOTHING
    foreign: Amount = NOTHING
    #: The users that the provider lets use it; None: all.
    users: tuple[str, ...] | None = None
    #: Which part of all use it has had by the provider's own accounting; None: that says nothing.
    load: float | None = None
    #: When this was first so; 0: the provider was never heard of it.
    seen_s: float = 0.0
    #: What Rota was told to set there, and what it has set there last; None: nothing, so that all
    #: limits are the site's own.
    asked: Limits | None = None
    written: Limits | None = None


def limits_there(limits: Limits) -> Limits:
    """Of limits, those that a provider has, too."""
    return Limits(
        cpu_milli=limits.cpu_milli, memory_mib=limits.memory_mib, device_milli=limits.device_milli
    )
