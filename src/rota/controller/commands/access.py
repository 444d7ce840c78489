"""Whether somebody's role allows a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.errors import Forbidden

if TYPE_CHECKING:
    from rota.core.facts.tenant import Access, Actor


def require(actor: Actor, *accesses: Access) -> None:
    """Raise ``Forbidden`` unless the actor has one of these roles."""
    if actor.access not in accesses:
        raise Forbidden(
            f"{actor.user} has the role {actor.access}; this needs {' or '.join(accesses)}"
        )
