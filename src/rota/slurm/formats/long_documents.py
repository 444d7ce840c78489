"""Documents about very many jobs, written in pieces so that the controller goes on meanwhile."""

from __future__ import annotations

from typing import Any

from rota.slurm.call.view import BREATH, each
from rota.slurm.formats.documents import item_text, text_of


async def long_text(document: dict[str, Any]) -> str:
    """The text of a document whose last value may be a very long list."""
    name, items = list(document.items())[-1]
    if not isinstance(items, list) or len(items) < BREATH:
        return text_of(document)
    rest = text_of({key: value for key, value in document.items() if key != name})
    head = rest.removesuffix("\n}\n")
    body = ",\n".join(await each(items, item_text))
    return f'{head},\n  "{name}": [\n{body}\n  ]\n}}\n'
