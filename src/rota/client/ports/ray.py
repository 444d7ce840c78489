"""Remote functions in Ray's words: ``from rota.client.ports import ray``.

@ray.remote(num_cpus=2)
def train(rate): ...
print(ray.get([train.remote(rate) for rate in rates]))

They run on the cluster that was opened last, or on the one that ``ray.init()`` opens.
"""

from __future__ import annotations

import concurrent.futures
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from rota.client.cluster import ClusterContext, connect
from rota.client.handle import JobHandle, gather
from rota.client.options import OPEN, opened_last

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

P = ParamSpec("P")
T = TypeVar("T")

#: Ray's names of what we have, and ours.
NAMES = {"num_cpus": "cpus", "num_gpus": "gpus", "max_retries": "retries", "name": "name"}
#: The one that ``init`` opened.
_own: list[ClusterContext] = []


class Kept(Generic[T]):
    """A value that ``put`` was given; it travels with every call that gets it."""

    def __init__(self, value: T) -> None:
        self.value = value


class RemoteFunction(Generic[P, T]):
    """A function whose ``remote`` runs it as a job."""

    def __init__(self, function: Callable[P, T], given: Mapping[str, Any]) -> None:
        if isinstance(function, type):
            raise TypeError(f"remote: {function.__name__} is a class; actors have no port to Rota")
        self._function = function
        self._given = dict(given)

    def options(self, **options: Any) -> RemoteFunction[P, T]:
        """The same function with more options, in Ray's words."""
        return RemoteFunction(self._function, {**self._given, **translated(options)})

    def remote(self, *args: Any, **kwargs: Any) -> JobHandle[T]:
        """Run it as a job; a handle among the arguments stands for its result."""
        plain = tuple(_unwrapped(value) for value in args)
        named = {name: _unwrapped(value) for name, value in kwargs.items()}
        return opened_last().submit_call(self._function, plain, named, self._given)


def _unwrapped(value: object) -> object:
    return value.value if isinstance(value, Kept) else value


def translated(options: Mapping[str, Any]) -> dict[str, Any]:
    """Ray's options in our words; one that has no twin here is refused."""
    given = dict(options)
    found: dict[str, Any] = {}
    if "memory" in given:
        found["memory"] = max(1, int(given.pop("memory")) >> 20)
    for name, value in given.items():
        if name not in NAMES:
            known = ", ".join([*NAMES, "memory"])
            raise ValueError(f"{name}: this option of Ray has no twin here; known are {known}")
        found[NAMES[name]] = value
    return found


def init(address: str = "", **ignored: Any) -> ClusterContext:
    """Use the cluster that was opened last, else open the one that ``rota.connect`` finds."""
    if not len(OPEN):
        _own.append(connect("" if address in ("auto", "local") else address))
    return opened_last()


def is_initialized() -> bool:
    """Whether a cluster is open."""
    return bool(len(OPEN))


def shutdown() -> None:
    """Close what ``init`` opened."""
    while _own:
        _own.pop().close()


@overload
def remote(function: Callable[P, T], /) -> RemoteFunction[P, T]: ...


@overload
def remote(
    function: None = ..., /, **options: Any
) -> Callable[[Callable[P, T]], RemoteFunction[P, T]]: ...


def remote(function: Callable[P, T] | None = None, /, **options: Any) -> object:
    """``@ray.remote`` or ``@ray.remote(num_gpus=1)``: calls of the function can be jobs."""
    given = translated(options)

    def decorate(function: Callable[P, T]) -> RemoteFunction[P, T]:
        return RemoteFunction(function, given)

    return decorate if function is None else decorate(function)


def put(value: T) -> Kept[T]:
    """A value to give to several calls."""
    return Kept(value)


@overload
def get(refs: JobHandle[T] | Kept[T], *, timeout: float | None = ...) -> T: ...


@overload
def get(refs: Sequence[JobHandle[T]], *, timeout: float | None = ...) -> list[T]: ...


def get(
    refs: JobHandle[T] | Kept[T] | Sequence[JobHandle[T]], *, timeout: float | None = None
) -> T | list[T]:
    """What a job returned, or what each of several did; raises what one of them raised."""
    if isinstance(refs, Kept):
        return refs.value
    if isinstance(refs, JobHandle):
        return refs.result(timeout)
    return gather(refs, timeout=timeout)


def wait(
    refs: Sequence[JobHandle[T]], *, num_returns: int = 1, timeout: float | None = None
) -> tuple[list[JobHandle[T]], list[JobHandle[T]]]:
    """The first ``num_returns`` jobs to end, and the others; fewer when the time is up."""
    if not 1 <= num_returns <= len(refs):
        raise ValueError(f"num_returns: {num_returns} is not valid; 1 to {len(refs)}")
    ready: list[JobHandle[T]] = []
    ends = concurrent.futures.as_completed(refs, timeout)
    try:
        while len(ready) < num_returns:
            ended = next(ends)
            ready += [ref for ref in refs if ref is ended]
    except TimeoutError:
        return ready, [ref for ref in refs if ref not in ready]
    return ready, [ref for ref in refs if ref not in ready]


def cancel(ref: JobHandle[Any], *, force: bool = False) -> None:
    """Ask for the end of a job; ``force`` makes no difference here."""
    ref.cancel()
