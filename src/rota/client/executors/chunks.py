"""Items of a ``map`` in chunks: one job, or one call of a worker, takes several of them at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

#: The arguments of some calls of one function.
Chunk = list[tuple[Any, ...]]


def chunks_of(iterables: Sequence[Iterable[Any]], size: int) -> list[Chunk]:
    """The items side by side, ``size`` of them in each chunk but the last."""
    if size < 1:
        raise ValueError(f"chunksize: {size} is not valid; 1 or more")
    items = list(zip(*iterables, strict=False))
    return [items[at : at + size] for at in range(0, len(items), size)]


def run_chunk(work: tuple[Callable[..., Any], Chunk]) -> list[Any]:
    """Where the work is done: the calls of one chunk."""
    function, chunk = work
    return [function(*args) for args in chunk]


def end_after(timeout_s: float | None) -> float | None:
    """When waiting ends that begins now. The time to submit counts, as in the standard library."""
    return None if timeout_s is None else time.monotonic() + timeout_s


def values_in_order(futures: Sequence[Future[Any]], end_s: float | None) -> Iterator[Any]:
    """What the chunks gave, item by item."""
    for future in futures:
        yield from future.result(None if end_s is None else max(0.0, end_s - time.monotonic()))
