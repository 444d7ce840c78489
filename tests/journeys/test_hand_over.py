"""A hand-over while people work: what they read goes on, and an upgrade by it refuses nobody."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rota.client.errors import ClientError
from rota.client.http import Client
from tests.journeys.box import Box, until
from tests.journeys.test_heads import SUBMITTERS, Heads, ended, submit
from tests.support.machine import REPOSITORY, missing

pytestmark = pytest.mark.postgres

#: The last version with the schema before this one, from the history of this repository.
OLDER = "53095bb"
NEWER = str(REPOSITORY / "src")


@pytest.fixture(scope="session")
def older(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of its code."""
    command = ["git", "-C", str(REPOSITORY), "archive", OLDER, "src"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        missing(f"no history of git with the older version {OLDER} (a shallow clone?)")
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tree:
        tree.extractall(folder, filter="data")
    return str(folder / "src")


@pytest.fixture
def heads(tmp_path: Path, postgres_url: str) -> Iterator[Heads]:
    made = Heads(tmp_path, postgres_url)
    yield made
    made.close()


class Submits:
    """What several callers handed in, how long each took, and what was refused."""

    def __init__(self) -> None:
        self.took_s: dict[int, float] = {}
        self.refused: list[str] = []

    def wait_for_more(self) -> None:
        before = len(self.took_s)
        until(lambda: len(self.took_s) > before + 5 * SUBMITTERS, "more submits")


@contextmanager
def submitting(client: Client, work: Path) -> Iterator[Submits]:
    """One job after the other, by several callers at once."""
    done, found = threading.Event(), Submits()

    def keep_submitting() -> None:
        own = client.twin()
        while not done.is_set():
            began_s = time.monotonic()
            try:
                job = submit(own, work, "echo $ROTA_JOB_ID >> ran")
                found.took_s[job] = time.monotonic() - began_s
            except ClientError as error:
                found.refused.append(str(error))
            done.wait(0.05)
        own.close()

    threads = [threading.Thread(target=keep_submitting) for _ in range(SUBMITTERS)]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        done.set()
        for thread in threads:
            thread.join()


def hand_over(heads: Heads, to: Box) -> None:
    """Where ``to`` is the only one that waits: a head that has just ended is listed for a while."""
    waits = [f"{heads.url(to)} stands by"]
    until(lambda: _standing_by(heads.leader.rota("status").stdout) == waits, "the head to stand by")
    leader = heads.leader
    # It is refused as long as the other one has not read the state.
    said = until(lambda: leader.rota("failover", check=False).stdout, "a head that can take over")
    assert said == f"{heads.url(to)} takes over\n"
    until(lambda: heads.leads(to), "the successor")


def _standing_by(status: str) -> list[str]:
    return re.findall(r"\S+ stands by", status)


@pytest.mark.timeout(300)
def test_an_upgrade_by_hand_overs_refuses_no_submit(heads: Heads, older: str) -> None:
    first, second = heads.boxes
    first.env["PYTHONPATH"] = older
    first.up("--standby")
    until(lambda: heads.leads(first), "the older version to lead")
    second.up("--standby")
    heads.join()
    client, work = heads.client(), first.work
    known = urlsplit(heads.url(first)).netloc
    lasting = submit(client, work, "while [ ! -e go ]; do sleep 0.1; done; exit 3")

    with submitting(client, work) as found:
        found.wait_for_more()
        hand_over(heads, second)
        found.wait_for_more()
        first.down()
        # Everybody knows it by its address.
        first.env |= {"PYTHONPATH": NEWER, "ROTA_SERVER_LISTEN": known}
        first.up("--standby")
        hand_over(heads, first)
        found.wait_for_more()
    (work / "go").touch()

    slowest_s = max(found.took_s.values())
    print(f"{len(found.took_s)} submits beside an upgrade, the slowest took {slowest_s:.2f} s")
    assert found.refused == []
    assert {ended(client, job) for job in found.took_s} == {"completed"}
    assert Counter(map(int, (work / "ran").read_text().split())) == Counter([*found.took_s])
    assert (ended(client, lasting), client.get(f"/jobs/{lasting}")["exit_code"]) == ("failed", 3)


def test_who_follows_a_log_or_waits_notices_nothing_of_a_hand_over(heads: Heads) -> None:
    heads.up()
    heads.join()
    client, work = heads.client(), heads.boxes[0].work
    first, second = heads.leader, heads.other
    count = "n=0; while [ ! -e go ]; do n=$((n + 1)); echo $n; sleep 0.02; done; exit 5"
    job = submit(client, work, count)
    env = {**first.env, "ROTA_URL": heads.urls, "ROTA_TOKEN": client.token}
    followed, waited = (work / "followed").open("wb"), (work / "waited").open("wb")
    follows = _begin(["logs", "-f", str(job)], env, followed)
    waits = _begin(["wait", str(job)], env, waited)
    until(lambda: (work / "followed").read_bytes().count(b"\n") > 10, "the first lines")

    with submitting(client, work) as found:
        hand_over(heads, second)
        seen = (work / "followed").read_bytes().count(b"\n")
        until(lambda: (work / "followed").read_bytes().count(b"\n") > seen + 10, "further lines")
    (work / "go").touch()

    # Not every job was completed, says the latter.
    assert (follows.wait(60), waits.wait(60)) == (0, 1)
    lines = (work / "followed").read_text().split()
    assert lines == [str(n) for n in range(1, len(lines) + 1)]
    assert b"".join(client.stream(f"/jobs/{job}/logs")).decode().split() == lines
    assert found.refused == []
    assert {ended(client, one) for one in found.took_s} == {"completed"}
    for file in (followed, waited):
        file.close()


def _begin(
    words: list[str], env: dict[str, str], output: io.BufferedWriter
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "rota.cli.main", *words]
    return subprocess.Popen(command, env=env, stdout=output, stderr=subprocess.STDOUT)
