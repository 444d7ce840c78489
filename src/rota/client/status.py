"""A job, a node and two answers at one moment, and the exceptions for ends without a result."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from rota.client.outcomes import JobError
from rota.core.facts.states import FINAL, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping


class JobStatus:
    """A job at one moment. ``state`` is the name of its state."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        #: All that the server says about it.
        self.record = dict(record)
        self.id: int = record["id"]
        #: How people name it: 12, or 15_3 for an element of an array.
        self.ref: str = record.get("ref") or str(self.id)
        self.name: str = record.get("name") or ""
        self.user: str = record.get("user") or ""
        self.state: str = record["state"]
        self.exit_code: int | None = record.get("exit_code")
        #: Why it ended, in words; empty if it completed.
        self.error: str = record.get("cause") or ""
        #: Why it waits, in words.
        self.reason: str = record.get("reason") or ""

    @property
    def finished(self) -> bool:
        """Whether it has ended, however."""
        return JobState(self.state) in FINAL

    def __repr__(self) -> str:
        return f"<job {self.ref} {self.state}>"


class Node:
    """A machine at one moment."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        #: All that the server says about it.
        self.record = dict(record)
        self.name: str = record["name"]
        self.state: str = record["state"]

    def __repr__(self) -> str:
        return f"<node {self.name} {self.state}>"


class Why:
    """Why a job waits and what would start it now, or how it ended. As text: the story."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        #: All that the server says about it; ``tree`` has the reasons as data.
        self.record = dict(record)
        self.state: str = record["state"]
        #: In one line.
        self.reason: str = record["reason"]
        self.lines: list[str] = record["lines"]
        #: Changes that would start it now.
        self.help: list[str] = record["help"]
        #: When it will probably start, with bands, in RFC 3339; None when nobody can say.
        self.foretold: dict[str, Any] | None = record.get("foretold")
        #: Of one that failed: the exception of a Python program, and the last lines that it wrote.
        self.error: str = record.get("error") or ""
        self.last_lines: list[str] = record.get("last_lines") or []

    def __str__(self) -> str:
        error = [self.error] if self.error else []
        wrote = [f"| {line}" for line in self.last_lines]
        return _story(self.reason, [*self.lines, *error, *wrote], self.help)

    def __repr__(self) -> str:
        return f"<why {self.state}: {self.error or self.reason.removeprefix(f'{self.state}: ')}>"


class Plan:
    """What would become of a job that is not submitted. As text: the story."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        #: All that the server says about it.
        self.record = dict(record)
        #: Whether it would start now.
        self.starts: bool = record["starts"]
        #: When it would, in RFC 3339; None when nobody can say.
        self.start_at: str | None = record["start_at"]
        self.reason: str = record["reason"]
        self.lines: list[str] = record["lines"]
        #: Options that would start it now.
        self.help: list[str] = record["help"]
        #: When it will probably start, with bands; None: now, or nobody can say.
        self.foretold: dict[str, Any] | None = record.get("foretold")
        self.nodes: list[str] = [held["node"] for held in record["allocations"]]

    def __str__(self) -> str:
        return _story(self.reason, self.lines, self.help)

    def __repr__(self) -> str:
        return f"<plan {'starts now' if self.starts else self.reason}>"


def _story(reason: str, lines: list[str], remedies: list[str]) -> str:
    """The reason, unless the lines begin with it, then all that is known."""
    first = [] if reason in "".join(lines[:1]) else [reason]
    return "\n".join([*first, *lines, *remedies])


class JobFailed(JobError):
    """A job ended without a result; ``status`` says how."""

    def __init__(self, status: JobStatus) -> None:
        error = status.error.removeprefix(f"{status.state}: ")
        super().__init__(f"job {status.id} ended {status.state}: {error}")
        self.status = status

    def __reduce__(self) -> tuple[type[JobFailed], tuple[JobStatus], dict[str, Any]]:
        return type(self), (self.status,), self.__dict__


class JobCancelled(JobFailed, CancelledError):
    """It was cancelled, by us or by somebody else."""


def failure_of(status: JobStatus) -> JobFailed:
    """The exception for an end without a result."""
    return JobCancelled(status) if status.state == JobState.CANCELLED else JobFailed(status)
