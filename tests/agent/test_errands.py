"""What an agent does around an attempt: folders for saved work, copies of it, containers."""

import asyncio
import hashlib
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from rota.agent.files.spare_folders import SPARE
from rota.core.facts.states import Blame, Cause
from rota.rpc.messages import (
    BundlePart,
    CheckpointAnswer,
    DropCheckpoint,
    ListCheckpoints,
    NoteCheckpoint,
    ReadBundle,
    Saved,
    Wanted,
    encode,
)
from tests.agent.controllers import Controller, Scene, order, shell
from tests.agent.test_host import story
from tests.support.machine import small_disk

FAKE_PODMAN = """#!/bin/sh
# Not podman: notes its arguments, then runs what stands behind the image.
for word in "$@"; do echo "$word"; done > "$FAKE_PODMAN_LOG"
while [ "$1" != the/image:1 ]; do shift; done
shift
exec "$@"
"""


async def ask(controller: Controller, message: Any) -> CheckpointAnswer:
    assert controller._link is not None
    await controller._link.send(encode(message))
    await controller.until(lambda: message.request in controller._parts)
    answer: Any = controller._parts[message.request]
    return answer


def saving(uid: str, script: str, saved: Saved) -> Wanted:
    wanted = shell(uid, script, checkpoint=saved)
    assert wanted.launch is not None
    wanted.launch.environment.update(
        {"ROTA_CHECKPOINT_DIR": saved.folder, "ROTA_RESUME": "0", "ROTA_NUM_TASKS": "1"}
    )
    return wanted


@story
async def test_the_folder_is_there_when_the_job_starts_and_a_later_try_finds_its_files(
    here: Scene, tmp_path: Path
):
    await here.start_agent()
    folder = str(tmp_path / "root" / "7-abc")
    line = 'cd "$ROTA_CHECKPOINT_DIR"; echo "$ROTA_RESUME $(cat step)"; echo 5 > step'

    await here.controller.want(saving("u1", line, Saved(folder)))
    await here.controller.ended("u1")
    await here.controller.want(saving("u2", line, Saved(folder, attempt=2)))
    await here.controller.ended("u2")

    assert (await here.controller.log("u1")).body == b"0 \n"
    assert (await here.controller.log("u2")).body == b"1 5\n"


def saved_by_jobs(root: Path) -> list[Path]:
    """An empty folder may be kept for the next job."""
    return [folder for folder in root.iterdir() if not folder.name.startswith(SPARE)]


@story
async def test_the_folder_of_a_job_that_saved_nothing_goes_with_it(here: Scene, tmp_path: Path):
    await here.start_agent()
    saved = Saved(str(tmp_path / "root" / "7-abc"))

    await here.controller.want(saving("u1", 'test -d "$ROTA_CHECKPOINT_DIR"', saved))

    assert (await here.controller.ended("u1")).exit_code == 0
    assert not saved_by_jobs(tmp_path / "root")


@story
async def test_a_folder_that_cannot_be_made_stops_only_a_job_that_goes_on_from_there(
    here: Scene, tmp_path: Path
):
    await here.start_agent()
    (tmp_path / "file").write_text("in the way")
    saved = Saved(str(tmp_path / "file" / "7-abc"))
    resumed = saving("u2", "true", saved)
    assert resumed.launch is not None
    resumed.launch.environment["ROTA_RESUME"] = "1"

    await here.controller.want(saving("u1", "echo runs", saved), resumed)

    first, second = await here.controller.ended("u1"), await here.controller.ended("u2")
    assert first.exit_code == 0
    assert second.cause is Cause.START_FAILED
    assert second.detail == f"checkpoint folder {tmp_path}/file: it is a link or no folder"


@story
async def test_saved_work_is_copied_before_an_end_is_told_and_fetched_before_the_next_start(
    here: Scene, tmp_path: Path
):
    await here.start_agent()
    store = f"file://{tmp_path}/store/7-abc"
    line = 'cd "$ROTA_CHECKPOINT_DIR"; cat step; echo "$ROTA_RESUME"; echo 5 > step'

    await here.controller.want(saving("u1", line, Saved(str(tmp_path / "a" / "7-abc"), store)))
    await here.controller.ended("u1")
    there_at_the_end = (tmp_path / "store" / "7-abc" / "manifest.json").exists()
    elsewhere = Saved(str(tmp_path / "b" / "7-abc"), store, attempt=2)
    await here.controller.want(saving("u2", line, elsewhere))
    await here.controller.ended("u2")

    assert there_at_the_end
    assert (await here.controller.log("u2")).body == b"5\n1\n"


