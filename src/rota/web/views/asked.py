"""A request for a page or a feed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.errors import Rejected
from rota.digits import is_digits

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.controller.loop import Host
    from rota.core.cluster import Cluster
    from rota.core.facts.tenant import Actor


class MovedPage(Exception):
    """What was asked for has its page at another address."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place


class PageRequest(NamedTuple):
    """Who asks, for what: the words of the path, and the parameters behind it."""

    context: Context
    actor: Actor
    path: list[str]
    query: dict[str, str]

    @property
    def host(self) -> Host:
        return self.context.host

    @property
    def cluster(self) -> Cluster:
        return self.context.host.cluster

    @property
    def ref(self) -> str:
        """The job that the path names."""
        return self.path[0] if self.path else ""

    def number(self, name: str, default: int, most: int) -> int:
        """A parameter from 0 to ``most``."""
        text = self.query.get(name, str(default))
        if not (is_digits(text) and len(text) < 10 and int(text) <= most):
            raise Rejected.bad(name, text[:40], f"a number from 0 to {most}")
        return int(text)
