"""Many agents in one process, for load on a real controller: all of an agent but its processes.

Each one dials, holds its lease and obeys with the code of a real agent. Only its keeper is
pretended: ``sleep N`` lasts N seconds, all else is over at once, and of that ``false`` fails.

    (cat token; cat) | python -m rota.testing.swarm --url https://127.0.0.1:7340 --agents 500

It prints ``ready`` when all are connected, and when its input ends what it did, as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING

import uvloop

from rota import __version__
from rota.core.facts.node import Device, NodeSpec
from rota.fingerprints import split_token
from rota.node_keys import digest_of, new_key
from rota.rpc.messages import PROTOCOL, Desired, Hello, Observed, Refused, Welcome
from rota.session import wire
from rota.session.agent import Agent
from rota.session.alarm import Alarm
from rota.session.heartbeat import Heartbeat
from rota.session.instructions import Ended, KeeperAll, Redial, Signal, Spawn, Started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.rpc.messages import AgentMessage, ControllerMessage, Launch
    from rota.session.instructions import Instruction

#: So many dial at a time: a crowd at the door would run into the time-out of the last.
DIALLING_MAX = 25
REDIAL_S = 0.5
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
            except wire.Unreachable:
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
        elif isinstance(message, Welcome):
            self._tally["sessions"] += 1
            if self._shown:
                self._shown = ".".join(filter(None, (self._key, split_token(self._shown)[1])))
            self.ready.set()
            self._carry_out(self._agent.on_welcome(message))
        elif isinstance(message, Refused):
            raise SystemExit(f"{self._spec.name} was refused: {message.reason}")

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        """What a host does; the pretended keeper answers at once, and in one go."""
        news: list[Started | Ended] = []
        for order in instructions:
            if isinstance(order, Observed):
                self._tally["messages sent"] += 1
                self._send(order)
            elif isinstance(order, Spawn):
                news += self._spawn(order.uid, order.launch)
            elif isinstance(order, Signal) and order.signal in _ENDING:
                news += self._end(order.uid, order.signal)
            elif isinstance(order, Redial) and self._link is not None:
                self._link.close(order.reason)
        if news:
            self._carry_out(self._agent.on_keeper_events(news, time.time()))
        else:
            self._alarm.set(self._agent.next_timer_s())

    def _spawn(self, uid: str, launch: Launch) -> list[Started | Ended]:
        self._tally["starts"] += 1
        now_s = time.time()
        started = Started(uid, 1, 0, now_s)
        if launch.argv[0] != "sleep":
            return [started, Ended(uid, now_s, now_s, int(launch.argv[0] == "false"))]
        loop = asyncio.get_running_loop()
        self._alive[uid] = (now_s, loop.call_later(float(launch.argv[1]), self._over, uid))
        return [started]

    def _over(self, uid: str) -> None:
        self._carry_out(self._agent.on_keeper_events(self._end(uid, 0), time.time()))

    def _end(self, uid: str, signal: int) -> list[Started | Ended]:
        if uid not in self._alive:
            return []
        started_s, timer = self._alive.pop(uid)
        timer.cancel()
        return [Ended(uid, started_s, time.time(), None if signal else 0, signal)]

    def _on_timer(self) -> None:
        self._carry_out(self._agent.on_timer(time.time()))


async def swarm(url: str, token: str, specs: Sequence[NodeSpec]) -> Counter[str]:
    """Connect an agent for each of these nodes and keep them until our input ends."""
    tally: Counter[str] = Counter()
    door = asyncio.Semaphore(DIALLING_MAX)
    agents = [SimulatedAgent(spec, url, token, tally) for spec in specs]
    tasks = [asyncio.create_task(agent.hold(door)) for agent in agents]
    for agent in agents:
        await agent.ready.wait()
    _say("ready")
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return tally


def specs_of(count: int, cpus: int, first: int = 0, gpus: int = 0) -> list[NodeSpec]:
    """Equal nodes, numbered from ``first``."""
    names = [f"sim{number:04}" for number in range(first, first + count)]
    return [
        NodeSpec(
            name=name,
            cpu_milli=cpus * 1000,
            memory_mib=cpus * 4096,
            devices=tuple(
                Device(index=i, uuid=f"{name}-{i}", model="H100", memory_mib=81920, fake=True)
                for i in range(gpus)
            ),
        )
        for name in names
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="swarm", description=__doc__)
    parser.add_argument("--url", required=True, help="unix:///path/rota.sock or http(s)://host")
    parser.add_argument("--agents", type=int, default=500)
    parser.add_argument("--cpus", type=int, default=4, help="of each node")
    parser.add_argument("--gpus", type=int, default=0, help="of each node")
    parser.add_argument("--first", type=int, default=0, help="the number of the first node")
    options = parser.parse_args()
    # On the command line everybody could read it.
    token = sys.stdin.readline().strip()
    specs = specs_of(options.agents, options.cpus, options.first, options.gpus)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        tally = runner.run(swarm(options.url, token, specs))
    _say(json.dumps(tally))
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
