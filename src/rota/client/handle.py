"""The handle of a job: which job of which cluster it is, and a future of what it will return."""

from __future__ import annotations

import concurrent.futures
import contextlib
from concurrent.futures import FIRST_EXCEPTION, Future
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Protocol, TypeVar, overload

from rota.client.errors import ClientError
from rota.client.outcomes import RemoteTraceback, ResultGone
from rota.client.status import JobCancelled, JobFailed, failure_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.client.outcomes import CallOutcome
    from rota.client.status import JobStatus, Why

T = TypeVar("T")
#: The most of standard error that goes with the exception of a job that failed.
TAIL_LINES = 20


class Family(NamedTuple):
    """The array that a job of a map belongs to."""

    array: int
    size: int
    #: The first element is 0.
    place: int


class JobReference:
    """Which job of which cluster is meant, in whatever kind of program.

    Two of them are equal if they mean the same job of the same cluster. As an argument of
    another job, at any depth, it stands for what the job returns.
    """

    def __init__(
        self, job_id: int, home: str, tasks: int, name: str = "", family: Family | None = None
    ) -> None:
        self.id = job_id
        #: Where the cluster is.
        self.home = home
        #: How many results it has; 0 for a command.
        self.tasks = tasks
        self.name = name
        self.family = family
        #: The state that it ended in; empty before that is known.
        self.ended_as = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JobReference):
            return NotImplemented
        return (self.id, self.home) == (other.id, other.home)

    def __hash__(self) -> int:
        return hash((self.id, self.home))

    def __int__(self) -> int:
        return self.id

    def __str__(self) -> str:
        """The id, as the commands print it."""
        return str(self.id)

    def __repr__(self) -> str:
        family = self.family
        ref = str(self.id) if family is None else f"{family.array}_{family.place}"
        words = [type(self).__name__, ref, repr(self.name) if self.name else ""]
        return f"<{' '.join(word for word in words if word)} {self.ended_as or 'not ended'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"job {self.id}: a handle cannot be stored; keep its id, cluster.job(id) takes it up"
        )


class HandleDesk(Protocol):
    """What a handle asks of the connection that it came from."""

    @property
    def home(self) -> str: ...

    def status(self, job: int | JobReference) -> JobStatus: ...

    def why(self, job: int | JobReference) -> Why: ...

    def cancel(self, job: int | JobReference) -> bool: ...

    def log_pieces(
        self, job: int | JobReference, stream: str, task: int, tail: int | None, *, follow: bool
    ) -> Iterator[str]: ...

    def progress(self, job: int | JobReference, task: int = 0) -> dict[str, Any] | None: ...

    def outcome(self, job: int | JobReference, task: int = 0) -> CallOutcome | None: ...


