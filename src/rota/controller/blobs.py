"""Environments, scripts and input of jobs, kept at hand for launches."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.store.api import Store

#: More are forgotten, the oldest first; they are read again when a launch needs them.
KEPT = 256


class Blobs:
    """The latest ones, and for the length of a tick all that its launches need."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self._needed: dict[str, bytes] = {}

    def __contains__(self, digest: str) -> bool:
        """Whether it is on disk for certain, so that a submit need not store it again."""
        return digest in self._kept

    def get(self, digest: str) -> bytes | None:
        body = self._kept.get(digest)
        return self._needed.get(digest) if body is None else body

    def keep(self, blobs: dict[str, bytes]) -> None:
        self._kept |= blobs
        while len(self._kept) > KEPT:
            self._kept.pop(next(iter(self._kept)))

    def need(self, found: dict[str, bytes | None]) -> None:
        """What was read for the launches of this tick; one that is nowhere is empty."""
        self._needed |= {digest: body or b"" for digest, body in found.items()}
        self.keep({digest: body for digest, body in found.items() if body is not None})

    @contextmanager
    def at_hand(self) -> Iterator[None]:
        """While the launches of a tick are made, what they need stays."""
        try:
            yield
        finally:
            self._needed.clear()


def read_blobs(digests: Iterable[str], store: Store) -> dict[str, bytes | None]:
    return {digest: store.blob(digest) for digest in sorted(digests)}
