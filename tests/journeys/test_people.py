"""Several people on one box: the system says who they are, roles say what they may do."""

from __future__ import annotations

import http.client
import json
import os
import pwd
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHER = "nobody"


@pytest.fixture
def town(open_folder: Path, new_box: Callable[..., Box]) -> Box:
    """A box that other users can reach, with a folder for the other one."""
    box = new_box(open_folder / "box")
    box.up()
    return box


@pytest.fixture
def other(town: Box, open_folder: Path) -> Box:
    """The same box as the other user sees it."""
    folder = open_folder / "theirs"
    folder.mkdir()
    entry = pwd.getpwnam(OTHER)
    os.chown(folder, entry.pw_uid, entry.pw_gid)
    return town.at(folder, user=OTHER)


@pytest.mark.root
def test_a_job_runs_as_the_user_who_submitted_it(other: Box) -> None:
    ended = other.ran("id -un; id -gn; touch made; echo $HOME; cat /proc/self/loginuid >/dev/null")

    assert ended["user"] == OTHER
    assert other.output(ended["id"]).split()[0] == OTHER
    made = os.stat(other.work / "made")
    assert made.st_uid == pwd.getpwnam(OTHER).pw_uid


@pytest.mark.root
def test_jobs_of_several_users_run_side_by_side_each_as_its_own(
    town: Box, open_folder: Path
) -> None:
    people = ("nobody", "daemon", "games")
    boxes = [town.at(open_folder, user=name) for name in people]

    jobs = [(each.user, each.job("id -un")) for _ in range(5) for each in boxes]

    assert [town.output(town.ended(job)["id"]).strip() for _, job in jobs] == [
        user for user, _ in jobs
    ]
    for user in people:
        listed = town.api("GET", f"/users/{user}/jobs")[1]["items"]
        assert [job["id"] for job in listed] == [job for owner, job in jobs if owner == user]


@pytest.mark.root
def test_a_users_script_is_theirs_to_run_and_its_output_theirs_to_read(other: Box) -> None:
    ended = other.ran(script="#!/bin/sh\necho $0; whoami", output="out.txt")

    assert ended["exit_code"] == 0, ended["cause"]
    assert other.read("out.txt").split()[-1] == OTHER
    assert os.stat(other.work / "out.txt").st_uid == pwd.getpwnam(OTHER).pw_uid


@pytest.mark.root
def test_a_user_cannot_write_where_they_could_not_by_themselves(other: Box) -> None:
    ended = other.ran(["true"], output="/etc/rota-was-here")

    assert ended["state"] == "failed"
    assert "/etc/rota-was-here" in ended["cause"]
    assert not os.path.exists("/etc/rota-was-here")


@pytest.mark.root
def test_a_user_can_neither_touch_nor_look_into_the_jobs_of_others(town: Box, other: Box) -> None:
    job = town.job("echo secret; sleep 300", labels={"what": "secret"})
    town.reach(job, "running")

    seen = other.api("GET", f"/jobs/{job}")[1]
    tries = [
        other.api("DELETE", f"/jobs/{job}"),
        other.api("PATCH", f"/jobs/{job}", {"priority": 1}),
        other.api("GET", f"/jobs/{job}/logs"),
        other.api("POST", "/nodes/box:drain", {}),
    ]
    _, everything = other.api("POST", "/jobs:cancel", {"all": True})

    assert "secret" not in json.dumps(seen)
    assert [status for status, _ in tries] == [403, 403, 403, 403]
    assert everything["changed"] == []
    assert town.state_of(job) == "running"


@pytest.mark.root
def test_the_administrator_may_cancel_everybodys_jobs(town: Box, other: Box) -> None:
    mine, theirs = town.job(["sleep", "300"]), other.job(["sleep", "300"])

    town.rota("cancel", "-u", OTHER, "--yes")

    assert town.ended(theirs)["state"] == "cancelled"
    assert town.state_of(mine) in ("running", "scheduled")


