"""An agent whose loop stands still beats on; one that is gone does not."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from websockets.asyncio.server import ServerConnection, serve

from rota.rpc.messages import (
    Beat,
    BeatSeen,
    Desired,
    Hello,
    Observed,
    Resized,
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
        self.beats = self.reports = 0
        #: Of each beat, which report it names, and which one had arrived by then.
        self.named: list[tuple[int, int]] = []
        self.seen: dict[str, Observed] = {}
        self.remarks: list[str] = []
        self.wanted: list[Wanted] = []
        self._changed = asyncio.Condition()
        self._link: ServerConnection | None = None

    async def serve(self, link: ServerConnection) -> None:
        with contextlib.suppress(Exception):
            hello = decode_from_agent(await link.recv())
            assert isinstance(hello, Hello)
            await link.send(encode(Welcome(1, "test", LEASE_S, BEAT_S, answers=hello.greeting)))
            await link.send(encode(Desired(1, 1, tuple(self.wanted), (), True)))
            self._link = link
            async for body in link:
                message = decode_from_agent(body)
                async with self._changed:
                    if isinstance(message, Beat):
                        self.beats += 1
                        self.named.append((message.reported, self.reports))
                        await link.send(encode(BeatSeen(message.session, message.number)))
                    elif isinstance(message, Resized):
                        self.remarks += message.node.remarks[-1:]
                    elif isinstance(message, Observed):
                        self.reports = message.number
                        self.seen |= {item.uid: item for item in message.attempts}
                    self._changed.notify_all()

    async def want(self, wanted: Wanted) -> None:
        """One more attempt, after the first full set."""
        assert self._link is not None
        await self._link.send(encode(Desired(1, 2, (wanted,), ())))

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
def test_a_node_whose_agent_stands_still_is_not_silent_and_its_jobs_go_on():
    """A script is written in the loop: into a pipe that nobody reads, it never is."""
    uid, second = support.of_this_run("still"), support.of_this_run("stuck")

    async def tell() -> None:
        controller = FarController()
        controller.wanted = [shell(uid, "sleep 60")]
        async with far_agent(controller) as (agent, folder):
            await controller.until(lambda: controller.sighting(uid) is Sighting.RUNNING)
            pipe = folder / "scripts" / f"{second}.new"
            os.mkfifo(pipe)
            await controller.want(with_script(shell(second, "true")))
            before, lease = controller.beats, (folder / "lease").read_text()
            beats = int(1.5 * LEASE_S / BEAT_S)
            await controller.until(lambda: controller.beats > before + beats)

            assert controller.sighting(uid) is Sighting.RUNNING
            assert (folder / "lease").read_text() != lease
            await said(agent, b"stands still")
            assert "stands still" in controller.remarks[-1]
            end = os.open(pipe, os.O_RDONLY)
            await said(agent, b"stood still")
            await controller.until(lambda: "stood still" in controller.remarks[-1])
            os.close(end)

    asyncio.run(tell())


@pytest.mark.slow
def test_every_beat_names_the_last_report_that_was_sent_before_it():
    uid = support.of_this_run("named")

    async def tell() -> FarController:
        controller = FarController()
        controller.wanted = [shell(uid, "true")]
        async with far_agent(controller):
            await controller.until(lambda: controller.sighting(uid) is Sighting.ENDED)
            before = controller.beats
            await controller.until(lambda: controller.beats > before)
        return controller

    controller = asyncio.run(tell())

    assert controller.named[-1][1] > 1
    assert [named for named, _ in controller.named] == [had for _, had in controller.named]


def with_script(wanted: Wanted) -> Wanted:
    assert wanted.launch is not None
    launch = msgspec.structs.replace(wanted.launch, script=b"#!/bin/sh\n")
    return msgspec.structs.replace(wanted, launch=launch)


async def said(agent: asyncio.subprocess.Process, words: bytes) -> None:
    assert agent.stderr is not None
    async with asyncio.timeout(DEADLINE_S):
        while words not in await agent.stderr.readline():
            pass


@pytest.mark.slow
def test_an_agent_whose_driver_hangs_goes_on_with_everything_else(tmp_path: Path):
    gpus, hung = tmp_path / "gpus.json", tmp_path / "hung"
    gpus.write_text(json.dumps([{"model": "A100", "memory_mib": 1000}]))
    os.mkfifo(hung)
    uid = support.of_this_run("hung")

    async def tell() -> None:
        controller = FarController()
        async with far_agent(controller, "--gpus-file", str(gpus)) as (agent, _):
            await controller.until(lambda: controller.beats > 1)
            os.rename(hung, gpus)
            # The next look at the devices opens the pipe, and waits for what never comes.
            end = await asyncio.to_thread(os.open, gpus, os.O_WRONLY)
            await controller.want(shell(uid, "true"))
            await controller.until(lambda: controller.sighting(uid) is Sighting.ENDED)
            await said(agent, b"the driver of the devices has not answered")
            os.close(end)

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