@story
async def test_an_agent_that_was_killed_copies_what_its_jobs_saved_meanwhile(
    here: Scene, tmp_path: Path
):
    await here.start_agent()
    saved = Saved(str(tmp_path / "a" / "7-abc"), f"file://{tmp_path}/store/7-abc")
    go_on = tmp_path / "go-on"
    line = f'while [ ! -e {go_on} ]; do sleep 0.02; done; echo 9 > "$ROTA_CHECKPOINT_DIR/step"'
    await here.controller.want(saving("u1", line, saved))
    await here.controller.running("u1")

    await here.kill_agent()
    go_on.touch()
    await here.start_agent()

    assert (await here.controller.ended("u1")).exit_code == 0
    manifest = json.loads((tmp_path / "store" / "7-abc" / "manifest.json").read_text())
    assert list(manifest["files"]) == ["step"]


@story
async def test_a_copy_that_cannot_be_fetched_is_the_reason_of_the_failed_start(
    here: Scene, tmp_path: Path
):
    await here.start_agent()
    saved = Saved(str(tmp_path / "a" / "7-abc"), "gopher://nowhere/7-abc", attempt=2)

    await here.controller.want(saving("u1", "true", saved))

    ended = await here.controller.ended("u1")
    assert ended.cause is Cause.START_FAILED
    assert "checkpoint store gopher://nowhere/7-abc" in ended.detail


@story
async def test_saved_work_is_noted_listed_and_dropped(here: Scene, tmp_path: Path):
    await here.start_agent()
    saved = Saved(str(tmp_path / "root" / "7-abc"), f"file://{tmp_path}/store/7-abc")
    line = 'cd "$ROTA_CHECKPOINT_DIR"; echo old > step-1; echo new > step-2'
    await here.controller.want(saving("u1", line, saved))
    await here.controller.ended("u1")

    await ask(here.controller, NoteCheckpoint(101, saved, b'{"step": 2}', ("step-1",)))
    listed = await ask(here.controller, ListCheckpoints(102, str(tmp_path / "root"), ("7-abc",)))
    noted = (tmp_path / "root" / "7-abc.json").read_text()
    dropped = await ask(here.controller, DropCheckpoint(103, saved))

    assert noted == '{"step": 2}'
    assert [(folder.name, folder.files) for folder in listed.folders] == [("7-abc", 1)]
    assert dropped.error == ""
    assert list((tmp_path / "root").iterdir()) == []
    assert not (tmp_path / "store" / "7-abc").exists()


async def fetched(controller: Controller, body: bytes) -> None:
    """Answer the agent, which asks for a bundle."""
    question: Any = await controller.until(
        lambda: next((p for p in controller._parts.values() if isinstance(p, ReadBundle)), None)
    )
    assert controller._link is not None
    await controller._link.send(encode(BundlePart(question.request, body, len(body))))


@story
async def test_a_bundle_that_cannot_be_unpacked_ends_its_attempt_with_one_line(here: Scene):
    await here.start_agent()
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("d/" * 1500 + "f"))
    packed = body.getvalue()
    digest = hashlib.sha256(packed).hexdigest()

    await here.controller.want(shell("u1", "true", bundle=digest))
    await fetched(here.controller, packed)

    ended = await here.controller.ended("u1")
    assert ended.cause is Cause.START_FAILED
    assert ended.detail.startswith(f"bundle {digest[:12]}: 'd/d/")
    assert ended.detail.endswith("is more than 100 folders deep")


@story
async def test_a_disk_without_room_for_a_bundle_is_the_nodes_fault(here: Scene):
    await here.start_agent()
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as archive:
        large = tarfile.TarInfo("large")
        large.size = 4 << 20
        archive.addfile(large, io.BytesIO(bytes(large.size)))
    packed = body.getvalue()
    digest = hashlib.sha256(packed).hexdigest()

    with small_disk(here.state / "agent" / "work", "size=1m"):
        await here.controller.want(shell("u1", "true", bundle=digest))
        await fetched(here.controller, packed)
        ended = await here.controller.ended("u1")

    assert ended.detail == f"bundle {digest[:12]}: 'large': no space left on device"
    assert (ended.cause, ended.fault) == (Cause.START_FAILED, Blame.NODE)


