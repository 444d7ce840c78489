"""A step that runs: orders to the starters of its tasks, their ends, and what srun says of them."""

from __future__ import annotations

import asyncio
import signal as signals
import time
from typing import TYPE_CHECKING, Any

import msgspec

from rota.slurm.call import wire
from rota.slurm.call.command import Answer
from rota.slurm.call.waiting import unless_stopping
from rota.slurm.orders.detail import detail_of
from rota.slurm.orders.surroundings import exported
from rota.slurm.steps import step_log, step_words
from rota.slurm.steps.audience import Audience
from rota.slurm.steps.remarks import stopped_line
from rota.slurm.steps.step_orders import Streams
from rota.slurm.steps.step_patience import Interrupt, Interrupts, asked, overdue
from rota.slurm.steps.steps import Step, steps_of, stream_of

if TYPE_CHECKING:
    from rota.slurm.call.command import Call
    from rota.slurm.steps.step_plan import StepPlan
    from rota.slurm.steps.steps import StandIn

#: As Slurm says it: the time between TERM and KILL, and two seconds.
PATIENCE_S = 32
_TO_END = "job step to finish"
_encode = msgspec.json.Encoder().encode


class RunningStep:
    """One step, from its first order to its exit code."""

    #: Whether it is one that people see.
    listed = True

    def __init__(self, call: Call, plan: StepPlan, home: int) -> None:
        self._call = call
        self._plan = plan
        #: What concerns the step as a whole stands in front of its first command.
        self._order = plan.parts[0].order
        self._streams = Streams(plan, home, call.request.cwd, call.request.umask)
        #: The member of the job as which srun itself starts tasks; -1: there is none.
        self._home = home
        self._steps = steps_of(call.context)
        self._stream = stream_of(call)
        self._statuses: dict[int, int] = {}
        self._over = asyncio.Event()
        #: End the tasks: at the limit of the step, and long after the first one has ended.
        self._timers: list[asyncio.Task[None]] = []
        #: Set when srun has run its prolog.
        self._ran = asyncio.Event()
        self._forced = self._aborted = False
        self._terms = 0
        self.audience = Audience(plan, self._give)
        self._interrupts = Interrupts(
            quits=self._order.has("quit-on-interrupt"), silent=self._order.has("disable-status")
        )
        self.step = Step(
            job=plan.job.id,
            id=plan.step,
            name=plan.name,
            nodes=plan.nodes,
            ntasks=len(plan.places),
            cpus=plan.cpus,
            started_s=call.context.host.clock.now_s(),
        )

    @property
    def _name(self) -> str:
        return f"{self.step.job}.{self.step.id}"

    async def run(self) -> Answer:
        """Start everything, wait for everything."""
        self._steps.begin(self.step, self, listed=self.listed)
        listening = asyncio.create_task(self._listen())
        try:
            await self._start()
            if (limit_s := self._order.time_limit_s) and not self._is_whole_job:
                self._timers.append(asyncio.create_task(self._time_out(limit_s)))
            await unless_stopping(self._call.context, self._over.wait())
        finally:
            listening.cancel()
            for timer in self._timers:
                timer.cancel()
            self._finish()
            self._steps.end(self.step)
            self.audience.over()
        if self.listed:
            await step_log.told(self._call, self.step)
        await self._run_there("epilog")
        return self._answer()

    @property
    def _is_whole_job(self) -> bool:
        """Whether the job was made for this step: its limit is that of the job."""
        return detail_of(self._plan.job.spec).interactive == "srun"

    async def _run_there(self, key: str) -> bool:
        """A program of the caller's, where srun was called; whether there is one."""
        program = self._order.text(key)
        if program:
            env = {"SLURM_JOB_ID": str(self.step.job), "SLURM_STEP_ID": str(self.step.id)}
            argv = [program, *self._plan.parts[0].argv]
            await self._order_client({"op": "program", "argv": argv, "env": env})
        return bool(program)

    # ---- orders ----

    async def _start(self) -> None:
        await self._prepare()
        for member in self._plan.members:
            here = member.task == self._home
            order = self._streams.spawn_order(member, self._environment(here))
            if here:
                await self._order_client(order)
            elif (stand_in := self._stand_in(member.task)) is not None:
                await stand_in.send((wire.ORDER, _encode(order)))
            else:
                await self.lost(member.task)
        if self._order.has("pty"):
            await self._order_client({"op": "terminal"})
        if self._streams.wants_stdin:
            remote = any(member.task != self._home for member in self._plan.members)
            await self._order_client({"op": "stdin", "remote": remote})

    async def _prepare(self) -> None:
        """What srun does before tasks start."""
        if self._order.has("label"):
            width = len(str(len(self._plan.places) - 1))
            await self._order_client({"op": "label", "width": width})
        if (sinks := self._streams.sinks()) is not None:
            await self._order_client(sinks)
        warned = "".join(self._order.warnings)
        if self._order.has("verbose"):
            warned += step_words.before(self._plan)
        if warned:
            await self._stream.write((wire.STDERR, warned.encode()))
        if await self._run_there("prolog"):
            await self._ran.wait()

    def _environment(self, here: bool) -> dict[str, str] | None:
        """What the tasks are given of the caller's; None: their starter has it already."""
        if self._order.has("export"):
            call = self._call
            return exported(call.request, self._order.text("export"), call.actor.user)
        return None if here else self._call.env

    async def _order_client(self, order: dict[str, Any]) -> None:
        await self._stream.write((wire.ORDER, _encode(order)))

    def _stand_in(self, member: int) -> StandIn | None:
        return self._steps.stand_ins.get(self._plan.job.id, {}).get(member)

    # ---- what is heard ----

    async def _listen(self) -> None:
        """What srun says; when it is gone, its tasks shall be, too."""
        while (frame := await self._stream.read()) is not None:
            if frame.kind == wire.INPUT:
                mark = self.step.id.to_bytes(4, "big")
                await self._hand_on(wire.INPUT, mark + frame.body)
            else:
                await self.heard(frame.kind, frame.body)
        await self._kill(signals.SIGKILL)
        unheard = self._unheard()
        self._statuses |= dict.fromkeys(unheard, int(signals.SIGKILL))
        self._forced = self._forced or bool(unheard)
        self._ran.set()
        self._over.set()

    async def heard(self, kind: bytes, body: bytes) -> None:
        if kind in (wire.OUTPUT, wire.COPY):
            self.audience.printed(body)
        if kind == wire.OUTPUT:
            await self._stream.write((wire.OUTPUT, body))
        elif kind == wire.EVENT:
            await self._event(msgspec.json.decode(body))

    async def _event(self, event: dict[str, Any]) -> None:
        if event["op"] == "started":
            self.step.pids[event["rank"]] = event["pid"]
        elif event["op"] == "exit":
            self.step.cpu_s += event.get("cpu_s", 0.0)
            self.step.memory_mib = max(self.step.memory_mib, event.get("memory_mib", 0))
            await self._ended(event["rank"], event["status"])
        elif event["op"] == "signal":
            await self._asked(event["number"])
        elif event["op"] == "ran":
            self._ran.set()
        elif event["op"] == "window":
            size = {"rows": event["rows"], "columns": event["columns"]}
            await self._hand_on(wire.ORDER, _encode({"op": "window", "step": self.step.id, **size}))

    async def _asked(self, number: int) -> None:
        """A signal for srun is one for its tasks; one that is repeated is meant."""
        if number == signals.SIGINT:
            await self._interrupted()
            return
        self._terms += number == signals.SIGTERM
        await self.signal(number if self._terms < 2 else signals.SIGKILL)

    async def _interrupted(self) -> None:
        """Ctrl-C: the first one asks how things stand."""
        meant = self._interrupts.one(time.monotonic())
        if meant is Interrupt.ENDED:
            await self.signal(signals.SIGKILL)
            return
        text = f"srun: sending Ctrl-C to StepId={self._name}\n"
        if meant is Interrupt.ASKED:
            text = asked(self._name, self._unheard(), self._statuses)
        await self._stream.write((wire.STDERR, text.encode()))
        if meant is Interrupt.PASSED:
            await self.signal(signals.SIGINT)

    def _unheard(self) -> set[int]:
        """The tasks that have not ended."""
        return {place.rank for place in self._plan.places} - self._statuses.keys()

    async def _ended(self, rank: int, status: int) -> None:
        self._statuses[rank] = status
        self.audience.ended(rank, status)
        if self._order.has("verbose"):
            text = step_words.ended(self._plan, rank, status)
            await self._stream.write((wire.STDERR, text.encode()))
        if status:
            await self._stream.write((wire.STDERR, self._complaint(rank, status)))
            await self._end_others()
        if len(self._statuses) == len(self._plan.places):
            self._over.set()
        elif len(self._statuses) == 1 and (wait_s := self._order.wait_s):
            self._timers.append(asyncio.create_task(self._lose_patience(wait_s)))

    async def _end_others(self) -> None:
        """With ``-K`` one that ends badly takes all others with it."""
        left = len(self._statuses) < len(self._plan.places)
        asked = self._order.has("kill-on-bad-exit") and self._order.text("kill-on-bad-exit") != "0"
        if not left or self._forced or not asked:
            return
        self._forced = True
        text = f"srun: launch/slurm: _step_signal: Terminating StepId={self._name}\n"
        await self._stream.write((wire.STDERR, text.encode()))
        await self._kill(signals.SIGTERM)

    async def _time_out(self, limit_s: int) -> None:
        """The limit of the step, which may be shorter than that of its job."""
        await asyncio.sleep(limit_s)
        self.step.overdue = True
        self._forced = self._aborted = True
        await self._stream.write((wire.STDERR, self._farewell(" DUE TO TIME LIMIT").encode()))
        await self._kill(signals.SIGTERM)
        await asyncio.sleep(self._plan.job.spec.grace_s)
        await self._kill(signals.SIGKILL)

    async def _lose_patience(self, wait_s: int) -> None:
        await asyncio.sleep(wait_s)
        text = overdue(self._name, wait_s, self._unheard(), self._statuses)
        await self._stream.write((wire.STDERR, text.encode()))
        await self.signal(signals.SIGKILL)

    def _complaint(self, rank: int, status: int) -> bytes:
        node = self._plan.places[rank].member.node
        number = _signal(status)
        what = signals.strsignal(number) if number else ""
        text = what or f"Exited with exit code {status >> 8}"
        return f"srun: error: {node}: task {rank}: {text}\n".encode()

    async def lost(self, member: int) -> None:
        """Nobody is there any more who started them: tasks are taken for dead.

        When this server closes they live on, and it is the line that ends.
        """
        if self._call.context.closing.is_set():
            return
        for place in self._plan.places:
            mine = place.member.task == member and member != self._home
            if mine and place.rank not in self._statuses:
                await self._ended(place.rank, int(signals.SIGKILL))

    # ---- signals ----

    async def signal(self, number: int) -> None:
        if number == signals.SIGKILL and not self._forced:
            self._forced = self._aborted = True
            await self._stream.write((wire.STDERR, self._farewell().encode()))
        await self._kill(number)

    async def say(self, text: str) -> None:
        """Something that is no task's, for the person who runs it."""
        await self._stream.write((wire.STDERR, text.encode()))

    def _farewell(self, why: str = "") -> str:
        """The step was ended as such."""
        now_s = self._call.context.host.clock.now_s()
        line = stopped_line(f"STEP {self._name}", self._plan.nodes[0], now_s, why)
        return f"srun: Job step aborted: Waiting up to {PATIENCE_S} seconds for {_TO_END}.\n{line}"

    async def _kill(self, number: int) -> None:
        order = _encode({"op": "signal", "number": int(number), "step": self.step.id})
        await self._give(wire.ORDER, order)

    async def _give(self, kind: bytes, body: bytes) -> None:
        """To everybody who started tasks of it."""
        if any(member.task == self._home for member in self._plan.members):
            await self._stream.write((kind, body))
        await self._hand_on(kind, body)

    async def _hand_on(self, kind: bytes, body: bytes) -> None:
        for member in self._plan.members:
            stand_in = self._stand_in(member.task)
            if member.task != self._home and stand_in is not None:
                await stand_in.send((kind, body))

    # ---- the end ----

    def _finish(self) -> None:
        worst = max(self._statuses.values(), key=code_of, default=0)
        now_s = self._call.context.host.clock.now_s()
        self.step.finish(worst, now_s, forced=self._forced)

    def _answer(self) -> Answer:
        code = max(map(code_of, self._statuses.values()), default=1)
        text = ""
        killed = self._forced or any(_signal(one) in _ENDING for one in self._statuses.values())
        if killed and not self._aborted:
            text = f"srun: Force Terminated StepId={self._name}\n"
        return Answer("", text, code)


#: Signals that ask for an end; tasks that die of others die of their own fault.
_ENDING = frozenset({signals.SIGTERM, signals.SIGKILL})


def _signal(status: int) -> int:
    return status & 0x7F


def code_of(status: int) -> int:
    """The exit code of srun for a status: that of a shell."""
    return 128 + _signal(status) if _signal(status) else status >> 8
