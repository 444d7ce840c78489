"""How calls are typed, in one place: a cluster takes them, and a cluster with options does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Unpack

    from rota.client.asking import JobOptions
    from rota.client.handle import JobHandle

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


class Calling:
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

    def _submitted(
        self, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> JobHandle[T]:
        raise NotImplementedError

    def _mapped(
        self,
        function: Callable[..., T],
        rows: Iterable[tuple[Any, ...]],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
        max_concurrent: int,
    ) -> list[JobHandle[T]]:
        raise NotImplementedError
