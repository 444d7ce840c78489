"""Files of users that answer late or never cost their readers something, and nobody else."""

import asyncio
import contextlib
import ctypes
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.agent.visits.logs import LIMIT_S
from rota.rpc.messages import encode
from rota.rpc.visits import ReadLog, SearchLog
from tests.agent.controllers import Scene, shell
from tests.agent.test_host import story
from tests.support.machine import missing

_libc = ctypes.CDLL(None, use_errno=True)
DETACH = 2
TERABYTES = 2 << 40


@contextlib.contextmanager
def mounted_and_mute() -> Iterator[Path]:
    """A file system whose server never answers."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            server = os.open("/dev/fuse", os.O_RDWR)
        except OSError:
            missing("needs FUSE")
        options = f"fd={server},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if _libc.mount(b"mute", folder.encode(), b"fuse.mute", 0, options) != 0:
            os.close(server)
            missing("needs the right to mount")
        try:
            yield Path(folder)
        finally:
            _libc.umount2(folder.encode(), DETACH)
            os.close(server)


@pytest.mark.root
@story
async def test_a_log_on_a_hung_file_system_costs_its_reader_an_answer_and_nobody_anything(
    here: Scene,
):
    await here.start_agent()
    await here.controller.want(shell("u1", "echo mine"))
    await here.controller.ended("u1")
    link = here.controller._link
    assert link is not None

    with mounted_and_mute() as folder:
        for number in range(900, 906):
            path = str(folder / "out")
            await link.send(
                encode(ReadLog(number, "u2", "stdout", 0, 100, path=path, user="nobody"))
            )
        began_s = time.monotonic()
        await here.controller.want(shell("u3", "echo other"))
        await here.controller.ended("u3")
        other = await here.controller.log("u3")
        took_s = time.monotonic() - began_s
        asked = await here.controller.until(lambda: here.controller._parts.get(900))
        late = await here.controller.until(lambda: here.controller._parts.get(905))

    assert other.body == b"other\n"
    assert took_s < LIMIT_S
    assert "not in time" in asked.error
    assert "not in time" in late.error


@story
async def test_the_last_lines_of_a_file_of_terabytes_that_nobody_wrote_are_there_at_once(
    here: Scene, tmp_path: Path
):
    await here.start_agent()
    script = f"truncate -s {TERABYTES} /proc/self/fd/1; echo end"
    await here.controller.want(shell("u1", script, stdout="sparse", workdir=str(tmp_path)))
    await here.controller.ended("u1")
    os.truncate(tmp_path / "sparse", 2 * TERABYTES)
    path = str(tmp_path / "sparse")
    began_s = time.monotonic()

    last = await here.controller.log("u1", path=path, user="root", lines=1)
    whole = await here.controller.log("u1", path=path, user="root")
    behind = await here.controller.log("u1", path=path, user="root", offset=TERABYTES + 4096)

    assert time.monotonic() - began_s < LIMIT_S
    assert last.body.rstrip(b"\0") == b"end\n"
    assert whole.body.strip(b"\0") == b"end\n"
    assert (behind.body, behind.size) == (b"", 2 * TERABYTES)


@story
async def test_a_search_passes_over_terabytes_that_nobody_wrote(here: Scene, tmp_path: Path):
    await here.start_agent()
    with (tmp_path / "sparse").open("wb") as file:
        file.write(b"first\n")
        file.seek(TERABYTES)
        file.write(b"\nneedle\n")
    link = here.controller._link
    assert link is not None

    order = SearchLog(7, "u1", "stdout", "needle", path=str(tmp_path / "sparse"), user="root")
    await link.send(encode(order))
    found = await here.controller.until(lambda: here.controller._parts.get(7))

    assert [(line.number, line.body) for line in found.lines] == [(3, b"needle\n")]
    assert found.over


@story
async def test_a_pipe_that_a_job_names_as_its_output_holds_nobody(here: Scene, tmp_path: Path):
    await here.start_agent()
    os.mkfifo(tmp_path / "pipe")

    async with asyncio.timeout(LIMIT_S):
        part = await here.controller.log("u1", path=str(tmp_path / "pipe"), user="root")

    assert part.error == f"{tmp_path}/pipe: not a regular file"