@story
async def test_an_attempt_that_waits_for_its_bundle_can_be_stopped(here: Scene):
    await here.start_agent()
    await here.controller.want(shell("u1", "true", bundle="0" * 64))
    await here.controller.until(
        lambda: any(isinstance(part, ReadBundle) for part in here.controller._parts.values())
    )

    await here.controller.stop("u1", Cause.CANCELLED)

    ended = await here.controller.ended("u1")
    assert ended.detail == "stopped before it was started"


@story
async def test_a_folder_for_saved_work_that_somebody_else_made_is_not_used(
    here: Scene, open_folder: Path
):
    await here.start_agent()
    root = open_folder / "root"
    root.mkdir()
    os.chown(root, 65_534, 65_534)
    linked = open_folder / "linked"
    linked.symlink_to(root)

    for uid, where in (("u1", root), ("u2", linked)):
        resumed = saving(uid, "true", Saved(str(where / "7-abc")))
        assert resumed.launch is not None
        resumed.launch.environment["ROTA_RESUME"] = "1"
        await here.controller.want(resumed)

    first, second = await here.controller.ended("u1"), await here.controller.ended("u2")
    assert first.detail == (
        f"checkpoint folder {root}: it belongs to user 65534, not to the agent's ({os.geteuid()})"
    )
    assert second.detail == f"checkpoint folder {linked}: it is a link or no folder"
    assert os.listdir(root) == []


@pytest.mark.root
@story
async def test_what_a_job_prints_and_what_the_agent_notes_is_not_for_others(here: Scene):
    await here.start_agent()
    await here.controller.want(shell("u1", "echo secret; id -un >&2", user="nobody"))
    await here.controller.ended("u1")
    own = await here.controller.log("u1", user="nobody")
    agent = here.state / "agent"
    files = [path for path in agent.rglob("*") if path.is_file()]

    seen = await asyncio.to_thread(
        subprocess.run, ["/bin/cat", *map(str, files)], capture_output=True, user="daemon", group=1
    )

    assert own.body == b"secret\n"
    assert {"u1.out", "u1.err", "incarnation", "agent.json", "keeper.json"} <= {
        f.name for f in files
    }
    assert seen.stdout == b""
    assert seen.stderr.count(b"Permission denied") == len(files)


@pytest.fixture
def fake_podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of this name that runs the command right here; gives the file of its arguments."""
    program = tmp_path / "bin" / "podman"
    program.parent.mkdir()
    program.write_text(FAKE_PODMAN)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path / "arguments"


def lines_of(file: Path) -> list[str]:
    return file.read_text().splitlines()


@story
async def test_an_image_is_run_by_podman_with_an_argument_list(
    here: Scene, tmp_path: Path, fake_podman: Path
):
    await here.start_agent()
    saved = Saved(str(tmp_path / "root" / "7-abc"))
    wanted = order(
        "u1",
        *("/bin/sh", "-c", 'echo "a  b; $X"'),
        image="the/image:1",
        inside=("X",),
        devices=(0, 2),
        checkpoint=saved,
        workdir=str(tmp_path),
    )
    assert wanted.launch is not None
    wanted.launch.environment.update({"X": "'quoted'", "FAKE_PODMAN_LOG": str(fake_podman)})

    await here.controller.want(wanted)
    await here.controller.ended("u1")

    assert (await here.controller.log("u1")).body == b"a  b; 'quoted'\n"
    words = lines_of(fake_podman)
    assert words[:4] == ["run", "--rm", "--name", "rota-u1"]
    assert words[-4:] == ["the/image:1", "/bin/sh", "-c", 'echo "a  b; $X"']
    for word in (
        f"--volume={tmp_path}:{tmp_path}",
        f"--volume={saved.folder}:{saved.folder}",
        f"--workdir={tmp_path}",
        "--device=nvidia.com/gpu=2",
        "--env=X",
    ):
        assert word in words
    assert "'quoted'" not in " ".join(words), "values are not for the eyes of others"
    assert here.controller.hellos[0].node.labels["containers"].startswith("podman")


@story
async def test_a_node_without_an_engine_says_so_when_a_job_wants_an_image(
    here: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    await here.start_agent()

    await here.controller.want(order("u1", "true", image="the/image:1"))

    ended = await here.controller.ended("u1")
    assert ended.cause is Cause.START_FAILED
    assert "image the/image:1: this node has neither podman nor apptainer" in ended.detail
