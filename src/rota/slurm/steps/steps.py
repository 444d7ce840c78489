"""The steps of jobs: which ones run and how the others ended, and who starts tasks on which node.

Kept in memory; what a controller that was started anew does not know, ``step_log`` reads again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

import msgspec

from rota.slurm.call.command import CommandFailed

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.core.facts.job import Job
    from rota.slurm.call.command import Call
    from rota.slurm.call.wire import Stream
    from rota.slurm.steps.audience import Audience

#: The most jobs that are remembered with their steps.
JOBS_KEPT = 10_000


class Step(msgspec.Struct, kw_only=True):
    """One call of ``srun``: in words of Slurm, for the commands that show it."""

    job: int
    id: int
    name: str
    nodes: tuple[str, ...]
    ntasks: int
    cpus: int
    started_s: float
    ended_s: float = 0.0
    #: ``RUNNING``, ``COMPLETED``, ``FAILED``, ``CANCELLED``, ``TIMEOUT``.
    state: str = "RUNNING"
    exit_code: int = 0
    signal: int = 0
    #: What the tasks that have ended used: CPU time of all of them, memory of the largest.
    cpu_s: float = 0.0
    memory_mib: int = 0
    #: Pids by rank.
    pids: dict[int, int] = {}

    #: Whether its own limit has ended it.
    overdue: bool = False

    def finish(self, status: int, now_s: float, *, forced: bool = False) -> None:
        """It has ended, with the wait status of its worst task; or somebody has ended it."""
        self.ended_s = now_s
        self.signal = status & 0x7F
        self.exit_code = 0 if self.signal else status >> 8
        ended = forced or self.signal
        self.state = "CANCELLED" if ended else "FAILED" if status else "COMPLETED"
        self.state = "TIMEOUT" if self.overdue else self.state


class Runner(Protocol):
    """A step that runs: takes signals, and what a stand-in says about its tasks."""

    #: The watchers of what its tasks print.
    audience: Audience

    async def signal(self, number: int) -> None: ...

    async def say(self, text: str) -> None: ...

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


class StepClaim:
    """The CPUs that one step holds: by member of its job."""

    def __init__(self, job: int, cpus: dict[int, int]) -> None:
        self.job = job
        self.cpus = cpus


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
        self._claims: dict[int, list[StepClaim]] = {}
        #: Members of jobs that somebody was sent to, because nobody of ours was there.
        self.summoned: set[tuple[int, int]] = set()
        #: Set when the next step gives its CPUs back.
        self.freed = asyncio.Event()

    def begin(self, step: Step, runner: Runner, *, listed: bool = True) -> None:
        """Tasks that run; those that are no step of anybody's are not ``listed``."""
        self.runners[step.job, step.id] = runner
        if listed:
            self.by_job.setdefault(step.job, []).append(step)
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

    def taken(self, job: int) -> dict[int, int]:
        """The CPUs of each member of a job that its steps hold."""
        found: dict[int, int] = {}
        for claim in self._claims.get(job, ()):
            for member, cpus in claim.cpus.items():
                found[member] = found.get(member, 0) + cpus
        return found

    def claim(self, job: int, cpus: dict[int, int]) -> StepClaim:
        claim = StepClaim(job, cpus)
        self._claims.setdefault(job, []).append(claim)
        return claim

    def release(self, claim: StepClaim) -> None:
        """Its CPUs are free; everybody who waits looks again."""
        held = self._claims[claim.job]
        held.remove(claim)
        if not held:
            del self._claims[claim.job]
            self._send_home(claim.job)
        self.freed.set()
        self.freed = asyncio.Event()

    async def arrive(self, job: int, stand_in: StandIn) -> None:
        async with self._changed:
            self.stand_ins.setdefault(job, {})[stand_in.member] = stand_in
            self._changed.notify_all()

    def _send_home(self, job: int) -> None:
        """A starter that was sent to a job for a step is not needed after the last one."""
        for place in [place for place in self.summoned if place[0] == job]:
            self.summoned.discard(place)
            stand_in = self._drop(job, place[1])
            if stand_in is not None:
                stand_in.dismiss(0)

    def _drop(self, job: int, member: int) -> StandIn | None:
        here = self.stand_ins.get(job, {})
        stand_in = here.pop(member, None)
        if not here:
            self.stand_ins.pop(job, None)
        return stand_in

    async def leave(self, job: int, stand_in: StandIn) -> None:
        if self.stand_ins.get(job, {}).get(stand_in.member) is not stand_in:
            return
        self._drop(job, stand_in.member)
        self.summoned.discard((job, stand_in.member))
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
    """The line to a starter of tasks; ``Failed`` for a caller that only sent words."""
    stream = call.line.stream
    if stream is None:
        program = call.request.program
        raise CommandFailed(
            f"{program}: error: tasks are started by the command {program} only\n", 1
        )
    return stream


def home_of(call: Call, job: Job) -> int:
    """The member as which a command itself runs, if it runs inside the job; else -1."""
    uid = call.env.get("ROTA_ATTEMPT_UID", "")
    for task in job.tasks:
        if task.current is not None and task.current.live and task.current.uid == uid:
            return task.index
    return -1


_STEPS: WeakKeyDictionary[Context, Steps] = WeakKeyDictionary()


def steps_of(context: Context) -> Steps:
    """The steps that this server knows."""
    known = _STEPS.get(context)
    if known is None:
        known = _STEPS[context] = Steps()
    return known
