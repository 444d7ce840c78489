"""A controller for one agent: a real WebSocket, with a test in the place of the ticks."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from websockets.asyncio.server import ServerConnection, unix_serve

from rota.rpc.messages import (
    AgentMessage,
    Desired,
    DeviceUse,
    Hello,
    Launch,
    LogPart,
    Observed,
    ReadLog,
    Seen,
    Sighting,
    Wanted,
    Welcome,
    decode_from_agent,
    encode,
)
from tests.agent import support

#: Only against hanging for ever.
DEADLINE_S = 60.0


def order(uid: str, *argv: str, **fields: Any) -> Wanted:
    """An attempt that should be started."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/"}
    settings = {"user": "", "workdir": "/tmp", "grace_s": 5.0} | fields
    return Wanted(uid, Launch(uid, 1, argv=argv, environment=environment, **settings))


def shell(uid: str, script: str, **fields: Any) -> Wanted:
    return order(uid, "/bin/sh", "-c", script, **fields)


class Controller:
    """Speaks with the agent that dialled last."""

    def __init__(self) -> None:
        self.sightings: dict[str, Seen] = {}
        self.foreign: DeviceUse | None = None
        self.hellos: list[Hello] = []
        self.fulls = 0
        self.session = 0
        self._number = 0
        self._parts: dict[int, LogPart] = {}
        self._changed = asyncio.Condition()
        self._wanted: dict[str, Wanted] = {}
        self._link: ServerConnection | None = None

    async def serve(self, link: ServerConnection) -> None:
        with contextlib.suppress(Exception):
            hello = decode_from_agent(await link.recv())
            assert isinstance(hello, Hello)
            self._link, self._number = link, 0
            self.session += 1
            await link.send(encode(Welcome(self.session, "test", answers=hello.greeting)))
            await self._send(tuple(self._wanted.values()), (), full=True)
            await self._note(hello)
            async for body in link:
                await self._note(decode_from_agent(body))

    async def _note(self, message: AgentMessage) -> None:
        async with self._changed:
            if isinstance(message, Hello):
                self.hellos.append(message)
            elif isinstance(message, Observed):
                assert message.session == self.session
                self.fulls += message.full
                self.sightings |= {item.uid: item for item in message.attempts}
            elif isinstance(message, DeviceUse):
                self.foreign = message
            else:
                self._parts[message.request] = message
            self._changed.notify_all()

    async def _send(
        self, wanted: tuple[Wanted, ...], gone: tuple[str, ...], *, full: bool = False
    ) -> None:
        assert self._link is not None
        self._number += 1
        await self._link.send(encode(Desired(self.session, self._number, wanted, gone, full)))

    def expect(self, uid: str) -> None:
        """It was started before the first agent came."""
        self._wanted[uid] = Wanted(uid, started=True)

    async def want(self, *wanted: Wanted) -> None:
        self._wanted |= {item.uid: item for item in wanted}
        await self._send(wanted, ())

    async def stop(self, uid: str, cause: Any) -> None:
        self._wanted[uid] = Wanted(uid, started=True, stop=cause)
        await self._send((self._wanted[uid],), ())

    async def let_go(self, *uids: str) -> None:
        for uid in uids:
            self._wanted.pop(uid, None)
        await self._send((), uids)

    async def hang_up(self) -> None:
        """And wait until the agent is back, and has told everything anew."""
        assert self._link is not None
        fulls = self.fulls
        await self._link.close()
        await self.until(lambda: self.fulls > fulls)

    async def until(self, what: Any) -> Any:
        try:
            async with asyncio.timeout(DEADLINE_S), self._changed:
                await self._changed.wait_for(lambda: bool(what()))
        except TimeoutError:
            saw = f"session {self.session}, {self.fulls} full reports, {self.sightings}"
            raise AssertionError(f"waited {DEADLINE_S:g} s in vain; the agent told {saw}") from None
        return what()

    async def running(self, uid: str) -> Seen:
        return await self._seen(uid, Sighting.RUNNING)

    async def ended(self, uid: str) -> Seen:
        return await self._seen(uid, Sighting.ENDED)

    async def _seen(self, uid: str, sighting: Sighting) -> Seen:
        def find() -> Seen | None:
            item = self.sightings.get(uid)
            return item if item is not None and item.sighting is sighting else None

        seen = await self.until(find)
        assert isinstance(seen, Seen)
        # What the real controller would have on its disk by now.
        if uid in self._wanted:
            self._wanted[uid] = Wanted(uid, started=True, stop=self._wanted[uid].stop)
        return seen

    async def log(self, uid: str, stream: str = "stdout", **fields: Any) -> LogPart:
        request = len(self._parts) + 1
        settings = {"offset": 0, "limit": 1 << 16} | fields
        assert self._link is not None
        await self._link.send(encode(ReadLog(request, uid, stream, **settings)))
        await self.until(lambda: request in self._parts)
        return self._parts[request]


class Scene:
    """A state folder, a controller and, when told so, an agent process."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.controller = Controller()
        self.agent: asyncio.subprocess.Process | None = None

    @property
    def keeper_pid(self) -> int:
        return int(json.loads((self.state / "agent" / "keeper.json").read_text())["pid"])

    async def start_agent(self, *options: str) -> None:
        """Start one and wait until both sides agree on a starting point."""
        fulls = self.controller.fulls
        self.agent = await self.run_agent(*options)
        await self.controller.until(lambda: self.controller.fulls > fulls)

    async def run_agent(self, *options: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rota.agent", "--state-dir", str(self.state)),
            *("--url", f"unix://{self.state}/rota.sock", *options),
            stderr=asyncio.subprocess.PIPE,
        )

    async def kill_agent(self, number: int = signal.SIGKILL) -> int:
        assert self.agent is not None
        self.agent.send_signal(number)
        await self.agent.communicate()
        assert self.agent.returncode is not None
        return self.agent.returncode


@contextlib.asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    with support.folder() as state:
        one = Scene(state)
        async with unix_serve(one.controller.serve, str(state / "rota.sock"), compression=None):
            try:
                yield one
            finally:
                if one.agent is not None and one.agent.returncode is None:
                    await one.kill_agent()
                if (state / "agent").exists():
                    support.Keeper(state / "agent").clean_up()
