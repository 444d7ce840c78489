"""Saved work over REST: what a report may say, what is refused, and what goes when."""

import asyncio
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.agent.files import checkpoints
from rota.controller.agents.bundles import BundleShelf
from rota.controller.agents.links import Links
from rota.controller.chores.saved_work import SavedWork
from rota.core.facts.node import NodeSpec
from rota.rpc.messages import (
    PROTOCOL,
    BundlePart,
    CheckpointAnswer,
    DropCheckpoint,
    Hello,
    ListCheckpoints,
    NoteCheckpoint,
    ReadBundle,
    Welcome,
    decode_to_agent,
    encode,
)
from tests.api.pretended import PretendedAgent
from tests.api.running import WAIT_S, Caller, Running

DAY_S = 86_400


class SavingAgent(PretendedAgent):
    """Answers about saved work as an agent does, on a folder of the test."""

    def _take(self, message: object) -> None:
        if isinstance(message, ListCheckpoints):
            found = checkpoints.listing(message.root, message.names)
            self.socket.send(encode(CheckpointAnswer(message.request, found)))
        elif isinstance(message, DropCheckpoint):
            checkpoints.drop(message.saved.folder)
            self.socket.send(encode(CheckpointAnswer(message.request)))
        elif isinstance(message, NoteCheckpoint):
            checkpoints.note(message.saved.folder, message.body)
            self.socket.send(encode(CheckpointAnswer(message.request)))
        super()._take(message)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "saved"
    folder.mkdir()
    return folder


@pytest.fixture
def work(server: Running, root: Path) -> Iterator[SavedWork]:
    server.context.saved_work = SavedWork(server.host, {"ROTA_CHECKPOINT_DIR": str(root)})
    yield server.context.saved_work
    server.context.saved_work = None


@pytest.fixture
def node(server: Running, work: SavedWork) -> Iterator[SavingAgent]:
    agent = SavingAgent(server.socket_path)
    yield agent
    agent.close()


def started(caller: Caller, node: SavingAgent, root: Path) -> tuple[int, str, Path]:
    """A running job that has saved something: its id, its attempt, its folder."""
    job = caller.submit("sleep 1")
    uid = node.launched(job)
    node.report_start(uid)
    found = caller.until(job, "running")
    folder = root / f"{job}-{found['uid'][:8]}"
    folder.mkdir()
    (folder / "model").write_text("weights")
    return job, uid, folder


def drop_old(server: Running, work: SavedWork, days: int) -> int:
    return asyncio.run_coroutine_threadsafe(work.drop_old(days), server.loop).result(WAIT_S)


def test_a_report_is_shown_with_all_that_it_said(caller: Caller, node: SavingAgent, root: Path):
    job, _, folder = started(caller, node, root)

    said = caller.post(
        f"/jobs/{job}/checkpoint", {"step": 0, "note": "first", "size": 7, "path": "model"}
    ).json

    (record,) = said["checkpoints"]
    assert (said["folder"], said["store"]) == (str(folder), None)
    assert (record["step"], record["note"], record["size"]) == (0, "first", 7)
    assert caller.job(job)["checkpoints"] == [record]
    assert caller.get(f"/jobs/{job}/checkpoint").json["checkpoints"] == [record]


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"size": 200 << 30}, "size", "more than 107374182400"),
        ({"size": 200 << 30, "planned": True}, "size", "more than 107374182400"),
        ({"size": -1}, "size", "0"),
        ({"path": "../other"}, "path", "below ROTA_CHECKPOINT_DIR"),
        ({"path": "/etc"}, "path", "below ROTA_CHECKPOINT_DIR"),
        ({"path": "a/../../b"}, "path", "below ROTA_CHECKPOINT_DIR"),
        ({"steps": 5}, "steps", "step"),
    ],
)
def test_a_report_that_cannot_be_is_refused_and_leaves_nothing(
    caller: Caller, node: SavingAgent, root: Path, body: dict, field: str, words: str
):
    job, _, _ = started(caller, node, root)

    refused = caller.post(f"/jobs/{job}/checkpoint", body)

    assert (refused.status, refused.json["field"]) == (400, field)
    assert words in refused.json["detail"]
    assert caller.job(job)["checkpoints"] == []


def test_a_question_before_writing_reports_nothing(caller: Caller, node: SavingAgent, root: Path):
    job, _, _ = started(caller, node, root)

    may = caller.post(f"/jobs/{job}/checkpoint", {"size": 1 << 30, "planned": True})

    assert (may.status, may.json["saved_at"]) == (200, None)


def test_saved_work_is_listed_and_removed_when_its_job_is_not_running(
    caller: Caller, node: SavingAgent, root: Path
):
    job, uid, folder = started(caller, node, root)
    early = caller.delete(f"/jobs/{job}/checkpoint")
    (listed,) = caller.get("/checkpoints").json["items"]
    node.report_end(uid)
    caller.until(job, "completed")

    gone = caller.delete(f"/jobs/{job}/checkpoint")

    assert early.status == 409
    assert (listed["id"], listed["files"], listed["size"]) == (job, 1, len("weights"))
    assert (gone.status, gone.json["problems"]) == (200, [])
    assert not folder.exists()
    assert caller.get("/checkpoints").json["items"] == []


def test_others_neither_see_nor_remove_saved_work(
    server: Running, caller: Caller, node: SavingAgent, root: Path
):
    job, uid, folder = started(caller, node, root)
    node.report_end(uid)
    caller.until(job, "completed")
    eve = server.as_user("eve")

    assert eve.delete(f"/jobs/{job}/checkpoint").status == 403
    assert eve.get("/checkpoints").json["items"] == []
    assert eve.get(f"/jobs/{job}/checkpoint").json["folder"] is None
    assert folder.exists()


