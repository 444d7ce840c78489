"""What a caller may say about the members of a job."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from rota.api.bodies.request_fields import Resources, Short, says


class RoleRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A kind of member: how many tasks of which shape. Ranks count through the roles in order."""

    name: Annotated[Short, says("What its tasks find in `ROTA_ROLE`")]
    count: Annotated[int, Meta(ge=1, le=100_000), says("How many of them")] = 1
    min_count: Annotated[
        int,
        Meta(ge=0, le=100_000),
        says("Elastic: start with as few as this, grow up to `count`; 0: all of them"),
    ] = 0
    resources: Annotated[Resources, says("What each of them asks for")] = Resources()
