"""The bodies of requests about virtual data centres."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from rota.api.bodies.request_fields import Short, Whole, Words, says
from rota.api.bodies.site_requests import LimitsRequest
from rota.core.facts.site.clusters import Choice

Overcommit = Annotated[float, Meta(ge=0.1, le=100)]


class VdcStrict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Base of all bodies: a field that does not exist is refused, never ignored."""


class MemberRequest(VdcStrict):
    """A cluster of it."""

    name: Annotated[Short, Meta(min_length=1)]
    priority: Annotated[int, Meta(ge=0, le=100), says("For the strategy `weight`")] = 50
    weight: Annotated[float, Meta(ge=0, le=1000), says("Times the priority")] = 1.0


class VdcRequest(VdcStrict):
    """A virtual data centre as it shall be."""

    clusters: Annotated[list[MemberRequest], Meta(min_length=1, max_length=1000)]
    strategy: Annotated[
        Choice,
        says(
            "`load`: the least loaded cluster (0.3 CPUs, 0.3 memory, 0.4 GPUs); `fit`: the "
            "tightest fit; `weight`: priority times weight; `affinity`: the preferred ones; "
            "`cost`: the cheapest"
        ),
    ] = Choice.LOAD
    preferred: Annotated[Words, says("For `affinity`: its clusters in order, the best first")] = []
    labels: Annotated[dict[str, str], says("Labels that a node must have")] = {}
    limits: Annotated[LimitsRequest, says("What all its jobs may hold at once")] = LimitsRequest()
    overcommit: Annotated[Overcommit, says("A factor on the amounts in `limits`")] = 1.0
    max_per_user: Annotated[Whole, says("Jobs of one user at once; 0: any number")] = 0


class VdcPatch(VdcStrict):
    """What shall change of it. Absent fields stay as they are."""

    clusters: Annotated[list[MemberRequest], Meta(min_length=1, max_length=1000)] | None = None
    strategy: Choice | None = None
    preferred: Words | None = None
    labels: dict[str, str] | None = None
    limits: LimitsRequest | None = None
    overcommit: Overcommit | None = None
    max_per_user: Whole | None = None
