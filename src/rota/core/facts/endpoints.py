"""Endpoints: where a task of a running job can be reached, by a name that others look up.

An endpoint belongs to one attempt. When that has ended nothing can be reached there any more, so
whether an endpoint lives is derived from the attempt and nothing has to take it back.
"""

from __future__ import annotations

import msgspec

from rota.core.facts.event import Event


class Endpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A name and an address, served by the attempt ``uid``; without an address: taken back."""

    name: str
    task: int
    uid: str
    address: str = ""
    metadata: dict[str, str] = {}
    since_s: float = 0.0


def port_variable(name: str) -> str:
    """The variable in which a task finds a port that it has by name: ``ROTA_PORT_WEB``."""
    return "ROTA_PORT_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in name).upper()


class EndpointSet(Event, frozen=True, tag="endpoint-set"):
    """A job told where one of its tasks can be reached, or that it no longer can."""

    job: int
    endpoint: Endpoint


def changed(
    known: tuple[Endpoint, ...], told: Endpoint, alive: frozenset[str]
) -> tuple[Endpoint, ...]:
    """The endpoints of a job after it told of one; those of ended attempts are dropped."""
    kept = [
        one for one in known if one.uid in alive and (one.task, one.name) != (told.task, told.name)
    ]
    return (*kept, told) if told.address else tuple(kept)
