"""Environments, scripts and input of jobs, kept at hand for launches."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.store.unused import REUSE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rota.store.api import Batch, Store

#: More are forgotten, the oldest first; they are read again when a launch needs them.
KEPT = 256
#: The most blobs that are known to be on disk: digests are short.
KNOWN = 100_000


class Blobs:
    """The latest ones, and for the length of a tick all that its launches need."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._kept: dict[str, bytes] = {}
        self._needed: dict[str, bytes] = {}
        #: When these were stored, the latest last.
        self._stored: dict[str, float] = {}

    def __contains__(self, digest: str) -> bool:
        """Whether it is on disk for certain, so that a submit need not store it again.

        After a while it has to, which says that it is still in use.
        """
        stored_s = self._stored.get(digest)
        return stored_s is not None and self._now_s() < stored_s + REUSE_S

    def get(self, digest: str) -> bytes | None:
        body = self._kept.get(digest)
        return self._needed.get(digest) if body is None else body

    def stored(self, batch: Batch) -> None:
        """After the commit that stored what is in it."""
        for digest in batch.blobs:
            self._stored.pop(digest, None)
            self._stored[digest] = batch.events[-1].at_s
        _shorten(self._stored, KNOWN)
        self._keep(batch.blobs)

    def forget(self) -> None:
        """What is on disk is not known any more."""
        self._stored.clear()

    def _keep(self, blobs: dict[str, bytes]) -> None:
        self._kept |= blobs
        _shorten(self._kept, KEPT)

    def need(self, found: dict[str, bytes | None]) -> None:
        """What was read for the launches of this tick; one that is nowhere is empty."""
        self._needed |= {digest: body or b"" for digest, body in found.items()}
        self._keep({digest: body for digest, body in found.items() if body is not None})

    @contextmanager
    def at_hand(self) -> Iterator[None]:
        """While the launches of a tick are made, what they need stays."""
        try:
            yield
        finally:
            self._needed.clear()


def _shorten(kept: dict[str, bytes] | dict[str, float], most: int) -> None:
    while len(kept) > most:
        del kept[next(iter(kept))]


def read_blobs(digests: Iterable[str], store: Store) -> dict[str, bytes | None]:
    return {digest: store.blob(digest) for digest in sorted(digests)}
