"""Nothing is lost when parts are stopped or killed, and everything is accounted for."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import datetime
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from rota.believed_time import DAY_S
from rota.store.open import open_store
from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Callable

UNTIL_GO = "while [ ! -e go ]; do sleep 0.02; done"


def test_down_leaves_jobs_running_and_up_adopts_them(box: Box) -> None:
    runs = box.job(f"echo up; {UNTIL_GO}; echo done; exit 6")
    ends = box.job("while [ ! -e end ]; do sleep 0.02; done; exit 7")
    until(lambda: box.output(runs) == "up\n", "the job to run")
    box.reach(runs, "running")
    box.reach(ends, "running")

    said = box.rota("down").stdout
    (box.work / "end").touch()
    time.sleep(0.3)  # one job ends while nobody is there to see it
    box.up()

    assert "2 running jobs go on" in said
    while_down = box.ended(ends)
    assert (while_down["state"], while_down["exit_code"]) == ("failed", 7)
    assert box.state_of(runs) == "running"
    (box.work / "go").touch()
    assert box.ended(runs)["exit_code"] == 6
    assert box.output(runs) == "up\ndone\n"


def test_a_stop_under_load_ends_within_five_seconds_and_keeps_what_was_acknowledged(
    box: Box,
) -> None:
    accepted: list[int] = []

    def submit() -> None:
        try:
            while True:
                accepted.append(box.job(["true"]))
        except (OSError, HTTPException, AssertionError):
            return  # It is gone, or about to be.

    crowd = [threading.Thread(target=submit) for _ in range(4)]
    for one in crowd:
        one.start()
    until(lambda: len(accepted) > 100, "a hundred submits")

    began_s = time.monotonic()
    box.rota("down")
    took_s = time.monotonic() - began_s
    for one in crowd:
        one.join()
    box.up()

    assert took_s < 5
    assert len(set(accepted)) == len(accepted)
    assert [box.show(job)["name"] for job in accepted[-4:]] == ["true"] * 4


def test_a_time_limit_that_passes_while_rota_is_down_is_kept_when_it_is_back(box: Box) -> None:
    job = box.job(["sleep", "300"], time_limit_s=3600, grace_s=1)
    started_s = _seconds(box.reach(job, "running")["started_at"])
    limit_s = int(time.time() - started_s) + 2
    box.api("PATCH", f"/jobs/{job}", {"time_limit_s": limit_s})
    box.rota("down")
    until(lambda: time.time() > started_s + limit_s, "the limit to pass")

    box.up()

    assert box.ended(job)["state"] == "timeout"


def test_kill_9_half_a_second_after_a_hundred_submissions_keeps_all_and_reuses_no_id(
    new_box: Callable[..., Box],
) -> None:
    box = new_box(cpus=2)
    box.up()
    ids = [box.job("sleep 0.02; exit $((ROTA_JOB_ID % 3))") for _ in range(100)]

    time.sleep(0.5)  # the story's own half second
    box.kill("supervisor", "controller", "agent")
    until(lambda: not box.pid("controller"), "the controller to be dead")
    box.up()
    later = box.job(["true"])

    assert len(set(ids)) == 100
    assert later > max(ids)
    assert {job: box.ended(job)["exit_code"] for job in ids} == {job: job % 3 for job in ids}


def test_an_agent_killed_with_jobs_running_knows_every_exit_code(box: Box) -> None:
    jobs = [box.job(f"{UNTIL_GO}; exit {code}") for code in (0, 3, 4)]
    for job in jobs:
        box.reach(job, "running")
    before = box.pid("agent")

    box.kill("agent")
    (box.work / "go").touch()

    ends = [box.ended(job) for job in jobs]
    assert [end["exit_code"] for end in ends] == [0, 3, 4]
    assert [len(end["attempts"]) for end in ends] == [1, 1, 1]
    until(lambda: box.pid("agent") not in (0, before), "another agent")


def test_a_keeper_killed_with_a_job_running_accounts_for_it(box: Box) -> None:
    job = box.job(f"echo $$ > pid; {UNTIL_GO}; echo finished > end")
    until(lambda: box.read("pid"), "the job to run")

    box.kill("keeper")
    until(lambda: box.pid("keeper"), "another keeper")
    (box.work / "go").touch()

    ended = box.ended(job)
    assert box.read("end") == "finished\n", "the job itself was not touched"
    assert ended["state"] != "completed", "a code that nobody saw is not called success"
    assert "keeper" in ended["cause"]
    assert box.ran(["true"])["state"] == "completed", "and Rota goes on"


def test_a_job_killed_from_outside_is_recorded_with_its_signal(box: Box) -> None:
    job = box.job("echo $$ > pid; sleep 300")
    pid = int(until(lambda: box.read("pid"), "the job to run"))

    os.kill(pid, signal.SIGKILL)

    ended = box.ended(job)
    assert (ended["state"], ended["signal"], ended["cause_code"]) == ("failed", 9, "signal")


def test_a_supervisor_killed_leaves_rota_serving_and_the_next_one_adopts_it(box: Box) -> None:
    controller = box.pid("controller")
    job = box.job(UNTIL_GO)

    box.kill("supervisor")
    until(lambda: not box.pid("supervisor"), "the supervisor to be dead")
    served = box.api("GET", "/status")[0]
    box.up()
    (box.work / "go").touch()

    assert served == 200
    assert box.pid("controller") == controller
    assert box.ended(job)["state"] == "completed"


def test_down_with_stop_jobs_ends_what_runs_and_keeps_what_waits(box: Box) -> None:
    job = box.job("echo $$ > pid; sleep 300", resources={"cpus": 4})
    waiting = box.job(["true"], resources={"cpus": 4})
    pid = int(until(lambda: box.read("pid"), "the job to run"))
    keeper = box.pid("keeper")

    box.rota("down", "--stop-jobs")

    for gone in (pid, keeper):
        until(lambda gone=gone: not os.path.exists(f"/proc/{gone}"), "the process to be gone")
    box.up()
    assert box.state_of(job) == "cancelled"
    assert box.ended(waiting)["state"] == "completed"


def test_settings_made_before_a_crash_hold_after_it(box: Box) -> None:
    box.rota("node", "drain", "box", "--reason", "later")
    box.job(["true"], group="team", max_concurrent=3)
    token = box.api("POST", "/tokens", {"access": "viewer", "note": "kept"})[1]

    box.kill("controller")

    until(lambda: box.api("GET", "/nodes/box")[1]["state"] != "down", "the agent to be back")
    _, node = box.api("GET", "/nodes/box")
    _, group = box.api("GET", "/groups/team")
    _, tokens = box.api("GET", "/tokens")
    assert (node["drained"], node["note"]) == (True, "later")
    assert group["max_concurrent"] == 3
    assert [entry["id"] for entry in tokens["items"]] == [token["id"]]


@pytest.mark.timeout(300)
def test_the_whole_story_on_postgresql_with_the_controller_killed_in_it(
    new_box: Callable[..., Box], postgres_url: str
) -> None:
    box = new_box()
    box.up("--database", postgres_url)
    array = box.submit("--array", "0-9%3", "--shell", "echo $ROTA_ARRAY_INDEX >> ran; exit 0")
    long = box.job(f"{UNTIL_GO}; exit 5")
    child = box.job(["true"], depends_on=[{"kind": "after-any", "job": long}])
    box.reach(long, "running")

    box.kill("controller")
    later = box.job_again(["true"], "after the crash")
    (box.work / "go").touch()

    assert box.ended(long)["exit_code"] == 5
    assert box.ended(child)["state"] == "completed"
    assert box.ended(later)["state"] == "completed"
    assert later > child
    assert box.rota("wait", str(array)).returncode == 0
    assert sorted(map(int, box.read("ran").split())) == list(range(10)), "each ran once"
    assert not (box.state / "rota.db").exists()
    assert "postgresql" in box.status()["database"]
    assert (urlsplit(postgres_url).password or "\0") not in box.rota("status", "--json").stdout
    box.rota("down", "--stop-jobs")


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_after_kill_9_an_element_that_was_forgotten_on_purpose_still_counts_as_failed(
    new_box: Callable[..., Box], request: pytest.FixtureRequest, kind: str
) -> None:
    box = new_box()
    database = str(box.state / "rota.db")
    if kind == "postgres":
        database = box.env["ROTA_SERVER_DATABASE"] = request.getfixturevalue("postgres_url")
    box.up()
    command = f"case $ROTA_ARRAY_INDEX in 0) exit 3;; 1) exit 0;; *) {UNTIL_GO};; esac"
    array = box.job(command, array="0-2")
    failed = array + 1
    child = box.job("touch ran", depends_on=[{"kind": "after-ok", "job": array}])
    box.reach(failed, "failed")
    box.reach(array + 2, "completed")
    box.reach(array + 3, "running")

    kill_all(box)
    let_pass(database, 100 * DAY_S)
    box.up()
    until(lambda: box.api("GET", f"/jobs/{failed}")[0] != 200, "the failed element to be forgotten")
    kill_all(box)
    box.up()
    (box.work / "go").touch()

    assert box.ended(child)["state"] == "cancelled"
    assert box.read("ran") == ""


def kill_all(box: Box) -> None:
    box.kill("supervisor", "controller", "agent")
    until(lambda: not box.pid("controller"), "the controller to be gone")


def let_pass(database: str, seconds: float) -> None:
    """As if what has ended were older by so much."""
    store = open_store(database)
    age = "UPDATE jobs SET created_at = created_at - ?, completed_at = completed_at - ?"
    store.driver.write([(f"{age} WHERE completed_at IS NOT NULL", (seconds, seconds))])
    store.close()
