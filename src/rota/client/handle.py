"""The handle of a job: its id, and a future of what it will return."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from rota.client.status import JobCancelled, failure_of

if TYPE_CHECKING:
    from rota.client.outcomes import Outcome
    from rota.client.status import JobStatus


class Desk(Protocol):
    """What a handle asks of the connection that it came from."""

    def status(self, job: int) -> JobStatus: ...

    def cancel(self, job: int) -> bool: ...

    def logs(self, job: int, stream: str = "stdout", *, task: int = 0) -> str: ...

    def progress(self, job: int, task: int = 0) -> dict[str, Any] | None: ...

    def outcome(self, job: int, task: int = 0) -> Outcome | None: ...


class JobHandle(int, Future[Any]):
    """The id of a job (it is an ``int``) and a ``concurrent.futures.Future`` of its result.

    The connection that made it settles it when the job has ended, so ``as_completed``, ``wait``
    and callbacks work without asking for each job by itself.
    """

    _desk: Desk
    _tasks: int

    def __new__(cls, job_id: int, desk: Desk, tasks: int = 1) -> JobHandle:
        return super().__new__(cls, job_id)

    def __init__(self, job_id: int, desk: Desk, tasks: int = 1) -> None:
        """``tasks`` is how many results it will have; 0 for a command, which has none."""
        Future.__init__(self)
        self._desk = desk
        self._tasks = tasks

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        """As an argument of another job it is just the id."""
        return int, (int(self),)

    def status(self) -> JobStatus:
        return self._desk.status(self)

    def logs(self, stream: str = "stdout", *, task: int = 0) -> str:
        """All that it has written so far."""
        return self._desk.logs(self, stream, task=task)

    def progress(self, task: int = 0) -> dict[str, Any] | None:
        """What it last said with ``rota.context().progress()``; None before it said anything."""
        return self._desk.progress(self, task)

    def result(self, timeout: float | None = None) -> Any:  # noqa: ANN401 - the user's own value
        """What the function returned, or what it raised, raised here.

        Of a gang it is what the first task returned. A command returns None.
        """
        self._await(timeout)
        return super().result()

    def results(self, timeout: float | None = None) -> list[Any]:
        """What each task of a gang returned, in their order."""
        self.result(timeout)
        outcomes = (self._desk.outcome(self, task) for task in range(self._tasks))
        return [outcome.give() if outcome is not None else None for outcome in outcomes]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._await(timeout)
        return super().exception()

    def _await(self, timeout: float | None) -> None:
        """Until it is settled; the time-out names the job, which the standard one does not."""
        try:
            super().exception(timeout)
        except TimeoutError:
            message = f"job {int(self)} has not ended after {timeout:g} s"
            raise TimeoutError(message) from None

    def cancel(self) -> bool:
        """Ask for its end, also while it runs. False if it has ended already."""
        return not self.done() and self._desk.cancel(self)

    def cancelled(self) -> bool:
        return self.done() and isinstance(super().exception(), JobCancelled)

    def running(self) -> bool:
        return not self.done() and self.status().state == "running"

    def settle(self, state: str) -> None:
        """The job has ended: become its result or its exception. Called by the connection."""
        try:
            outcome = self._end(state)
        except Exception as error:
            self.set_exception(error)
            return
        if outcome is None or outcome.error is None:
            self.set_result(outcome.value if outcome is not None else None)
        else:
            self.set_exception(outcome.error)

    def _end(self, state: str) -> Outcome | None:
        """What a function gave or raised; None for a command that completed."""
        if state == "completed" and not self._tasks:
            return None
        # A gang that failed did so because of one of its tasks, any of them.
        looked_at = self._tasks if state == "failed" else 1
        for task in range(looked_at if state in ("completed", "failed") else 0):
            outcome = self._desk.outcome(self, task)
            if outcome is not None and (outcome.error is not None or state == "completed"):
                return outcome
        raise failure_of(self.status())
