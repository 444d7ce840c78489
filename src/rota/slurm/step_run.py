"""A step that runs: orders to those who start its tasks, their ends, and what srun says of them."""

from __future__ import annotations

import asyncio
import signal as signals
from typing import TYPE_CHECKING, Any

import msgspec

from rota.slurm import step_log, wire
from rota.slurm.command import Answer
from rota.slurm.step_orders import Streams
from rota.slurm.steps import Step, steps_of, stream_of

if TYPE_CHECKING:
    from rota.slurm.command import Call
    from rota.slurm.step_plan import Plan
    from rota.slurm.steps import StandIn

_OUTPUT = b"O"
_encode = msgspec.json.Encoder().encode


class RunningStep:
    """One step, from its first order to its exit code."""

    def __init__(self, call: Call, plan: Plan, home: int) -> None:
        self._call = call
        self._plan = plan
        #: What concerns the step as a whole stands in front of its first command.
        self._order = plan.parts[0].order
        self._streams = Streams(plan, home, call.request.cwd)
        #: The member of the job as which srun itself starts tasks; -1: there is none.
        self._home = home
        self._steps = steps_of(call.context)
        self._stream = stream_of(call)
        self._statuses: dict[int, int] = {}
        self._over = asyncio.Event()
        self._forced = False
        self._interrupts = 0
        self._mark = plan.step.to_bytes(4, "big")
        self._name = f"{plan.job.id}.{plan.step}"
        self.step = Step(
            job=plan.job.id,
            id=plan.step,
            name=plan.name,
            nodes=plan.nodes,
            ntasks=len(plan.places),
            cpus=plan.cpus,
            started_s=call.context.host.clock.now_s(),
        )

    async def run(self) -> Answer:
        """Start everything, wait for everything."""
        self._steps.begin(self.step, self)
        listening = asyncio.create_task(self._listen())
        try:
            await self._start()
            await self._over.wait()
        finally:
            listening.cancel()
            self._finish()
            self._steps.end(self.step)
        await step_log.told(self._call, self.step)
        return self._answer()

    # ---- orders ----

    async def _start(self) -> None:
        if self._order.has("label"):
            width = len(str(len(self._plan.places) - 1))
            await self._order_client({"op": "label", "width": width})
        for member in self._plan.members:
            here = member.task == self._home
            order = self._streams.spawn_order(member, None if here else self._call.env)
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

    async def _order_client(self, order: dict[str, Any]) -> None:
        await self._stream.write((wire.ORDER, _encode(order)))

    def _stand_in(self, member: int) -> StandIn | None:
        return self._steps.stand_ins.get(self._plan.job.id, {}).get(member)

    # ---- what is heard ----

    async def _listen(self) -> None:
        """What srun says; when it is gone, its tasks shall be, too."""
        while (frame := await self._stream.read()) is not None:
            if frame.kind == wire.INPUT:
                await self._hand_on(wire.INPUT, self._mark + frame.body)
            else:
                await self.heard(frame.kind, frame.body)
        await self._kill(signals.SIGKILL)
        self._over.set()

    async def heard(self, kind: bytes, body: bytes) -> None:
        if kind == _OUTPUT:
            await self._stream.write((_OUTPUT, body))
        elif kind == wire.EVENT:
            await self._event(msgspec.json.decode(body))

    async def _event(self, event: dict[str, Any]) -> None:
        if event["op"] == "started":
            self.step.pids[event["rank"]] = event["pid"]
        elif event["op"] == "exit":
            await self._ended(event["rank"], event["status"])
        elif event["op"] == "signal":
            await self._asked(event["number"])
        elif event["op"] == "window":
            size = {"rows": event["rows"], "columns": event["columns"]}
            await self._hand_on(wire.ORDER, _encode({"op": "window", "step": self.step.id, **size}))

    async def _asked(self, number: int) -> None:
        """A signal for srun is one for its tasks; whoever repeats it means it."""
        self._interrupts += number in (signals.SIGINT, signals.SIGTERM)
        await self.signal(number if self._interrupts < 2 else signals.SIGKILL)

    async def _ended(self, rank: int, status: int) -> None:
        self._statuses[rank] = status
        if status:
            await self._stream.write((wire.STDERR, self._complaint(rank, status)))
            await self._end_others(status)
        if len(self._statuses) == len(self._plan.places):
            self._over.set()

    async def _end_others(self, status: int) -> None:
        """With ``-K`` one that ends badly takes all others with it; so does one that was killed."""
        left = len(self._statuses) < len(self._plan.places)
        if not left or self._forced or not self._kills_on_bad_exit(status):
            return
        self._forced = True
        if not _signal(status):
            text = f"srun: launch/slurm: _step_signal: Terminating StepId={self._name}\n"
            await self._stream.write((wire.STDERR, text.encode()))
        await self._kill(signals.SIGTERM)

    def _kills_on_bad_exit(self, status: int) -> bool:
        asked = self._order.text("kill-on-bad-exit")
        if self._order.has("kill-on-bad-exit"):
            return asked != "0"
        return bool(_signal(status))

    def _complaint(self, rank: int, status: int) -> bytes:
        node = self._plan.places[rank].member.node
        number = _signal(status)
        what = _SAID.get(number, f"Signal {number}") if number else ""
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
        if number == signals.SIGKILL:
            self._forced = True
        await self._kill(number)

    async def _kill(self, number: int) -> None:
        order = _encode({"op": "signal", "number": int(number), "step": self.step.id})
        if any(member.task == self._home for member in self._plan.members):
            await self._stream.write((wire.ORDER, order))
        await self._hand_on(wire.ORDER, order)

    async def _hand_on(self, kind: bytes, body: bytes) -> None:
        for member in self._plan.members:
            stand_in = self._stand_in(member.task)
            if member.task != self._home and stand_in is not None:
                await stand_in.send((kind, body))

    # ---- the end ----

    def _finish(self) -> None:
        step = self.step
        step.ended_s = self._call.context.host.clock.now_s()
        worst = max(self._statuses.values(), key=code_of, default=0)
        step.signal = _signal(worst)
        step.exit_code = 0 if step.signal else worst >> 8
        step.state = "CANCELLED" if self._forced else "FAILED" if worst else "COMPLETED"

    def _answer(self) -> Answer:
        code = max(map(code_of, self._statuses.values()), default=1)
        text = ""
        if self._forced or any(map(_signal, self._statuses.values())):
            text = f"srun: Force Terminated StepId={self._name}\n"
        return Answer("", text, code)


_SAID: dict[int, str] = {
    signals.SIGKILL: "Killed",
    signals.SIGTERM: "Terminated",
    signals.SIGINT: "Interrupt",
    signals.SIGSEGV: "Segmentation fault",
    signals.SIGABRT: "Aborted",
    signals.SIGBUS: "Bus error",
    signals.SIGFPE: "Floating point exception",
    signals.SIGHUP: "Hangup",
}


def _signal(status: int) -> int:
    return status & 0x7F


def code_of(status: int) -> int:
    """The exit code of srun for a status: that of a shell."""
    return 128 + _signal(status) if _signal(status) else status >> 8
