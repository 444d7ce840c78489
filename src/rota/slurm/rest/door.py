"""The door to slurmrestd's paths; what is behind it is loaded when somebody first comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.api.asgi import Receive, Scope, Send
    from rota.api.context import Context
    from rota.api.door.front import Identify

PREFIXES = ("/slurm/", "/slurmdb/")


async def serve(
    context: Context, identify: Identify, scope: Scope, receive: Receive, send: Send
) -> None:
    """Hand a request on to the part that answers it."""
    from rota.slurm.rest import rest

    await rest.serve(context, identify, scope, receive, send)