class JobHandle(JobReference, Future[T]):
    """A job and a ``concurrent.futures.Future`` of its result.

    The connection that made it settles it when the job has ended, so ``as_completed``, ``wait``
    and callbacks work without asking for each job by itself.
    """

    def __init__(
        self,
        job_id: int,
        desk: HandleDesk,
        tasks: int = 1,
        *,
        name: str = "",
        family: Family | None = None,
        parents: tuple[JobReference, ...] = (),
    ) -> None:
        """``tasks`` is how many results it will have; 0 for a command, which has none."""
        JobReference.__init__(self, job_id, desk.home, tasks, name, family)
        Future.__init__(self)
        self._desk = desk
        self._parents = parents
        #: The exception has the last lines of standard error, or there are none to be had.
        self._told = False

    def status(self) -> JobStatus:
        """The job as it is now."""
        return self._desk.status(self)

    def why(self) -> Why:
        """Why it waits and what would start it, or how it ended."""
        return self._desk.why(self)

    @overload
    def logs(
        self, stream: str = ..., *, task: int = ..., tail: int | None = ...,
        follow: Literal[False] = ...,
    ) -> str: ...  # fmt: skip

    @overload
    def logs(
        self, stream: str = ..., *, task: int = ..., tail: int | None = ..., follow: Literal[True]
    ) -> Iterator[str]: ...

    def logs(
        self, stream: str = "stdout", *, task: int = 0, tail: int | None = None,
        follow: bool = False,
    ) -> str | Iterator[str]:  # fmt: skip
        """All that it has written so far; with ``follow`` pieces as they come, until it ends."""
        pieces = self._desk.log_pieces(self, stream, task, tail, follow=follow)
        return pieces if follow else "".join(pieces)

    def stderr(self, *, task: int = 0, tail: int | None = None) -> str:
        """What it has written to standard error so far: ``logs("stderr")``."""
        return self.logs("stderr", task=task, tail=tail)

    def progress(self, task: int = 0) -> dict[str, Any] | None:
        """What it last said with ``rota.context().progress()``; None before it said anything."""
        return self._desk.progress(self, task)

    def result(self, timeout: float | None = None) -> T:
        """What the function returned, or what it raised, raised here.

        Of a gang it is what the first task returned. A command returns None.
        """
        self.exception(timeout)
        return super().result()

    def results(self, timeout: float | None = None) -> list[T]:
        """What each task of a gang returned, in their order."""
        self.result(timeout)
        outcomes = (self._desk.outcome(self, task) for task in range(self.tasks))
        return [outcome.give() for outcome in outcomes if outcome is not None]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the function raised; None if it returned.

        It brings the last lines of standard error, as ``stderr_tail``.
        """
        try:
            error = super().exception(timeout)
        except TimeoutError:
            # The standard one does not name the job.
            message = f"job {self.id} has not ended after {timeout:g} s"
            raise TimeoutError(message) from None
        if error is not None and not self._told and wrote(error):
            self._told = True
            with contextlib.suppress(ClientError):
                tell_tail(error, str(self.logs("stderr", tail=lines_wanted(error))))
        return error

    def cancel(self) -> bool:
        """Ask for its end, also while it runs. False if it has ended already."""
        return not self.done() and self._desk.cancel(self)

    def cancelled(self) -> bool:
        """Whether it has ended because somebody cancelled it."""
        return self.done() and isinstance(super().exception(), JobCancelled)

    def running(self) -> bool:
        """Whether its processes are there now; asks the server."""
        return not self.done() and self.status().state == "running"

    def settle(self, state: str) -> None:
        """The job has ended: become its result or its exception. Called by the connection."""
        self.ended_as = state
        try:
            outcome = self._end(state)
        except Exception as error:
            self.set_exception(error)
            return
        finally:
            # A chain of jobs shall not keep all its handles alive.
            self._parents = ()
        if outcome is None or outcome.error is None:
            self.set_result(outcome.value if outcome is not None else None)  # type: ignore[arg-type]
        else:
            self.set_exception(outcome.error)

    def _end(self, state: str) -> CallOutcome | None:
        """What a function gave or raised; None for a command that completed."""
        if state == "completed" and not self.tasks:
            return None
        for task in range(tasks_that_tell(state, self.tasks)):
            outcome = self._desk.outcome(self, task)
            if outcome is not None and (outcome.error is not None or state == "completed"):
                return outcome
        if state == "completed":
            raise ResultGone(self.id)
        raise failure_of(self.status()) from self._broken_parent()

    def _broken_parent(self) -> BaseException | None:
        """What came of the first job whose result this one would have needed, and has none."""
        ended = (job for job in self._parents if isinstance(job, JobHandle) and job.done())
        return next((error for job in ended if (error := Future.exception(job))), None)

    def _repr_html_(self) -> str:
        """For notebooks: the job in a line, with a bar where it says how far it is."""
        from rota.client.notebook import job_line

        return job_line(self)


def tasks_that_tell(state: str, tasks: int) -> int:
    """A gang that failed did so because of one of its tasks, any of them."""
    return {"completed": 1, "failed": tasks}.get(state, 0)


def wrote(error: BaseException) -> bool:
    """Whether standard error can say something about this end."""
    if isinstance(error, JobFailed):
        return bool(error.status.record.get("started_at"))
    return not isinstance(error, ResultGone | ClientError)


def traceback_of(error: BaseException) -> str:
    """The traceback as it was in the job, which printed it last; empty where there is none."""
    return error.__cause__.args[0] if isinstance(error.__cause__, RemoteTraceback) else ""


def lines_wanted(error: BaseException) -> int:
    """Lines from the end of standard error, so that enough stand before the traceback."""
    return TAIL_LINES + len(traceback_of(error).splitlines())


def tell_tail(error: BaseException, written: str) -> None:
    """Put the last lines of standard error on the exception; an uncaught one shows them.

    Without the traceback behind them: the exception has that, too.
    """
    lines = written.removesuffix(traceback_of(error)).splitlines(keepends=True)
    tail = "".join(lines[-TAIL_LINES:])
    with contextlib.suppress(AttributeError, TypeError):
        error.stderr_tail = tail  # type: ignore[attr-defined]
    if tail.strip():
        error.add_note(f"the end of its standard error:\n{tail.rstrip()}")


def handles_in(jobs: Iterable[JobHandle[T] | Iterable[JobHandle[T]]]) -> list[JobHandle[T]]:
    """Handles, and lists of handles, in one list."""
    found: list[JobHandle[T]] = []
    for job in jobs:
        found += [job] if isinstance(job, JobHandle) else list(job)
    return found


def gather(
    *jobs: JobHandle[T] | Iterable[JobHandle[T]],
    timeout: float | None = None,
    return_exceptions: bool = False,
) -> list[T]:
    """What the jobs returned, in their order, once all have ended.

    The first that fails raises at once, and the others go on; with ``return_exceptions``
    exceptions stand in the list instead. Takes handles and lists of them, of any clusters.
    """
    listed = handles_in(jobs)
    when = concurrent.futures.ALL_COMPLETED if return_exceptions else FIRST_EXCEPTION
    waiting = concurrent.futures.wait(listed, timeout, when).not_done
    for job in [] if return_exceptions else listed:
        if job.done():
            job.result()
    if waiting:
        count = f"{len(waiting)} of {len(listed)} jobs"
        raise TimeoutError(f"{count} have not ended after {timeout:g} s")
    if return_exceptions:
        return [job.exception() or job.result() for job in listed]  # type: ignore[misc]
    return [job.result() for job in listed]


def as_completed(
    *jobs: JobHandle[T] | Iterable[JobHandle[T]], timeout: float | None = None
) -> Iterator[JobHandle[T]]:
    """The handles in the order in which their jobs end, of whatever clusters."""
    for handle in concurrent.futures.as_completed(handles_in(jobs), timeout):
        assert isinstance(handle, JobHandle)
        yield handle


def wait(
    *jobs: JobHandle[T] | Iterable[JobHandle[T]],
    timeout: float | None = None,
    return_when: str = concurrent.futures.ALL_COMPLETED,
) -> tuple[set[JobHandle[T]], set[JobHandle[T]]]:
    """As ``concurrent.futures.wait``: the jobs that have ended, and those that have not."""
    done, waiting = concurrent.futures.wait(handles_in(jobs), timeout, return_when)
    return done, waiting  # type: ignore[return-value]
