"""Whether somebody's role allows a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.errors import Forbidden
from rota.core.facts.tenant import Access

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.facts.tenant import Actor


def require(actor: Actor, *accesses: Access) -> None:
    """Raise ``Forbidden`` unless the actor has one of these roles."""
    if actor.access not in accesses:
        raise Forbidden(missing_role(actor, accesses))


def missing_role(actor: Actor, accesses: Sequence[Access]) -> str:
    """What the actor is, and who may."""
    roles = " or ".join(accesses) or "nobody"
    # A role above that of most people is one to ask, not one to get.
    ask = "; ask one of them" if Access.USER not in accesses and actor.access is Access.USER else ""
    return f"{actor.user} has the role {actor.access}; this needs {roles}{ask}"
