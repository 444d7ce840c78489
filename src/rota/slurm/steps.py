"""The steps of jobs: which ones run and how the others ended, and who starts tasks on which node.

Kept in memory; what a controller that was started anew does not know, ``step_log`` reads again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

import msgspec

from rota.slurm.command import Failed

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.slurm.command import Call
    from rota.slurm.wire import Stream

#: So many jobs are remembered with their steps.
JOBS_KEPT = 10_000


class Step(msgspec.Struct, kw_only=True):
    """One call of ``srun``: in words of Slurm, for whoever shows it."""

    job: int
    id: int
    name: str
    nodes: tuple[str, ...]
    ntasks: int
    cpus: int
    started_s: float
    ended_s: float = 0.0
    #: ``RUNNING``, ``COMPLETED``, ``FAILED``, ``CANCELLED``.
    state: str = "RUNNING"
    exit_code: int = 0
    signal: int = 0
    #: Pids by rank.
    pids: dict[int, int] = {}


class Runner(Protocol):
    """A step that runs: takes signals, and what a stand-in says about its tasks."""

    async def signal(self, number: int) -> None: ...

    async def heard(self, kind: bytes, body: bytes) -> None: ...

    async def lost(self, member: int) -> None: ...


class StandIn:
    """A process of ours inside a job: one of its members, on one of its nodes."""

    def __init__(self, member: int, env: dict[str, str], send: Send) -> None:
        self.member = member
        self.env = env
        self.send = send
        #: Set with the exit code when it shall go.
        self.dismissed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def dismiss(self, code: int) -> None:
        if not self.dismissed.done():
            self.dismissed.set_result(code)


class Send(Protocol):
    async def __call__(self, *frames: tuple[bytes, bytes]) -> None: ...


class Steps:
    """All steps that one server knows."""

    def __init__(self) -> None:
        self.by_job: dict[int, list[Step]] = {}
        self.runners: dict[tuple[int, int], Runner] = {}
        self.stand_ins: dict[int, dict[int, StandIn]] = {}
        #: Jobs that a command holds which is connected to this server.
        self.held: set[int] = set()
        self._changed = asyncio.Condition()

    def begin(self, step: Step, runner: Runner) -> None:
        known = self.by_job.setdefault(step.job, [])
        known.append(step)
        self.runners[step.job, step.id] = runner
        self._forget()

    def add_known(self, job: int, steps: list[Step]) -> None:
        """What the log says of a job; of those that began here more is known already."""
        self._forget()
        here = {step.id: step for step in self.by_job.get(job, ())}
        merged = {step.id: step for step in steps} | here
        self.by_job[job] = [merged[number] for number in sorted(merged)]

    def _forget(self) -> None:
        while len(self.by_job) > JOBS_KEPT:
            self.by_job.pop(next(iter(self.by_job)))

    def end(self, step: Step) -> None:
        self.runners.pop((step.job, step.id), None)

    def of(self, job: int) -> tuple[Step, ...]:
        return tuple(self.by_job.get(job, ()))

    def running(self, job: int) -> list[Runner]:
        return [runner for (item, _), runner in self.runners.items() if item == job]

    async def arrive(self, job: int, stand_in: StandIn) -> None:
        async with self._changed:
            self.stand_ins.setdefault(job, {})[stand_in.member] = stand_in
            self._changed.notify_all()

    async def leave(self, job: int, stand_in: StandIn) -> None:
        here = self.stand_ins.get(job, {})
        if here.get(stand_in.member) is stand_in:
            del here[stand_in.member]
        if not here:
            self.stand_ins.pop(job, None)
        for runner in self.running(job):
            await runner.lost(stand_in.member)

    async def arrived(self, job: int, members: set[int], timeout_s: float) -> bool:
        """Whether these members of a job have called, at the latest after this time."""
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: members <= set(self.stand_ins.get(job, ())))
        except TimeoutError:
            return False
        return True

    def dismiss(self, job: int, code: int) -> None:
        for stand_in in self.stand_ins.get(job, {}).values():
            stand_in.dismiss(code)


def stream_of(call: Call) -> Stream:
    """The line to somebody who can start tasks; ``Failed`` for those who only sent words."""
    stream = call.line.stream
    if stream is None:
        program = call.request.program
        raise Failed(f"{program}: error: tasks are started by the command {program} only\n", 1)
    return stream


_STEPS: WeakKeyDictionary[Context, Steps] = WeakKeyDictionary()


def steps_of(context: Context) -> Steps:
    """The steps that this server knows."""
    known = _STEPS.get(context)
    if known is None:
        known = _STEPS[context] = Steps()
    return known
