"""Jobs behind the standard library's interface for calls that run elsewhere."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from rota.client.calls import name_of
from rota.client.executors.chunks import chunks_of, end_after, run_chunk, values_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rota.client.cluster import ClusterContext
    from rota.client.handle import JobHandle


class JobExecutor(Executor):
    """Every call is a job of its own: queued, placed, logged and retried like any other."""

    def __init__(self, cluster: ClusterContext, options: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._options = dict(options)
        self._handles: list[JobHandle[Any]] = []
        self._open = True

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> JobHandle[Any]:
        """Run ``fn(*args, **kwargs)`` as a job with the options of this executor."""
        self._check_open()
        handle = self._cluster.submit_call(fn, args, kwargs, self._options)
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
        end_s = end_after(timeout)
        work = [((fn, chunk),) for chunk in chunks_of(iterables, chunksize)]
        options = {"name": name_of(fn), **self._options}
        handles = self._cluster.map_calls(run_chunk, work, {}, options)
        self._keep(handles)
        return values_in_order(handles, end_s)

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

    def _keep(self, handles: list[JobHandle[Any]]) -> None:
        self._handles = [handle for handle in self._handles if not handle.done()] + handles

    def _check_open(self) -> None:
        if not self._open:
            raise RuntimeError("cannot schedule new futures after shutdown")
