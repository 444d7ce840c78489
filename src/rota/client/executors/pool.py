"""A pool of workers for many short calls: the start of an interpreter is paid once per worker.

Each worker is an ordinary job with its own resources. It dials back to this program and gets one
call after the other; calls are not jobs, so they are neither recorded nor retried one by one.
When the program ends, however it does, the lines end and with them the workers.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import queue
import socket
import threading
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from functools import partial
from multiprocessing import AuthenticationError
from typing import TYPE_CHECKING, Any

import cloudpickle

from rota.client import outcomes
from rota.client.executors.chunks import Chunk, chunks_of, end_after, run_chunk, values_in_order
from rota.client.executors.pool_worker import open_line, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from multiprocessing.connection import Connection

    from rota.client.cluster import ClusterContext
    from rota.client.executors.pool_worker import Address

#: Values of these types are the same to every pickler.
PLAIN = frozenset({bool, bytes, float, int, str, type(None)})
#: Longer lists are not searched for them.
PLAIN_MAX = 64


class WorkerLost(BrokenExecutor):
    """The worker that ran a call, or the last one that could have, is gone."""


class PooledCall:
    """A call that waits for a worker."""

    __slots__ = ("arguments", "function", "future", "number")

    def __init__(self, number: int, function: bytes, arguments: bytes) -> None:
        self.number = number
        self.function = function
        self.arguments = arguments
        self.future: Future[Any] = Future()


class WorkerPool(Executor):
    """A ``concurrent.futures.Executor`` over jobs that stay; ``cluster.pool()`` makes one."""

    def __init__(self, cluster: ClusterContext, workers: int, options: Mapping[str, Any]) -> None:
        if workers < 1:
            raise ValueError(f"workers: {workers} is not valid; 1 or more")
        self._key = os.urandom(32)
        self._sock, address = cluster.open_listener()
        self._calls: queue.SimpleQueue[PooledCall | None] = queue.SimpleQueue()
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._outstanding: set[Future[Any]] = set()
        self._open = True
        self._left = workers
        threading.Thread(target=self._accept, name="rota-pool", daemon=True).start()
        call, given = partial(serve, address, self._key), {"name": "pool", **options}
        self.workers = cluster.map_calls(call, [()] * workers, {}, given)
        for handle in self.workers:
            handle.add_done_callback(self._worker_ended)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run ``fn(*args, **kwargs)`` in the next worker that is free."""
        return self._put(next(self._numbers), cloudpickle.dumps(fn), args, kwargs)

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[Any]:
        """Results in the order of the items; a worker takes ``chunksize`` of them at once."""
        end_s = end_after(timeout)
        chunks = chunks_of(iterables, chunksize)
        number, body = next(self._numbers), cloudpickle.dumps(partial(_run_items, fn))
        futures = [self._put(number, body, (chunk,), {}) for chunk in chunks]
        return values_in_order(futures, end_s)

    def _put(
        self, number: int, function: bytes, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Future[Any]:
        call = PooledCall(number, function, _dumps((args, kwargs)))
        with self._lock:
            if not self._open:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if not self._left:
                raise WorkerLost("no worker is left; see the states of pool.workers")
            self._outstanding.add(call.future)
        call.future.add_done_callback(self._settled)
        self._calls.put(call)
        return call.future

    def _settled(self, future: Future[Any]) -> None:
        with self._lock:
            self._outstanding.discard(future)

    def _accept(self) -> None:
        """Each worker that dials in gets a thread: it sleeps while the worker works."""
        while True:
            try:
                sock, _ = self._sock.accept()
            except OSError:
                return
            threading.Thread(target=self._greet, args=(sock,), daemon=True).start()

    def _greet(self, sock: socket.socket) -> None:
        try:
            line = open_line(sock, self._key, first=True)
        except (AuthenticationError, EOFError, OSError):
            return  # A stranger, or a worker that is gone already.
        with line:
            self._feed(line)

    def _feed(self, line: Connection) -> None:
        """One call after the other, until the pool is shut down or the worker is gone."""
        known = -1
        while (call := self._calls.get()) is not None:
            if not call.future.set_running_or_notify_cancel():
                continue
            try:
                function = None if call.number == known else call.function
                line.send_bytes(pickle.dumps((call.number, function, call.arguments)))
                known = call.number
                outcome = outcomes.read(line.recv_bytes())
            except (EOFError, OSError):
                call.future.set_exception(WorkerLost("the worker ended while it ran this call"))
                return
            if outcome.error is not None:
                call.future.set_exception(outcome.error)
            else:
                call.future.set_result(outcome.value)
        self._calls.put(None)
        # Said in words: a forked child of this program may hold the line open after we close it.
        with contextlib.suppress(OSError):
            line.send_bytes(b"")

    def _worker_ended(self, handle: Future[Any]) -> None:
        """Nobody is left to run what waits: say so instead of letting people wait for ever."""
        with self._lock:
            self._left -= 1
            if self._left:
                return
        error = handle.exception()
        words = f"no worker is left: {error}" if error else "no worker is left"
        for call in self._waiting():
            if call.future.set_running_or_notify_cancel():
                call.future.set_exception(WorkerLost(words))

    def _waiting(self) -> Iterator[PooledCall]:
        with contextlib.suppress(queue.Empty):
            while True:
                call = self._calls.get_nowait()
                if call is not None:
                    yield call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, let those taken end, then let the workers go."""
        with self._lock:
            if not self._open:
                return
            self._open = False
        if cancel_futures:
            for call in self._waiting():
                call.future.cancel()
        if wait:
            self._finish()
        else:
            threading.Thread(target=self._finish, daemon=True).start()

    def _finish(self) -> None:
        with self._lock:
            outstanding = set(self._outstanding)
        wait(outstanding)
        self._calls.put(None)
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        for handle in self.workers:
            # One that never came to run would wait for room that nobody needs any more.
            if not handle.done() and handle.status().state in ("queued", "held", "preempted"):
                handle.cancel()
        for handle in self.workers:
            handle.exception()


def _dumps(value: object) -> bytes:
    """As ``cloudpickle`` would, which takes seven times as long for a few numbers."""
    if _is_plain(value):
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    body: bytes = cloudpickle.dumps(value)
    return body


def _is_plain(value: object) -> bool:
    """Whether nothing in it could be of a class or function that the worker cannot import."""
    if type(value) in PLAIN:
        return True
    if type(value) is dict:
        return not value
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        return len(value) <= PLAIN_MAX and all(map(_is_plain, value))
    return False


def _run_items(function: Callable[..., Any], chunk: Chunk) -> list[Any]:
    return run_chunk((function, chunk))


def listener(path: str, host: str) -> tuple[socket.socket, Address]:
    """A socket for workers to dial, and its address: a path on this machine, or a port."""
    if not host:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(path)
        sock.listen()
        return sock, path
    sock = socket.create_server((host, 0))
    return sock, (host, sock.getsockname()[1])
