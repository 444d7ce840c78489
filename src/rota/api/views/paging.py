"""Lists a page at a time: one shape for all that fit into memory.

A cursor names the last item of the page before by its key, so that what comes and goes meanwhile
neither repeats nor hides an item. Without a limit a list comes whole.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

T = TypeVar("T")


class Listed(msgspec.Struct, kw_only=True):
    """Base of the lists that come in pages."""

    cursor: str | None = None


class ListPart(NamedTuple):
    """Which part of a list is wanted: a number of items (None: all), behind a cursor."""

    limit: int | None
    cursor: str

    def of(self, found: Sequence[T], key: Callable[[T], Any]) -> tuple[list[T], str | None]:
        """The items, and the cursor of the next page. ``found`` is in the order of its keys."""
        first = 0
        if self.cursor:
            try:
                first = bisect_right(found, _read(self.cursor), key=key)
            except (ValueError, TypeError):
                raise no_cursor(self.cursor) from None
        last = len(found) if self.limit is None else first + self.limit
        items = list(found[first:last])
        return items, _written(key(items[-1])) if items and last < len(found) else None

    def of_numbered(self, found: Iterable[T]) -> tuple[list[T], str | None]:
        """Of what is told apart by its place only."""
        items, cursor = self.of(list(enumerate(found)), lambda pair: pair[0])
        return [item for _, item in items], cursor


def no_cursor(text: str) -> Rejected:
    return Rejected.because(
        "cursor", text, f"{text!r} is not a cursor; use cursor from the previous page"
    )


def _written(key: object) -> str:
    return urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def _read(text: str) -> Any:  # noqa: ANN401 - compared with the keys of the list
    """A key: text, a number, or several of these."""
    padded = text.encode("ascii") + b"=" * (-len(text) % 4)
    key: Any = msgspec.json.decode(urlsafe_b64decode(padded))
    return tuple(key) if isinstance(key, list) else key
