"""Which paths are the web page's; what is behind them is loaded when somebody first comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.api.asgi import Receive, Scope, Send
    from rota.api.context import Context
    from rota.api.door.front import Identify

PREFIX = "/web/"


def is_page(path: str) -> bool:
    return path == "/" or path.startswith(PREFIX)


async def serve(
    context: Context, identify: Identify, scope: Scope, receive: Receive, send: Send
) -> None:
    """Hand a request on to what answers it."""
    from rota.web import serving

    await serving.serve(context, identify, scope, receive, send)
