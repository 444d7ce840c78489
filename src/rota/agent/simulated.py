"""An agent without a machine: all of one but its processes, which are pretended.

It dials, holds its lease and obeys with the code of a real agent. Only its keeper is pretended:
``sleep N`` lasts N seconds, all else is over at once, and of that ``false`` fails. What sleeps
prints a line each second, as far as anybody asks for it.
"""

from __future__ import annotations

import asyncio
import os
import time
from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING

from rota import __version__
from rota.fingerprints import split_token
from rota.node_keys import digest_of, new_key
from rota.rpc.messages import PROTOCOL, Desired, Hello, Observed, SessionRefused, Welcome
from rota.rpc.visits import LogPart, ReadLog
from rota.session import wire
from rota.session.agent import Agent
from rota.session.alarm import Alarm
from rota.session.heartbeat import Heartbeat
from rota.session.instructions import Began, Gone, KeeperAll, Redial, Seek, Signal, Spawn

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from rota.core.facts.node import NodeSpec
    from rota.rpc.messages import AgentMessage, ControllerMessage, Launch
    from rota.session.instructions import Instruction

REDIAL_S = 0.5
#: The most attempts of which an agent knows what they printed.
PRINTING_MAX = 1000
_ENDING = (SIGTERM, SIGKILL)


class SimulatedAgent:
    """One agent without a machine. ``tally`` counts what it and its like have done."""

    def __init__(self, spec: NodeSpec, url: str, token: str, tally: Counter[str]) -> None:
        self._spec = spec
        #: What it shows: the join token, and once it has joined its own key.
        self._url, self._shown = url, token
        self._key = new_key()
        self._tally = tally
        self._agent = Agent()
        self._heartbeat = Heartbeat(self._send, lambda _: None)
        self._link: wire.ControllerLink | None = None
        self._alive: dict[str, tuple[float, asyncio.TimerHandle]] = {}
        #: When attempts began that were started lately, and ended; infinite: they go on.
        self._printing: dict[str, tuple[float, float]] = {}
        self._alarm = Alarm(time.time, self._on_timer)
        self.ready = asyncio.Event()
        self._agent.on_keeper_all(KeeperAll(()), time.time())

    async def hold(self, door: asyncio.Semaphore) -> None:
        """Connected, always."""
        while True:
            try:
                async with door:
                    self._link = await wire.dial(self._url, self._shown, self._on_message)
                    self._agent.on_connected()
                    self._heartbeat.dialled()
                    self._send(self._hello())
                    await self.ready.wait()
                await self._link.closed
            except wire.ControllerAway:
                self._tally["failed dials"] += 1
            finally:
                self.ready.clear()
                self._heartbeat.hung_up()
                self._agent.on_disconnected()
            await asyncio.sleep(REDIAL_S)

    def _hello(self) -> Hello:
        name = self._spec.name
        identity = (f"i-{name}", f"b-{name}", __version__, os.getpid())
        return Hello(PROTOCOL, self._spec, *identity, key=digest_of(self._key))

    def _send(self, message: AgentMessage) -> None:
        if self._link is not None:
            self._link.send(message)

    def _on_message(self, message: ControllerMessage) -> None:
        self._heartbeat.hears(message)
        self._tally["messages heard"] += 1
        if isinstance(message, Desired):
            self._carry_out(self._agent.on_desired(message, time.time()))
        elif isinstance(message, ReadLog):
            self._tally["logs read"] += 1
            self._send(self._read(message))
        elif isinstance(message, Welcome):
            self._tally["sessions"] += 1
            if self._shown:
                self._shown = ".".join(filter(None, (self._key, split_token(self._shown)[1])))
            self.ready.set()
            self._carry_out(self._agent.on_welcome(message))
            self.welcomed(message)
        elif isinstance(message, SessionRefused):
            raise SystemExit(f"{self._spec.name} was refused: {message.reason}")

    def welcomed(self, message: Welcome) -> None:
        """A session has begun."""

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        """What a host does; the pretended keeper answers at once, and in one go."""
        news: list[Began | Gone] = []
        for order in instructions:
            if isinstance(order, Observed):
                self._tally["messages sent"] += 1
                self._send(order)
            elif isinstance(order, Spawn):
                news += self._spawn(order.uid, order.launch)
            elif isinstance(order, Signal) and order.signal in _ENDING:
                news += self._end(order.uid, order.signal)
            elif isinstance(order, Seek):
                # It was started by a process before this one, and went with it.
                news.append(Gone(order.uid, 0.0, time.time(), lost=True))
            elif isinstance(order, Redial) and self._link is not None:
                self._link.close(order.reason)
        if news:
            self._carry_out(self._agent.on_keeper_events(news, time.time()))
        else:
            self._alarm.set(self._agent.next_timer_s())

    def _spawn(self, uid: str, launch: Launch) -> list[Began | Gone]:
        self._tally["starts"] += 1
        now_s = time.time()
        started = Began(uid, 1, 0, now_s)
        length_s, code = self.fate(launch)
        if not length_s:
            return [started, Gone(uid, now_s, now_s, code)]
        loop = asyncio.get_running_loop()
        self._printing[uid] = (now_s, float("inf"))
        if len(self._printing) > PRINTING_MAX:
            del self._printing[next(iter(self._printing))]
        self._alive[uid] = (now_s, loop.call_later(length_s, self._over, uid, code))
        return [started]

    def fate(self, launch: Launch) -> tuple[float, int]:
        """How many seconds it lasts, and its exit code."""
        if launch.argv[0] == "sleep":
            return float(launch.argv[1]), 0
        return 0.0, int(launch.argv[0] == "false")

    def _over(self, uid: str, code: int) -> None:
        self._carry_out(self._agent.on_keeper_events(self._end(uid, 0, code), time.time()))

    def _end(self, uid: str, signal: int, code: int = 0) -> list[Began | Gone]:
        if uid not in self._alive:
            return []
        started_s, timer = self._alive.pop(uid)
        timer.cancel()
        now_s = time.time()
        if uid in self._printing:
            self._printing[uid] = (started_s, now_s)
        return [self.ended(Gone(uid, started_s, now_s, None if signal else code, signal))]

    def ended(self, end: Gone) -> Gone:
        """The end as it is told: with what is known of the attempt."""
        return end

    def _read(self, asked: ReadLog) -> LogPart:
        began_s, ended_s = self._printing.get(asked.uid, (0.0, 0.0))
        text = self.printed(asked.uid, asked.stream, min(time.time(), ended_s) - began_s)
        if asked.lines:
            text = b"".join(text.splitlines(keepends=True)[-asked.lines :])
        first = asked.offset if asked.offset >= 0 else max(0, len(text) + asked.offset)
        return LogPart(asked.request, first, text[first : first + asked.limit], len(text))

    def printed(self, uid: str, stream: str, ran_s: float) -> bytes:
        """What an attempt has written to one of its streams."""
        lines = int(ran_s) if stream == "stdout" else 0
        return b"".join(b"step %d\n" % number for number in range(lines))

    def _on_timer(self) -> None:
        self._carry_out(self._agent.on_timer(time.time()))
