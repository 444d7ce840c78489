"""Watching and stopping jobs: logs, listings, waiting, cancelling."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.journeys.box import Box

UNTIL_GO = "while [ ! -e go ]; do sleep 0.02; done"


def test_both_streams_are_kept_apart_and_tail_gives_the_last_lines(home: Box) -> None:
    job = home.ran("seq 1 1000; echo bad >&2")["id"]

    assert home.rota("logs", str(job), "--stdout").stdout.split() == [
        str(n) for n in range(1, 1001)
    ]
    assert home.rota("logs", str(job), "--stdout", "--tail", "2").stdout == "999\n1000\n"
    assert home.rota("logs", str(job), "--stderr").stdout == "bad\n"


def test_following_shows_lines_as_they_come_and_ends_with_the_last_byte(home: Box) -> None:
    job = home.job(f"echo first; {UNTIL_GO}; seq 1 20000; printf 'the end'")

    following = subprocess.Popen(
        [sys.executable, "-m", "rota.cli.main", "logs", "-f", str(job)],
        cwd=home.work,
        env=home.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    first = following.stdout.readline()
    (home.work / "go").touch()
    rest, _ = following.communicate(timeout=60)

    assert first == "first\n"
    assert rest == "".join(f"{n}\n" for n in range(1, 20_001)) + "the end"
    assert following.returncode == 0


def test_binary_output_comes_back_byte_for_byte(home: Box) -> None:
    job = home.ran(["python3", "-c", "import os; os.write(1, bytes(range(256)) * 1000)"])["id"]

    read = subprocess.run(
        [sys.executable, "-m", "rota.cli.main", "logs", str(job)],
        env=home.env,
        capture_output=True,
        timeout=60,
        check=True,
    )

    assert read.stdout == bytes(range(256)) * 1000


def test_the_queue_is_listed_as_table_json_csv_yaml_and_tree(home: Box) -> None:
    parent = home.submit("--hold", "--name", "parent", "--label", "team=a", "--", "true")
    child = home.submit("--name", "child, with comma", "--after-ok", "@", "--", "true")

    table = home.rota("queue").stdout.splitlines()
    as_json = json.loads(home.rota("queue", "--json").stdout)
    as_csv = list(csv.reader(home.rota("queue", "--format", "csv").stdout.splitlines()))
    as_yaml = home.rota("queue", "--format", "yaml", "--fields", "id,name").stdout
    tree = home.rota("queue", "--tree").stdout.splitlines()
    chosen = home.rota("queue", "--fields", "name,state", "--sort", "-id").stdout.splitlines()

    assert table[0].split()[:4] == ["ID", "NAME", "USER", "STATE"]
    assert [job["id"] for job in as_json] == [parent, child]
    assert [row[1] for row in as_csv[1:]] == ["parent", "child, with comma"]
    assert 'name: "parent"' in as_yaml
    assert tree[0].startswith(str(parent))
    assert tree[1].lstrip(" └─|`-").startswith(str(child))
    assert [line.rsplit(maxsplit=1) for line in chosen[1:]] == [
        ["child, with comma", "queued"],
        ["parent", "held"],
    ]
    assert home.rota("queue", "-q").stdout.split() == [str(parent), str(child)]
    assert home.rota("queue", "-q", "-l", "team=a").stdout.split() == [str(parent)]
    assert home.rota("queue", "-q", "-n", "parent").stdout.split() == [str(parent)]


def test_a_listing_is_paged_by_cursor_without_gaps_or_repeats(home: Box) -> None:
    _, made = home.api(
        "POST", "/jobs:batch", {"jobs": [{"command": ["true"], "workdir": "/", "hold": True}] * 25}
    )
    seen: list[int] = []
    cursor = ""
    while True:
        _, page = home.api("GET", f"/jobs?state=held&limit=10&cursor={cursor}")
        seen += [job["id"] for job in page["items"]]
        cursor = page["cursor"]
        if not cursor:
            break

    assert seen == made["ids"]
    newest = home.rota("queue", "-q", "--last", "3").stdout.split()
    assert newest == [str(job) for job in made["ids"][-3:]]


def test_wait_tells_by_its_exit_code_how_the_jobs_ended(home: Box) -> None:
    good, bad = home.job(["true"]), home.job(["false"])
    long = home.job(UNTIL_GO)

    codes = [
        home.rota("wait", *map(str, jobs), "--timeout", timeout, check=False).returncode
        for jobs, timeout in (((good,), "60"), ((good, bad), "60"), ((good, long), "0.2"))
    ]
    (home.work / "go").touch()

    assert codes == [0, 1, 124]


def test_cancel_takes_one_several_or_all_and_refuses_what_has_ended(home: Box) -> None:
    done = home.ran(["true"])["id"]
    jobs = [home.job(["sleep", "300"]) for _ in range(6)]
    home.reach(jobs[0], "running")

    one = home.rota("cancel", str(jobs[0]))
    again = home.rota("cancel", str(done), check=False)
    everything = home.rota("cancel", "--all")

    assert one.stdout == f"cancelled {jobs[0]}\n"
    assert again.returncode == 1
    assert len(again.stderr.splitlines()) == 1
    assert "cancelled" in everything.stdout
    assert {home.ended(job)["state"] for job in jobs} == {"cancelled"}
    assert home.show(done)["state"] == "completed"


def test_cancel_by_user_spares_nobody_of_that_name(home: Box) -> None:
    jobs = [home.job(["sleep", "300"], hold=bool(n % 2)) for n in range(2)]

    home.rota("cancel", "-u", home.status()["user"])

    assert {home.ended(job)["state"] for job in jobs} == {"cancelled"}
    assert {home.ended(job)["cause_code"] for job in jobs} == {"cancelled"}


def test_killing_a_follower_does_not_touch_the_job(home: Box) -> None:
    follower = subprocess.Popen(
        [sys.executable, "-m", "rota.cli.main", "run", "--", "sh", "-c", f"echo up; {UNTIL_GO}"],
        cwd=home.work,
        env=home.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    assert follower.stdout.readline() == "up\n"

    follower.kill()
    follower.communicate(timeout=60)
    (home.work / "go").touch()

    _, page = home.api("GET", "/jobs?order=-id&limit=1")
    assert home.ended(page["items"][0]["id"])["state"] == "completed"
    until(lambda: home.status()["jobs"].get("running", 0) == 0, "nothing to run any more")


def test_an_interrupted_run_cancels_its_job(home: Box) -> None:
    follower = subprocess.Popen(
        [sys.executable, "-m", "rota.cli.main", "run", "--", "sh", "-c", "echo up; sleep 300"],
        cwd=home.work,
        env=home.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    assert follower.stdout.readline() == "up\n"

    follower.send_signal(signal.SIGINT)
    _, said = follower.communicate(timeout=60)

    _, page = home.api("GET", "/jobs?order=-id&limit=1")
    assert page["items"][0]["state"] == "cancelled"
    assert follower.returncode != 0
    assert "Traceback" not in said


def test_a_run_whose_terminal_goes_away_leaves_its_job_running(home: Box) -> None:
    command = [sys.executable, "-m", "rota.cli.main", "run", "--", "sh", "-c", "echo up; sleep 300"]
    follower = subprocess.Popen(
        command,
        cwd=home.work,
        env=home.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    assert follower.stdout.readline() == "up\n"

    follower.send_signal(signal.SIGHUP)
    follower.communicate(timeout=60)

    _, page = home.api("GET", "/jobs?order=-id&limit=1")
    home.reach(page["items"][0]["id"], "running")
    assert follower.returncode == -signal.SIGHUP


def test_jobs_cancelled_as_soon_as_they_are_submitted_leave_the_box_empty(home: Box) -> None:
    jobs = []
    for _ in range(20):
        jobs.append(home.job(["sleep", "300"], resources={"cpus": 1, "gpus": 1}))
        home.api("DELETE", f"/jobs/{jobs[-1]}")

    assert {home.ended(job)["state"] for job in jobs} == {"cancelled"}
    _, node = home.api("GET", "/nodes/box")
    assert (node["used"]["cpus"], node["used"]["gpus"]) == (0, 0)
    after = home.ran("echo $CUDA_VISIBLE_DEVICES", resources={"cpus": 4, "gpus": 4})
    assert home.output(after["id"]) == "0,1,2,3\n"


def test_a_job_that_many_cancel_at_once_ends_once_and_leaves_nothing(home: Box) -> None:
    job = home.job(["sleep", "300"], resources={"cpus": 4, "gpus": 4})
    home.reach(job, "running")

    with ThreadPoolExecutor(8) as crowd:
        answers = list(crowd.map(lambda _: home.api("DELETE", f"/jobs/{job}")[0], range(8)))

    ended = home.ended(job)
    assert 202 in answers
    assert set(answers) <= {202, 409}, "taken, or too late"
    assert (ended["state"], len(ended["attempts"])) == ("cancelled", 1)
    kinds = [event["kind"] for event in home.api("GET", f"/jobs/{job}/events")[1]["items"]]
    assert kinds.count("job-settled") == 1
    assert home.api("GET", "/nodes/box")[1]["used"]["gpus"] == 0
