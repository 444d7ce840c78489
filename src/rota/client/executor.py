"""Jobs behind the standard library's interface for calls that run elsewhere."""

from __future__ import annotations

import time
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rota.client.cluster import ClusterContext
    from rota.client.handle import JobHandle


class JobExecutor(Executor):
    """Every call is a job of its own: queued, placed, logged and retried like any other."""

    def __init__(self, cluster: ClusterContext, options: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._options = dict(options)
        self._handles: list[JobHandle] = []
        self._open = True

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> JobHandle:
        self._check_open()
        handle = self._cluster.submit(fn, *args, kwargs=kwargs, **self._options)
        self._keep([handle])
        return handle

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[Any]:
        """Results in the order of the items. One job takes ``chunksize`` of them."""
        self._check_open()
        if chunksize < 1:
            raise ValueError(f"chunksize: {chunksize} is not valid; 1 or more")
        end_s = None if timeout is None else time.monotonic() + timeout
        items = list(zip(*iterables, strict=False))
        chunks = [(fn, items[at : at + chunksize]) for at in range(0, len(items), chunksize)]
        handles = self._cluster.map(run_chunk, chunks, **{"name": _name(fn), **self._options})
        self._keep(handles)
        return _in_order(handles, end_s)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; with ``wait`` until those taken have ended."""
        self._open = False
        pending = [handle for handle in self._handles if not handle.done()]
        if cancel_futures:
            for handle in pending:
                handle.cancel()
        if wait:
            for handle in pending:
                handle.exception()

    def _keep(self, handles: list[JobHandle]) -> None:
        self._handles = [handle for handle in self._handles if not handle.done()] + handles

    def _check_open(self) -> None:
        if not self._open:
            raise RuntimeError("cannot schedule new futures after shutdown")


def _name(function: object) -> str:
    return getattr(function, "__name__", "call").strip("<>")


def run_chunk(work: tuple[Callable[..., Any], list[tuple[Any, ...]]]) -> list[Any]:
    """In the job: the calls of one chunk."""
    function, chunk = work
    return [function(*args) for args in chunk]


def _in_order(handles: list[JobHandle], end_s: float | None) -> Iterator[Any]:
    """A generator of its own, so that the jobs are submitted before the first value is asked."""
    for handle in handles:
        left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
        yield from handle.result(left_s)
