"""What a caller may say about how its tasks are asked whether they are well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from rota.api.bodies.request_fields import Short, says
from rota.core.facts.errors import Rejected
from rota.core.facts.health import Health

if TYPE_CHECKING:
    from collections.abc import Collection


class HealthRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Each task must answer at its port of this name, or it is told to end as `unhealthy`."""

    port: Annotated[Short, says("One of `ports`")]
    path: Annotated[
        Short, says("Answers an HTTP GET with 2xx or 3xx; empty: a connection is enough")
    ] = ""
    every_s: Annotated[float, Meta(ge=0.1, le=86_400), says("How often it is asked")] = 10
    failures: Annotated[
        int, Meta(ge=1, le=1000), says("How many bad answers in a row are too many")
    ] = 3
    delay_s: Annotated[
        float,
        Meta(ge=0, le=86_400),
        says("Before its first good answer, silence does not count for this time after its start"),
    ] = 60


def health_of(asked: HealthRequest | None, ports: Collection[str]) -> Health | None:
    """As the job keeps it."""
    if asked is None:
        return None
    if asked.port not in ports:
        known = ", ".join(ports) or "it has none yet"
        raise Rejected.bad("health.port", asked.port, f"one of the job's ports: {known}")
    plain = asked.path.isascii() and asked.path.isprintable() and " " not in asked.path
    if asked.path and not (plain and asked.path.startswith("/")):
        raise Rejected.bad("health.path", asked.path, "a path such as /healthz")
    return Health(asked.port, asked.path, asked.every_s, asked.failures, asked.delay_s)


def health_request(health: Health | None) -> HealthRequest | None:
    """As it was asked for."""
    return None if health is None else HealthRequest(**msgspec.structs.asdict(health))
