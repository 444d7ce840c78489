"""Where the state is kept fails while agents on other machines work: their jobs live on."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.journeys.box import UnixConnection, until
from tests.journeys.site import Site
from tests.journeys.test_trouble import _fill
from tests.support.machine import small_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.journeys.box import Box
    from tests.support.postgres import PostgresServer

#: Short enough to wait for its end.
LEASE_S = 6
#: Longer than any bound that a caller may meet.
FROZEN_LEASE_S = 90
#: Ends with 7 once the file is there.
PATIENT = "until [ -e {go} ]; do sleep 0.05; done; exit 7"


@contextmanager
def opened(root: Path, lease_s: float, database: str = "") -> Iterator[Site]:
    site = Site(root, lease_s, database)
    try:
        yield site
    finally:
        site.close()


def wait_s(seconds: float) -> None:
    """Time itself is what the test is about: a lease must run out, or not."""
    end_s = time.monotonic() + seconds
    until(lambda: time.monotonic() > end_s, f"{seconds} s", seconds + 5)


def submit(box: Box, command: list[str] | None = None) -> tuple[int, Any]:
    return box.api("POST", "/jobs", {"command": command or ["true"], "workdir": "/"})


@pytest.mark.root
@pytest.mark.timeout(300)
def test_a_full_disk_ends_no_job_on_another_machine_and_loses_no_end(tmp_path: Path) -> None:
    with small_disk(tmp_path / "head" / "state", "size=12m"), opened(tmp_path, LEASE_S) as site:
        head, go = site.head, tmp_path / "go"
        site.join("one")
        until(lambda: site.is_up("one"), "the node")
        site.witness_job("stays")
        patient = head.job(["sh", "-c", PATIENT.format(go=go)])
        head.reach(patient, "running")
        until(lambda: site.witness("stays"), "the job to begin")
        ballast = head.state / "ballast"
        _fill(ballast)
        refusal = until(lambda: _refused(head), "the first refusal")

        go.touch()
        wait_s(3 * LEASE_S)
        alive = site.witness("stays")
        ballast.unlink()

        assert "disk" in refusal or "space" in refusal
        assert [line[0] for line in alive] == ["began"]
        assert head.ended(patient)["exit_code"] == 7
        assert site.is_up("one")
        assert until(lambda: submit(head)[0] == 201, "submits to be taken again")
        assert len(site.witness("stays")) == 1
        assert "dialling again" not in site.log("one")


def _refused(head: Box) -> str:
    status, answer = head.api("POST", "/jobs", {"script": "#" * 20_000, "workdir": "/"})
    return "" if status == 201 else str(answer["detail"])


@pytest.mark.timeout(300)
def test_the_first_write_after_connections_were_cut_succeeds_and_agents_stay(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    with opened(tmp_path, LEASE_S, postgres_url) as site:
        site.join("one")
        until(lambda: site.is_up("one"), "the node")
        site.witness_job("stays")
        until(lambda: site.witness("stays"), "the job to begin")
        postgres_server.terminate(postgres_url)

        status, answer = submit(site.head)
        postgres_server.terminate(postgres_url)
        wait_s(2 * LEASE_S)

        assert status == 201, answer
        assert site.head.ended(answer["id"])["state"] == "completed"
        assert len(site.witness("stays")) == 1, "its lease was renewed"
        assert "dialling again" not in site.log("one")


@pytest.mark.timeout(300)
def test_a_database_that_stands_still_costs_callers_a_bounded_time_and_nobody_a_job(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    with opened(tmp_path, FROZEN_LEASE_S, postgres_url) as site:
        head, go = site.head, tmp_path / "go"
        site.join("one")
        until(lambda: site.is_up("one"), "the node")
        patient = head.job(["sh", "-c", PATIENT.format(go=go)])
        head.reach(patient, "running")

        with postgres_server.frozen():
            writing = _timed(head, "POST", "/api/v1/jobs", b'{"command": ["true"]}')
            reading = _timed(head, "GET", "/api/v1/jobs?state=completed")
            alive = [_timed(head, "GET", "/healthz") for _ in range(10)]
            go.touch()
            again = _timed(head, "POST", "/api/v1/jobs", b'{"command": ["true"]}')

        assert [status for status, _ in (writing, reading, again)] == [503, 503, 503]
        assert all(took_s < 20 for _, took_s in (writing, reading)), (writing, reading)
        assert all(status == 200 and took_s < 1 for status, took_s in alive), alive
        assert head.ended(patient)["exit_code"] == 7
        assert until(lambda: submit(head)[0] == 201, "submits to be taken again")


def _timed(box: Box, method: str, path: str, body: bytes | None = None) -> tuple[int, float]:
    """The status of one call, and how long it took."""
    connection: http.client.HTTPConnection = UnixConnection(box.state / "rota.sock")
    begun_s = time.monotonic()
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        return connection.getresponse().status, time.monotonic() - begun_s
    finally:
        connection.close()


@pytest.mark.timeout(300)
def test_a_controller_that_was_deposed_renews_no_lease_so_that_no_task_lives_twice(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    with opened(tmp_path / "a", LEASE_S, postgres_url) as first:
        first.join("one")
        until(lambda: first.is_up("one"), "the node")
        witness = str(tmp_path / "witness")
        first.witness_job(witness, retries=1, backoff_s=0)
        until(lambda: first.witness(witness), "the job to begin")
        # The first controller stands still just as long as it takes the second one to take over.
        with stopped(first.head.living("controller")):
            postgres_server.terminate(postgres_url)
            second = Site(tmp_path / "b", LEASE_S, postgres_url)
        try:
            second.join("two")

            until(lambda: len(first.witness(witness)) == 3, "the job to begin elsewhere")

            lines = first.witness(witness)
            steps = [line[:2] for line in lines]
            assert steps == [["began", "one"], ["ended", "one"], ["began", "two"]]
            assert float(lines[1][2]) < float(lines[2][2])
            log = first.head.state / "controller.log"
            until(lambda: "does not lead any more" in log.read_text(), "the first one to notice")
            status, answer = submit(first.head)
            assert status == 503
            assert "another controller" in answer["detail"]
        finally:
            second.close()


@contextmanager
def stopped(pid: int) -> Iterator[None]:

    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _break_database(box: Box, damage: Callable[[Path], None], known: int = 0) -> str:
    """Rota dies, its database is damaged, and Rota comes back. The keeper and its jobs stay.

    ``known``: an event that the node has heard of, and written down, by then.
    """
    seen = box.state / "agent" / "controller-record.json"
    until(seen.exists, "what the agent knows")
    until(lambda: json.loads(seen.read_text())["seq"] > known, "the agent to write what it knows")
    box.kill("supervisor", "controller", "agent")
    damage(box.state / "rota.db")
    return box.rota("up", "--detach").stdout


def _empty(database: Path) -> None:
    for file in database.parent.glob("rota.db*"):
        os.truncate(file, 0)


def test_a_database_that_was_emptied_is_not_obeyed_by_the_node_that_worked_for_it(
    box: Box,
) -> None:
    job = box.job(["sleep", "600"])
    pid = box.reach(job, "running")["attempts"][0]["pid"]

    told = _break_database(box, _empty)

    line = "the agent of this machine does not work for it: the controller's database is of cluster"
    assert line in told
    assert "it was emptied or replaced" in (box.state / "agent.log").read_text()
    assert os.path.exists(f"/proc/{pid}")
    assert [node["state"] for node in box.api("GET", "/nodes")[1]["items"]] == ["down"]
    os.kill(pid, signal.SIGKILL)


def test_an_old_copy_of_the_database_runs_no_job_again(box: Box, tmp_path: Path) -> None:
    copy, trace = tmp_path / "copy.db", tmp_path / "trace"
    go = tmp_path / "go"
    job = box.job(["sh", "-c", PATIENT.format(go=go) + f" & wait; echo ran >> {trace}"])
    box.reach(job, "running")
    with sqlite3.connect(box.state / "rota.db") as live, sqlite3.connect(copy) as kept:
        live.backup(kept)
        ((newest,),) = kept.execute("SELECT max(seq) FROM events").fetchall()
    go.touch()
    box.ended(job)

    told = _break_database(box, lambda database: _replace(database, copy), newest)

    assert "it is damaged or an old copy" in told
    assert trace.read_text() == "ran\n"
    box.down()


def test_a_database_that_was_put_back_on_purpose_is_accepted_once_told_so(box: Box) -> None:
    job = box.job(["sleep", "600"])
    pid = box.reach(job, "running")["attempts"][0]["pid"]
    _break_database(box, _empty)

    refused = box.rota("up", "--detach", "--accept-database", check=False)
    box.down()
    box.up("--accept-database")

    assert "rota is up; stop it first with 'rota down'" in refused.stderr
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the end of what the database does not know")
    fresh = box.job(["true"])
    assert box.ended(fresh)["state"] == "completed"
    box.down()
    box.up()
    assert box.api("GET", "/nodes")[1]["items"][0]["state"] == "up"


def test_what_a_database_has_lost_is_not_held_for_true(
    new_box: Callable[..., Box], postgres_server: PostgresServer
) -> None:
    with postgres_server.database() as url:
        box = new_box()
        box.env["ROTA_SERVER_DATABASE"] = url
        box.up("--no-agent")
        kept = box.job(["true"], hold=True)
        with postgres_server.forgetting(url):
            lost = box.job_again(["sleep", "1"], key="once")

        until(lambda: submit(box, ["date"])[0] == 201, "a submit that is taken")
        listed = _commands(box)
        log = (box.state / "controller.log").read_text()
        box.down()
        box.up("--no-agent")

        # Its number is given out again: nobody can be told two things of one job.
        assert {kept: ["true"], lost: ["date"]} == listed == _commands(box)
        assert "has lost what it had confirmed: the state is read anew" in log
        box.down()


def _commands(box: Box) -> dict[int, list[str]]:
    found = box.api("GET", "/jobs")[1]["items"]
    return {job["id"]: box.api("GET", f"/jobs/{job['id']}")[1]["command"] for job in found}


def _replace(database: Path, copy: Path) -> None:
    for file in database.parent.glob("rota.db*"):
        file.unlink()
    shutil.copy(copy, database)


def test_status_and_doctor_say_that_the_database_is_away(
    new_box: Callable[..., Box], postgres_server: PostgresServer
) -> None:
    with postgres_server.database() as url:
        box = new_box()
        box.env["ROTA_SERVER_DATABASE"] = url
        box.up()
        before = box.rota("doctor", check=False).stdout
        with postgres_server.frozen():
            status = box.rota("status").stdout
            doctor = box.rota("doctor", check=False)
        until(lambda: "AWAY" not in box.rota("status").stdout, "the database to be back")
        box.down()

    assert "ok    database      postgresql://" in before
    assert ": AWAY, " in status
    assert "fail  database" in doctor.stdout
    assert doctor.returncode == 1
