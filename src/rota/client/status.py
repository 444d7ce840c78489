"""A job at one moment, and the exceptions for those that ended without a result."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from rota.core.facts.states import FINAL, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping


class JobStatus:
    """A job at one moment. ``state`` is the name of its state."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = dict(record)
        self.id: int = record["id"]
        self.name: str = record.get("name") or ""
        self.state: str = record["state"]
        self.exit_code: int | None = record.get("exit_code")
        #: Why it ended, in words; empty if it completed.
        self.error: str = record.get("cause") or ""
        #: Why it waits, in words.
        self.reason: str = record.get("reason") or ""

    @property
    def finished(self) -> bool:
        return JobState(self.state) in FINAL

    def __repr__(self) -> str:
        return f"<job {self.id} {self.state}>"


class JobFailed(Exception):
    """A job ended without a result; ``status`` says how."""

    def __init__(self, status: JobStatus) -> None:
        error = status.error.removeprefix(f"{status.state}: ")
        super().__init__(f"job {status.id} ended {status.state}: {error}")
        self.status = status


class JobCancelled(JobFailed, CancelledError):
    """It was cancelled, by us or by somebody else."""


def failure_of(status: JobStatus) -> JobFailed:
    """The exception for an end without a result."""
    return JobCancelled(status) if status.state == JobState.CANCELLED else JobFailed(status)