@pytest.mark.root
def test_a_made_up_user_in_the_request_is_refused(other: Box) -> None:
    status, answer = other.api("POST", "/jobs", {"command": ["id"], "workdir": "/", "user": "root"})

    assert (status, answer["field"]) == (400, "user")


def test_over_the_network_nothing_is_open_without_a_token(home: Box) -> None:
    status, problem, headers = _over_tcp(home, "GET", "/jobs", "")
    wrong = _over_tcp(home, "GET", "/jobs", "rota_1_guess")

    assert (status, problem["code"]) == (401, "unauthenticated")
    assert "Bearer" in headers["www-authenticate"]
    assert wrong[0] == 401


#: What is asked for -> who may: viewer, user, operator, admin.
ALLOWED = {
    ("GET", "/jobs", None): (200, 200, 200, 200),
    ("POST", "/jobs", '{"command": ["true"], "workdir": "/"}'): (403, 201, 201, 201),
    ("POST", "/nodes/box:drain", "{}"): (403, 403, 200, 200),
    ("POST", "/nodes/box:resume", "{}"): (403, 403, 200, 200),
    ("POST", "/tokens", '{"user": "ann", "access": "admin"}'): (403, 403, 403, 201),
}


@pytest.mark.parametrize("column", range(4), ids=["viewer", "user", "operator", "admin"])
def test_a_token_may_do_what_its_role_allows_and_no_more(home: Box, column: int) -> None:
    access = ["viewer", "user", "operator", "admin"][column]
    made = json.loads(
        home.rota("token", "create", "--user", "root", "--access", access, "--json").stdout
    )

    answers = {
        asked: _over_tcp(home, asked[0], asked[1], made["token"], asked[2])[0] for asked in ALLOWED
    }

    assert answers == {asked: codes[column] for asked, codes in ALLOWED.items()}


def test_a_token_works_from_the_command_line_until_it_is_revoked(home: Box) -> None:
    made = json.loads(home.rota("token", "create", "--json").stdout)
    env = {"ROTA_URL": home.status()["controller"]["url"], "ROTA_TOKEN": made["token"]}

    job = home.submit("--", "true", env=env)
    home.rota("token", "revoke", "--yes", str(made["id"]))
    line = home.refusal("queue", env=env)

    assert home.ended(job)["state"] == "completed"
    assert "token" in line
    assert made["token"] not in home.rota("token", "list", "--json").stdout
    database = b"".join(path.read_bytes() for path in home.state.glob("rota.db*"))
    assert made["token"].encode() not in database, "secrets are kept as digests only"


def test_who_did_what_is_on_record(home: Box) -> None:
    made = json.loads(
        home.rota("token", "create", "--user", "root", "--access", "operator", "--json").stdout
    )
    job = home.job(["true"], hold=True)
    _over_tcp(home, "PATCH", f"/jobs/{job}", made["token"], '{"action": "release"}')
    until(lambda: home.ended(job), "the job to end")

    _, events = home.api("GET", f"/jobs/{job}/events")

    kinds = {event["kind"]: event["actor"] for event in events["items"]}
    assert kinds["job-submitted"] == home.status()["user"]
    released = next(kind for kind in kinds if "release" in kind or "held" in kind)
    assert kinds[released] == "root"


def _over_tcp(
    box: Box, method: str, path: str, token: str, body: str | None = None
) -> tuple[int, Any, Any]:
    _, status = box.api("GET", "/status")
    connection = http.client.HTTPConnection(
        urlsplit(status["controller"]["url"]).netloc, timeout=60
    )
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        connection.request(method, f"/api/v1{path}", body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"null"), response.headers
    finally:
        connection.close()


@pytest.mark.root
def test_down_of_another_user_says_whose_rota_it_is(town: Box) -> None:
    stranger = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    town.state.chmod(0o700)

    done = subprocess.run(
        [*stranger, sys.executable, "-m", "rota.cli.main", "down"],
        cwd="/",
        env=town.env | {"HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"rota: the Rota with its state in {town.state} is of root: only root can stop it\n"
    )
    assert town.status()["controller"]["pid"]
