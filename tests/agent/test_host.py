"""The live agent as a process, between a real keeper and a real WebSocket."""

import asyncio
import json
import os
import re
import signal
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path

import pytest

from rota.core.facts.node import ForeignUse
from rota.core.facts.states import Cause
from rota.rpc.messages import PROTOCOL, Sighting
from tests.agent.controllers import Scene, order, scene, shell
from tests.agent.hurdles import HOLD_FILE, background, own_program
from tests.agent.support import is_running, of_this_run, wait_until


def story(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an asynchronous test in a scene of its own."""

    @wraps(test)
    def run(**fixtures: object) -> None:
        async def tell() -> None:
            async with scene() as here:
                await test(here, **fixtures)

        asyncio.run(tell())

    # pytest must not take the scene for a fixture.
    run.__signature__ = _without_scene(test)  # type: ignore[attr-defined]
    return run


def _without_scene(test: Callable[..., object]) -> object:
    import inspect

    signature = inspect.signature(test)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


@story
async def test_a_job_runs_and_its_output_can_be_read(here: Scene):
    await here.start_agent("--name", "n1", "--label", "zone=a")

    await here.controller.want(shell("u1", "echo one; echo two; echo oops >&2; exit 3"))

    ended = await here.controller.ended("u1")
    assert (ended.exit_code, ended.cause, ended.signal) == (3, None, 0)
    assert (await here.controller.log("u1")).body == b"one\ntwo\n"
    assert (await here.controller.log("u1", lines=1)).body == b"two\n"
    assert (await here.controller.log("u1", "stderr")).body == b"oops\n"
    hello = here.controller.hellos[0]
    assert (hello.protocol, hello.node.name, hello.node.labels["zone"]) == (PROTOCOL, "n1", "a")


@story
async def test_scripts_get_their_arguments_and_input(here: Scene):
    await here.start_agent()

    await here.controller.want(
        order("bash", "a b", "c", script=b'#!/bin/bash\necho "$1-$2-$#"; cat', stdin=b"typed"),
        order("plain", "x", script=b'echo "plain $1"'),
    )

    await here.controller.ended("bash")
    await here.controller.ended("plain")
    assert (await here.controller.log("bash")).body == b"a b-c-2\ntyped"
    assert (await here.controller.log("plain")).body == b"plain x\n"
    await here.controller.let_go("bash", "plain")
    wait_until(lambda: not list((here.state / "agent" / "scripts").iterdir()))


@story
async def test_a_chosen_output_path_is_written_and_read(here: Scene, tmp_path: Path):
    await here.start_agent()

    await here.controller.want(
        order("u1", "echo", "hi", stdout="out.txt", workdir=str(tmp_path))
    )  # fmt: skip

    await here.controller.ended("u1")
    part = await here.controller.log("u1", path=str(tmp_path / "out.txt"), user="root")
    assert part.body == b"hi\n"


@story
async def test_jobs_and_exit_codes_survive_the_death_of_the_agent(here: Scene, tmp_path: Path):
    await here.start_agent()
    await here.controller.want(
        shell("u1", f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; exit 6")
    )
    pid = (await here.controller.running("u1")).pid

    await here.kill_agent()
    (tmp_path / "go").touch()
    wait_until(lambda: not is_running(pid))
    await here.start_agent()

    assert (await here.controller.ended("u1")).exit_code == 6
    first, second = here.controller.hellos
    assert first.incarnation == second.incarnation


@story
async def test_a_killed_keeper_is_replaced_and_its_jobs_adopted(here: Scene):
    adopted = of_this_run("u1")
    await here.start_agent()
    await here.controller.want(order(adopted, "sleep", "60"))
    pid = (await here.controller.running(adopted)).pid
    before = here.keeper_pid

    os.kill(before, signal.SIGKILL)
    await here.controller.want(order("u2", "true"))

    assert (await here.controller.ended("u2")).exit_code == 0
    assert here.keeper_pid != before
    assert is_running(pid)
    await here.controller.stop(adopted, Cause.CANCELLED)
    ended = await here.controller.ended(adopted)
    assert ended.cause is Cause.NODE_LOST
    assert not is_running(pid)


@story
async def test_a_job_whose_keeper_was_killed_and_lost_its_journal_goes_on_and_can_be_ended(
    here: Scene,
):
    sought = of_this_run("sought")
    await here.start_agent()
    await here.controller.want(order(sought, "sleep", "60"))
    pid = (await here.controller.running(sought)).pid

    (here.state / "agent" / "journal").unlink()
    os.kill(here.keeper_pid, signal.SIGKILL)
    await here.controller.want(order("u2", "true"))
    await here.controller.ended("u2")

    assert here.controller.sightings[sought].sighting is Sighting.RUNNING
    assert is_running(pid)
    await here.controller.stop(sought, Cause.CANCELLED)
    await here.controller.ended(sought)
    assert not is_running(pid)


@story
async def test_an_agent_that_comes_after_the_journal_was_lost_finds_what_runs(here: Scene):
    sought = of_this_run("unseen")
    await here.start_agent()
    await here.controller.want(order(sought, "sleep", "60"))
    pid = (await here.controller.running(sought)).pid
    await here.kill_agent()
    (here.state / "agent" / "journal").unlink()
    os.kill(here.keeper_pid, signal.SIGKILL)
    here.controller.sightings.clear()

    await here.start_agent()

    assert (await here.controller.running(sought)).pid == pid


class OldKeeper:
    """Speaks the first protocol, and has one job."""

    def __init__(self) -> None:
        self.orders: list[dict[str, object]] = []
        self.job_ends = asyncio.Event()

    async def serve(self, read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        known = {"uid": "old", "phase": "running", "pid": 2}
        write.write(json.dumps({"ev": "all", "protocol": 1, "attempts": [known]}).encode() + b"\n")
        hearing = asyncio.create_task(self._hear(read, write))
        await self.job_ends.wait()
        end = {"ev": "ended", "uid": "old", "started_s": 1.0, "ended_s": 2.0, "code": 3}
        write.write(json.dumps(end).encode() + b"\n")
        await hearing

    async def _hear(self, read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        while line := await read.readline():
            self.orders.append(json.loads(line))
            if self.orders[-1]["op"] == "exit":
                self.listener.close()
                os.unlink(self.socket)
                write.close()

    async def listen(self, folder: Path) -> None:
        os.mkdir(folder)
        self.socket = str(folder / "keeper.sock")
        self.listener = await asyncio.start_unix_server(self.serve, self.socket)


@story
async def test_a_keeper_of_another_version_starts_nothing_and_leaves_after_its_last_job(
    here: Scene,
):
    keeper = OldKeeper()
    await keeper.listen(here.state / "agent")
    here.controller.expect("old")
    await here.start_agent()

    await here.controller.want(order("early", "true"))
    early = await here.controller.ended("early")
    keeper.job_ends.set()
    old = await here.controller.ended("old")
    await asyncio.to_thread(wait_until, (here.state / "agent" / "keeper.json").exists)
    await here.controller.want(order("late", "true"))

    assert early.cause is Cause.START_FAILED
    assert early.detail.startswith("the keeper of this node is of another version of rota")
    assert old.exit_code == 3
    assert "spawn" not in {one["op"] for one in keeper.orders}
    assert (await here.controller.ended("late")).exit_code == 0


@story
async def test_a_stop_reaches_a_start_that_hangs(here: Scene, tmp_path: Path):
    program = own_program(tmp_path, "held")
    await here.start_agent()

    with background(HOLD_FILE, str(program)):
        await here.controller.want(order("u1", str(program), "0"))
        wait_until(lambda: b"u1" in (here.state / "agent" / "journal").read_bytes())
        await here.controller.stop("u1", Cause.CANCELLED)
        ended = await here.controller.ended("u1")

    assert ended.signal == signal.SIGKILL


@story
async def test_an_agent_told_to_leave_leaves_its_jobs_alone(here: Scene):
    await here.start_agent()
    await here.controller.want(order("u1", "sleep", "60"))
    pid = (await here.controller.running("u1")).pid

    code = await here.kill_agent(signal.SIGTERM)

    assert code == 0
    assert is_running(pid)
    assert is_running(here.keeper_pid)
    assert not (here.state / "agent" / "agent.json").exists()


@story
async def test_a_second_agent_is_refused_in_one_line(here: Scene):
    await here.start_agent()
    assert here.agent is not None

    second = await here.run_agent()
    _, message = await second.communicate()

    assert second.returncode == 1
    expected = f"another agent (pid {here.agent.pid}) already runs on {here.state}/agent"
    assert message.decode() == f"rota agent: {expected}\n"


@story
async def test_a_cut_connection_is_dialled_again(here: Scene):
    await here.start_agent()
    await here.controller.want(order("u1", "sleep", "60"))
    pid = (await here.controller.running("u1")).pid

    await here.controller.hang_up()

    assert (await here.controller.running("u1")).pid == pid
    assert here.controller.session == 2


@story
async def test_a_job_above_its_memory_is_killed_and_told_why(here: Scene):
    await here.start_agent()
    hungry = "import time; x = bytearray(120 << 20); x[::4096] = b'x' * len(x[::4096])"

    await here.controller.want(
        shell("u1", f'python3 -c "{hungry}; time.sleep(300)" & wait', memory_mib=64),
        shell("u2", "sleep 60", memory_mib=64),
    )

    ended = await here.controller.ended("u1")
    assert ended.cause is Cause.OUT_OF_MEMORY
    assert re.fullmatch(r"used \d+M of 64M", ended.detail)
    assert ended.peak_memory_mib > 64
    assert is_running((await here.controller.running("u2")).pid)


@story
async def test_a_job_that_ignores_the_request_is_killed_after_its_grace(here: Scene):
    await here.start_agent()
    await here.controller.want(
        shell("u1", "trap '' TERM; echo ready; while :; do sleep 0.05; done", grace_s=0.2)
    )
    await here.controller.running("u1")
    log = here.state / "agent" / "logs" / "u1.out"
    wait_until(lambda: log.exists() and log.read_text())

    await here.controller.stop("u1", Cause.CANCELLED)

    assert (await here.controller.ended("u1")).signal == signal.SIGKILL


@story
async def test_use_of_devices_by_others_is_told(here: Scene, tmp_path: Path):
    file = tmp_path / "gpus.json"
    use = {"pid": 1, "user": "eve", "memory_mib": 100}
    file.write_text(json.dumps([{"model": "A100"}, {"model": "A100", "foreign": [use]}]))

    await here.start_agent("--gpus-file", str(file))

    assert here.controller.hellos[0].foreign == (ForeignUse(1, 1, "eve", 100),)
    assert [device.model for device in here.controller.hellos[0].node.devices] == ["A100", "A100"]


@story
async def test_a_uid_that_is_no_file_name_fails_to_start(here: Scene):
    await here.start_agent()

    await here.controller.want(order("../u1", "true"))

    ended = await here.controller.ended("../u1")
    assert ended.cause is Cause.START_FAILED
    assert "letters, digits" in ended.detail


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--gpus-file", "/no/file"],
         "rota agent: agent.fake_gpus: /no/file: No such file or directory; "
         "expected a number of GPUs or a file\n"),
        (["--cgroup-root", "/no/cgroup"],
         "rota agent: cgroup root /no/cgroup: No such file or directory\n"),
    ],
)  # fmt: skip
@story
async def test_what_cannot_be_used_is_told_in_one_line(
    here: Scene, options: list[str], complaint: str
):
    agent = await here.run_agent(*options)
    _, message = await agent.communicate()

    assert (agent.returncode, message.decode()) == (1, complaint)


@story
async def test_an_agent_that_breaks_down_does_not_end_as_if_all_were_well(here: Scene):
    agent = await here.run_agent("--url", "nowhere:8082")
    _, message = await agent.communicate()

    assert agent.returncode == 1
    assert message.decode().endswith("rota agent: it broke down; its log says why\n")
