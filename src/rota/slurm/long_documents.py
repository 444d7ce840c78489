"""Documents about very many jobs, written in pieces so that the controller goes on meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from rota.slurm.documents import item_text, text_of
from rota.slurm.view import BREATH, each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
R = TypeVar("R")


async def made(items: Iterable[T], work: Callable[[T], R]) -> list[R]:
    """Do something with many items, and let others go on in between."""
    found: list[R] = []
    for number, item in enumerate(items, 1):
        found.append(work(item))
        if number % BREATH == 0:
            await asyncio.sleep(0)
    return found


async def long_text(document: dict[str, Any]) -> str:
    """The text of a document whose last value may be a very long list."""
    name, items = list(document.items())[-1]
    if not isinstance(items, list) or len(items) < BREATH:
        return text_of(document)
    rest = text_of({key: value for key, value in document.items() if key != name})
    head = rest.removesuffix("\n}\n")
    body = ",\n".join(await each(items, item_text))
    return f'{head},\n  "{name}": [\n{body}\n  ]\n}}\n'
