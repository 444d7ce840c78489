"""An agent whose loop stands still beats on; one that is gone does not."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve

from rota.rpc.messages import (
    Beat,
    BeatSeen,
    Desired,
    Hello,
    Observed,
    Sighting,
    Wanted,
    Welcome,
    decode_from_agent,
    encode,
)
from tests.agent import support
from tests.agent.controllers import DEADLINE_S, shell

LEASE_S, BEAT_S = 6.0, 0.3


class FarController:
    """Takes an agent in over TCP, with a lease, and answers its beats."""

    def __init__(self) -> None:
        self.beats = 0
        self.seen: dict[str, Observed] = {}
        self.wanted: list[Wanted] = []
        self._changed = asyncio.Condition()

    async def serve(self, link: ServerConnection) -> None:
        with contextlib.suppress(Exception):
            assert isinstance(decode_from_agent(await link.recv()), Hello)
            await link.send(encode(Welcome(1, "test", LEASE_S, BEAT_S)))
            await link.send(encode(Desired(1, 1, tuple(self.wanted), (), True)))
            async for body in link:
                message = decode_from_agent(body)
                async with self._changed:
                    if isinstance(message, Beat):
                        self.beats += 1
                        await link.send(encode(BeatSeen(message.session, message.number)))
                    elif isinstance(message, Observed):
                        self.seen |= {item.uid: item for item in message.attempts}
                    self._changed.notify_all()

    async def until(self, what) -> None:
        async with asyncio.timeout(DEADLINE_S), self._changed:
            await self._changed.wait_for(what)

    def sighting(self, uid: str) -> Sighting | None:
        return self.seen[uid].sighting if uid in self.seen else None


@contextlib.asynccontextmanager
async def far_agent(
    controller: FarController, *options: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, Path]]:
    with support.folder() as state:
        async with serve(controller.serve, "127.0.0.1", 0, compression=None) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            agent = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "rota.agent", "--state-dir", str(state)),
                *("--url", f"http://127.0.0.1:{port}", *options),
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                yield agent, state / "agent"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    agent.kill()
                await agent.communicate()
                support.Keeper(state / "agent").clean_up()


@pytest.mark.slow
def test_a_node_whose_agent_stands_still_is_not_silent_and_its_jobs_go_on(tmp_path: Path):
    """What its driver says of the devices never comes: that was looked at in the loop."""
    gpus, hung = tmp_path / "gpus.json", tmp_path / "hung"
    gpus.write_text(json.dumps([{"model": "A100", "memory_mib": 1000}]))
    os.mkfifo(hung)
    uid = support.of_this_run("still")

    async def tell() -> None:
        controller = FarController()
        controller.wanted = [shell(uid, "sleep 60")]
        async with far_agent(controller, "--gpus-file", str(gpus)) as (agent, folder):
            await controller.until(lambda: controller.sighting(uid) is Sighting.RUNNING)
            os.rename(hung, gpus)
            # The next look at the devices opens the pipe, and waits for somebody at its other end.
            end = await asyncio.to_thread(os.open, gpus, os.O_WRONLY)
            before, lease = controller.beats, (folder / "lease").read_text()
            beats = int(1.5 * LEASE_S / BEAT_S)
            await controller.until(lambda: controller.beats > before + beats)

            assert controller.sighting(uid) is Sighting.RUNNING
            assert (folder / "lease").read_text() != lease
            assert agent.stderr is not None
            async with asyncio.timeout(DEADLINE_S):
                while b"stands still" not in await agent.stderr.readline():
                    pass
            os.write(end, b"[]")
            os.close(end)
            async with asyncio.timeout(DEADLINE_S):
                while b"stood still" not in await agent.stderr.readline():
                    pass

    asyncio.run(tell())


def test_an_agent_that_was_killed_beats_no_more(tmp_path: Path):
    async def tell() -> None:
        controller = FarController()
        async with far_agent(controller) as (agent, _):
            await controller.until(lambda: controller.beats > 1)
            agent.kill()
            await agent.communicate()
            before = controller.beats
            await asyncio.sleep(4 * BEAT_S)

            assert controller.beats <= before + 1

    asyncio.run(tell())
