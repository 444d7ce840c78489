"""The exception tree of Rota.

    RotaError
    ├── Rejected        the caller's mistake: names the field, the value and what is allowed
    │   ├── NotFound    what was named does not exist (or may not be seen)
    │   ├── Forbidden   the caller's role does not allow it
    │   ├── Conflict    the thing is in a state that does not allow it
    │   └── KeyReused   the Idempotency-Key stands for another request
    ├── Unavailable     the world's fault: try again later
    │   └── Busy        too much is waiting already; nothing was changed
    └── IllegalMove     our own bug: a move that the state table does not list

"Does not fit right now" is none of these: it is a ``Reason``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

Record = TypeVar("Record")
#: The most characters of a value that are repeated.
SHOWN_MAX = 80


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 3] + "..."


class RotaError(Exception):
    """Something that Rota reports in one line."""


class Rejected(RotaError):
    """A request that cannot be taken as it is."""

    code = "invalid"

    def __init__(
        self, detail: str, *, field: str = "", value: object = None, allowed: str = ""
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.value = value
        self.allowed = allowed

    @classmethod
    def bad(cls, field: str, value: object, allowed: str) -> Rejected:
        """A value that no request may have: ``allowed`` says what is expected."""
        shown = _shown(value)
        return cls(
            f"{field}: {shown} is not valid; {allowed}",
            field=field,
            value=shown if len(repr(value)) > SHOWN_MAX else value,
            allowed=allowed,
        )

    @classmethod
    def many(cls, field: str, count: int, most: int, what: str) -> Rejected:
        """More of something than are taken: the value is how many, not what the caller wrote."""
        allowed = f"at most {most} {what}"
        return cls(
            f"{field}: {count} {what} are too many; {allowed}",
            field=field,
            value=count,
            allowed=allowed,
        )

    @classmethod
    def unknown(cls, field: str, name: str, kind: str, known: str) -> Rejected:
        """A name that could be one, and is not that of anything here; ``known`` says what is."""
        detail = f"{field}: there is no {kind} {_shown(name)}; {known}"
        return cls(detail, field=field, value=name, allowed=known)

    @classmethod
    def because(cls, field: str, value: object, why: str) -> Rejected:
        """A value that is fine by itself and cannot be had here: ``why`` says it with the value."""
        return cls(f"{field}: {why}", field=field, value=value, allowed=why)


class NotFound(Rejected):
    """What was named does not exist, or the caller may not see it."""

    code = "not_found"


class Forbidden(Rejected):
    """The caller is known, and its role does not allow this."""

    code = "forbidden"


class Conflict(Rejected):
    """The thing is in a state that does not allow this."""

    code = "conflict"


class KeyReused(Rejected):
    """The Idempotency-Key was used for another request."""

    code = "key_reused"

    @classmethod
    def of(cls, key: str, made: str = "") -> KeyReused:
        """``made``: what the other request got, if that can be said."""
        which = f"another request, which made {made}" if made else "another request"
        return cls(
            f"Idempotency-Key: {key!r} was used for {which}; use a new key",
            field="Idempotency-Key",
            value=key,
            allowed="a key that was not used before, or the request that it was used for",
        )


class Unavailable(RotaError):
    """Not now: a full inbox, a full disk, an absent agent."""

    def __init__(self, what: str, retry_after_s: float = 1.0) -> None:
        super().__init__(what)
        self.what = what
        self.retry_after_s = retry_after_s


class Busy(Unavailable):
    """Too many requests wait already: this one was not taken."""


class IllegalMove(RotaError):
    """A state change that no rule allows: always a bug of ours, never of the user's job."""


class Stumbled(Exception):
    """Our own bug, met while one job (or array) was looked at: the others can go on without it."""

    def __init__(self, job: int, note: str) -> None:
        super().__init__(f"job {job}: {note}")
        self.job = job
        self.note = note


class Blaming:
    """Around the work on one job: whatever breaks in there becomes a ``Stumbled`` with its id."""

    __slots__ = ("_job", "_what")

    def __init__(self, job: int, what: str) -> None:
        self._job = job
        self._what = what

    def __enter__(self) -> None:
        """Nothing: all is done at the end."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, Stumbled):
            raise Stumbled(self._job, f"{self._what}: {error!r}") from error


def named(records: Mapping[str, Record], kind: str, name: str) -> Record:
    """The record of this name. Nodes, queues, groups and projects are missing in the same words."""
    found = records.get(name)
    if found is None:
        raise NotFound(f"there is no {kind} {name}", field=kind, value=name)
    return found
