"""Documents about very many jobs, written in pieces so that the controller goes on meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rota.slurm.call.view import BREATH, each
from rota.slurm.formats.documents import (
    as_yaml,
    item_text,
    text_of,
    yaml_item,
    yaml_lines,
    yaml_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class LongList(NamedTuple):
    """Many records, each shown when its turn comes: documents of all of them would fill memory."""

    records: Sequence[Any]
    show: Callable[[Any], dict[str, Any]]


async def long_text(document: dict[str, Any], *, yaml: bool = False) -> str:
    """The text of a document whose last value may be a very long list."""
    name, items = list(document.items())[-1]
    if not isinstance(items, LongList):
        return as_yaml(document) if yaml else text_of(document)
    show = items.show
    if len(items.records) < BREATH:
        whole = document | {name: [show(record) for record in items.records]}
        return as_yaml(whole) if yaml else text_of(whole)
    rest = {key: value for key, value in document.items() if key != name}
    if yaml:
        parts = await each(items.records, lambda record: yaml_item(show(record)))
        return yaml_text([*yaml_lines(rest), f"!!str {name}: !!seq", *parts])
    head = text_of(rest).removesuffix("\n}\n")
    body = ",\n".join(await each(items.records, lambda record: item_text(show(record))))
    return f'{head},\n  "{name}": [\n{body}\n  ]\n}}\n'