def test_old_work_goes_with_the_end_of_its_job_and_never_while_that_is_open(
    server: Running, caller: Caller, node: SavingAgent, work: SavedWork, root: Path
):
    ended, uid, ended_folder = started(caller, node, root)
    _, _, open_folder = started(caller, node, root)
    node.report_end(uid)
    caller.until(ended, "completed")
    long_ago_s = time.time() - 100 * DAY_S
    for folder in (ended_folder, open_folder):
        os.utime(folder / "model", (long_ago_s, long_ago_s))

    kept = drop_old(server, work, days=1)
    went = drop_old(server, work, days=0)

    assert (kept, went) == (0, 1)
    assert (ended_folder.exists(), open_folder.exists()) == (False, True)


def test_work_of_a_job_that_nobody_knows_is_as_old_as_its_files(
    server: Running, caller: Caller, node: SavingAgent, work: SavedWork, root: Path
):
    job, _, own = started(caller, node, root)
    stranger = root / f"{job}-0ther000"
    stranger.mkdir()
    os.utime(stranger, (time.time() - 9 * DAY_S,) * 2)
    fresh = root / "999999-abcdef01"
    fresh.mkdir()

    went = drop_old(server, work, days=7)

    assert went == 1
    assert sorted(path.name for path in root.iterdir()) == sorted([own.name, fresh.name])


@pytest.fixture
def shelf(server: Running, tmp_path: Path) -> Iterator[BundleShelf]:
    server.host.links.bundles = BundleShelf(tmp_path / "bundles", max_bytes=3 << 20)
    yield server.host.links.bundles
    server.host.links.bundles = None


def digest_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def test_a_working_folder_is_put_once_and_read_in_pieces(caller: Caller, shelf: BundleShelf):
    body = os.urandom(2 << 20) + b"end"
    place = f"/bundles/{digest_of(body)}"

    before = caller.get(place).status
    put = caller.put(place, body)
    again = caller.put(place, body)

    assert (before, put.status, again.status, caller.get(place).status) == (404, 200, 200, 200)
    pieces = [shelf.read(ReadBundle(1, digest_of(body), at << 20)) for at in range(3)]
    assert b"".join(piece.body for piece in pieces) == body
    assert {piece.size for piece in pieces} == {len(body)}
    assert caller.submit("true", bundle=digest_of(body)) > 0


def test_an_agent_that_was_not_taken_in_reads_no_working_folder(caller: Caller, shelf: BundleShelf):
    body = b"folder of somebody"
    caller.put(f"/bundles/{digest_of(body)}", body)
    links, asked = Links(lambda *heard: None), ReadBundle(1, digest_of(body), 0)
    links.bundles = shelf
    link = links.open("a token that waits for an operator's approval", "10.0.0.7")

    links.heard(link, Hello(PROTOCOL, NodeSpec("n", 1000, 100), "run", "boot", "0.1.0"))
    links.heard(link, asked)
    before = link.outbox.qsize()
    links.send(link.number, Welcome(1, "cluster"))
    links.heard(link, asked)

    assert before == 0
    assert [decode_to_agent(link.outbox.get_nowait()) for _ in range(2)] == [
        Welcome(1, "cluster"),
        BundlePart(1, body, len(body)),
    ]


def test_a_working_folder_that_is_too_large_or_another_is_not_kept(
    caller: Caller, shelf: BundleShelf, tmp_path: Path
):
    large = bytes(4 << 20)

    refused = caller.put(f"/bundles/{digest_of(large)}", large)
    caller.connection.close()
    wrong = caller.put(f"/bundles/{digest_of(b'one')}", b"another")

    assert (refused.status, refused.json["field"]) == (413, "bundle")
    assert (wrong.status, wrong.json["field"]) == (400, "digest")
    assert list((tmp_path / "bundles").glob("*")) == []


def test_a_length_that_is_not_told_does_not_help(
    caller: Caller, shelf: BundleShelf, tmp_path: Path
):
    large = [bytes(1 << 20)] * 4
    place = f"/api/v1/bundles/{digest_of(b''.join(large))}"

    caller.connection.request("PUT", place, iter(large), encode_chunked=True)
    status = caller.connection.getresponse().status

    assert status == 400
    assert list((tmp_path / "bundles").glob("*")) == []


def test_a_working_folder_stays_while_an_open_job_needs_it(caller: Caller, shelf: BundleShelf):
    for body in (b"needed", b"not needed"):
        caller.put(f"/bundles/{digest_of(body)}", body)

    went = shelf.drop_unused(frozenset({digest_of(b"needed")}), time.time() + 1)

    assert went == 1
    assert (shelf.has(digest_of(b"needed")), shelf.has(digest_of(b"not needed"))) == (True, False)


def test_without_a_node_that_runs_images_an_image_is_refused_unless_it_may_wait(
    caller: Caller, node: SavingAgent
):
    refused = caller.post("/jobs", {"command": "true", "image": "python:3.12"})
    waits = caller.post(
        "/jobs", {"command": "true", "image": "python:3.12", "scheduling_timeout_s": 60}
    )

    assert (refused.status, refused.json["field"]) == (400, "image")
    assert "podman or apptainer" in refused.json["detail"]
    assert waits.status == 201
    assert caller.job(waits.json["id"])["placement"]["constraints"] == ["containers"]
