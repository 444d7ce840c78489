"""Whether the database answers: asked now, not remembered from the last commit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

import msgspec
from litestar import get

from rota.api.context import Asking, context_of
from rota.core.facts.errors import RotaError

if TYPE_CHECKING:
    from rota.store.api import Store

#: A database that takes longer to answer is away.
PATIENCE_S = 6.0


class DatabaseView(msgspec.Struct):
    name: str
    state: Literal["ok", "away"]
    #: Why it cannot be used; empty: it can.
    problem: str


@get("/status/database", summary="Does the database answer", opt={"right": "read"})
async def database(request: Asking) -> DatabaseView:
    """Asked over the connection that commits use, and read from."""
    context = context_of(request)
    problem = context.host.trouble
    if not problem:
        try:
            await asyncio.wait_for(context.host.write(_look), PATIENCE_S)
        except TimeoutError:
            problem = f"it has not answered within {PATIENCE_S:g} s"
        except RotaError as error:
            problem = str(error)
    return DatabaseView(context.settings.database, "away" if problem else "ok", problem)


def _look(store: Store) -> None:
    store.prove()
    store.bookmark("doctor")


ROUTES = [database]
