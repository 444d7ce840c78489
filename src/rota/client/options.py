"""Calls with options: ``cluster.options(gpus=1)`` and functions under ``@rota.job(gpus=1)``."""

from __future__ import annotations

import functools
import itertools
import sys
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from rota.client.asking import merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Unpack

    from rota.client.asking import JobOptions
    from rota.client.cluster import ClusterContext
    from rota.client.executors.executor import JobExecutor
    from rota.client.executors.pool import WorkerPool
    from rota.client.handle import JobHandle
    from rota.client.status import Plan

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")

#: The connections that are open, numbered in the order in which they were opened.
OPEN: weakref.WeakValueDictionary[int, ClusterContext] = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()


def opening(cluster: ClusterContext) -> int:
    """Remember a connection as open; its number in ``OPEN``."""
    number = next(_NUMBERS)
    OPEN[number] = cluster
    return number


class Calling(ABC):
    """Takes functions with their arguments, and makes jobs of them."""

    @overload
    def submit(
        self, function: Callable[..., T], /, *args: Any, name: str, **options: Any
    ) -> JobHandle[T]: ...

    @overload
    def submit(
        self,
        function: Callable[..., T],
        /,
        *args: Any,
        resources: Mapping[str, Any],
        **options: Any,
    ) -> JobHandle[T]: ...

    @overload
    def submit(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> JobHandle[T]: ...

    @overload
    def submit(self, function: Callable[[A], T], first: A | JobHandle[A], /) -> JobHandle[T]: ...

    @overload
    def submit(
        self, function: Callable[[list[A]], T], first: list[JobHandle[A]], /
    ) -> JobHandle[T]: ...

    @overload
    def submit(
        self,
        function: Callable[[A, B], T],
        first: A | JobHandle[A],
        second: B | JobHandle[B],
        /,
    ) -> JobHandle[T]: ...

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> JobHandle[T]:
        """Run ``function(*args, **kwargs)`` as a job. Options go through ``options(...)``.

        Of a cluster itself a keyword that the function does not name is an option, if there is
        one of that name (``name=``, ``resources=``, ``time_limit=``, …); ``kwargs={…}`` are
        keywords for the function. Where both could be meant, a warning says what was done.
        Behind ``options(...)`` every keyword goes to the function.
        """
        return self._submitted(function, args, kwargs)

    @overload
    def map(
        self,
        function: Callable[[A], T],
        items: Iterable[A | JobHandle[A]],
        /,
        *,
        max_concurrent: int = ...,
        kwargs: None = ...,
        **options: Unpack[JobOptions],
    ) -> list[JobHandle[T]]: ...

    @overload
    def map(
        self,
        function: Callable[[A, B], T],
        items: Iterable[A | JobHandle[A]],
        more: Iterable[B | JobHandle[B]],
        /,
        *,
        max_concurrent: int = ...,
        kwargs: None = ...,
        **options: Unpack[JobOptions],
    ) -> list[JobHandle[T]]: ...

    @overload
    def map(
        self,
        function: Callable[..., T],
        /,
        *iterables: Iterable[Any],
        max_concurrent: int = ...,
        kwargs: Mapping[str, Any] | None = ...,
        **options: Unpack[JobOptions],
    ) -> list[JobHandle[T]]: ...

    def map(
        self,
        function: Callable[..., T],
        /,
        *iterables: Iterable[Any],
        max_concurrent: int = 0,
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[JobOptions],
    ) -> list[JobHandle[T]]:
        """One job per item, at most ``max_concurrent`` of them at once, in one request.

        Several iterables are taken side by side, up to the end of the shortest. ``kwargs`` are
        the same for all items; every other keyword is an option.
        """
        rows = zip(*iterables, strict=False)
        return self._mapped(function, rows, kwargs or {}, options, max_concurrent)

    @abstractmethod
    def _submitted(
        self, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> JobHandle[T]:
        """A job for one call."""

    @abstractmethod
    def _mapped(
        self,
        function: Callable[..., T],
        rows: Iterable[tuple[Any, ...]],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
        max_concurrent: int,
    ) -> list[JobHandle[T]]:
        """Jobs for many calls, in one request."""


class Options(Calling):
    """A cluster with options for the calls that follow; ``cluster.options()`` makes one.

    Every keyword of ``submit`` goes to the function here.
    """

    def __init__(self, cluster: ClusterContext, given: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._given = dict(given)

    def options(self, **options: Unpack[JobOptions]) -> Options:
        """The same with more options; what is said last counts."""
        return Options(self._cluster, merged(self._given, options))

    def _submitted(
        self, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> JobHandle[T]:
        return self._cluster.submit_call(function, args, kwargs, self._given)

    def _mapped(
        self,
        function: Callable[..., T],
        rows: Iterable[tuple[Any, ...]],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
        max_concurrent: int,
    ) -> list[JobHandle[T]]:
        given = merged(self._given, options)
        return self._cluster.map_calls(function, rows, kwargs, given, max_concurrent)

    def plan(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Plan:
        """What would become of such a job now; nothing is submitted."""
        return self._cluster.plan_call(function, args, kwargs, self._given)

    def executor(self) -> JobExecutor:
        """A ``concurrent.futures.Executor``: every call is a job with these options."""
        return self._cluster.executor(**self._given)

    def pool(self, workers: int = 1) -> WorkerPool:
        """An executor for many short calls: ``workers`` jobs with these options stay."""
        return self._cluster.pool(workers, **self._given)


class JobFunction(Generic[P, T]):
    """A function that knows what it needs as a job; ``@rota.job(...)`` makes one.

    Called, it runs here, as it did without the decorator. ``submit`` and ``map`` run it on the
    cluster that was opened last; ``cluster.submit(function, …)`` on another one.
    """

    def __init__(self, function: Callable[P, T], given: Mapping[str, Any]) -> None:
        self.function = function
        #: The options of its jobs.
        self.given = dict(given)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.function(*args, **kwargs)

    def options(self, **options: Unpack[JobOptions]) -> JobFunction[P, T]:
        """The same function with more options; what is said last counts."""
        return JobFunction(self.function, merged(self.given, options))

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]:
        """Run it as a job on the cluster that was opened last."""
        return opened_last().submit_call(self, args, kwargs, {})

    def map(self, *iterables: Iterable[Any], max_concurrent: int = 0) -> list[JobHandle[T]]:
        """One job per item, on the cluster that was opened last."""
        rows = zip(*iterables, strict=False)
        return opened_last().map_calls(self, rows, {}, {}, max_concurrent)

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.given.items())
        return f"<rota.job {getattr(self.function, '__qualname__', 'call')}({said})>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """By its name where a job can import it: the name is this, not the function below."""
        if self.is_importable:
            return str(getattr(self.function, "__qualname__", ""))
        return JobFunction, (self.function, self.given)

    @property
    def is_importable(self) -> bool:
        """Whether a job finds it where it was defined."""
        module = getattr(self.function, "__module__", "__main__")
        if module == "__main__":
            return False
        found: object = sys.modules.get(module)
        for name in getattr(self.function, "__qualname__", "?").split("."):
            found = getattr(found, name, None)
        return found is self


@overload
def job(function: Callable[P, T], /) -> JobFunction[P, T]: ...


@overload
def job(
    function: None = ..., /, **options: Unpack[JobOptions]
) -> Callable[[Callable[P, T]], JobFunction[P, T]]: ...


def job(function: Callable[P, T] | None = None, /, **options: Unpack[JobOptions]) -> object:
    """``@rota.job(gpus=1, time="2h")``: the options of a function's jobs stand at the function."""
    given = merged({}, options)

    def decorate(function: Callable[P, T]) -> JobFunction[P, T]:
        if not callable(function):
            raise TypeError(f"job: {function!r} is not a function; write @rota.job(gpus=1)")
        return JobFunction(function, given)

    return decorate if function is None else decorate(function)


def opened_last() -> ClusterContext:
    """The cluster that a program means when it names none."""
    if not len(OPEN):
        raise RuntimeError(
            "no cluster is open: use it inside 'with rota.connect() as cluster', "
            "or say cluster.submit(function, ...)"
        )
    return OPEN[max(OPEN)]
