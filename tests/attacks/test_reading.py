"""Nobody sees what is another's: not through the service, and not past it."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.attacks.people import Person, python_of
from tests.journeys.box import Box, UnixConnection, until

SECRET = "TOPSECRET"
#: Waits for a change of what is asked for, or for ever.
STREAMS = ("/events", "/jobs/wait")
SHAKE = (
    "GET /api/v1/jobs/{} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@pytest.fixture
def jobs(alice: Person) -> Iterator[list[str]]:
    """Jobs of the victim, running and over, with a secret in all that is the victim's."""
    fields: dict[str, Any] = {
        "name": "public",
        "labels": {"what": SECRET},
        "env": {"WHAT": SECRET},
        "variables": {"ROTA_RESULT_DIR": str(alice.work), "MORE": SECRET},
        "stdin": SECRET,
        "workdir": str(alice.work),
        "secrets": ["HERS"],
    }
    assert alice.api("PUT", "/secrets/HERS", {"value": SECRET})[0] in (200, 201, 204)
    say = f'echo {SECRET} $HERS; echo {SECRET} > "$ROTA_CHECKPOINT_DIR/{SECRET}";'
    say += f" echo {SECRET} > $ROTA_JOB_ID.0.result"
    over = alice.ran(say, **fields)["id"]
    runs = alice.job(f"{say}; exec sleep 300", pty=True, **(fields | {"stdin": ""}))
    array = alice.job(f"{say}; exec sleep 300", array="3-4", **fields)
    alice.reach(runs, "running")
    until(lambda: SECRET in alice.output(runs), "the job to have said it")
    alice.api("POST", f"/jobs/{runs}/checkpoint", {"path": SECRET, "note": SECRET, "step": 1})
    assert SECRET in alice.output(over)
    fails = [
        alice.ran(["true"], workdir=f"/no/{SECRET}"),
        alice.ran([f"/no/{SECRET}"], name="public"),
        alice.ran(["true"], output=f"/no/{SECRET}/out"),
    ]
    return [str(over), str(runs), str(array), f"{array}_3", *(str(job["id"]) for job in fails)]


def routes(box: Box) -> dict[str, dict[str, Any]]:
    connection = UnixConnection(box.state / "rota.sock")
    connection.request("GET", "/openapi.json")
    document = json.loads(connection.getresponse().read())
    connection.close()
    return dict(document["paths"])


def test_no_question_about_the_job_of_another_is_answered_with_what_is_theirs(
    town: Box, alice: Person, mallory: Person, jobs: list[str]
):
    """Every route that can be read, for every kind of job."""
    told, asked = {}, 0

    for path in routes(town):
        if "get" not in routes(town)[path] or path.removeprefix("/api/v1") in STREAMS:
            continue
        for job in jobs if "{job_id}" in path else [""]:
            filled = re.sub(r"\{job_id\}", job, path)
            filled = re.sub(r"\{[a-z_]+\}", alice.user, filled)
            queries = ["", f"?user={alice.user}", "?full=true", f"?search={SECRET}", "?tail=5"]
            for query in queries:
                status, body = mallory.asks("GET", filled + query, timeout_s=20)
                asked += 1
                if SECRET.encode() in body.replace(f"'{SECRET}'".encode(), b""):
                    told[filled + query] = (status, body[-200:])

    assert told == {}
    assert asked > 200


def test_the_stream_of_events_tells_nothing_of_anothers_jobs(
    alice: Person, mallory: Person, jobs: list[str]
):
    own = mallory.job(["true"], name="mine")
    connection = UnixConnection(mallory.state / "rota.sock", user=mallory.user)
    connection.request("GET", "/api/v1/events?after=0")
    answer = connection.getresponse()
    heard = b""
    while f'"job":{own}'.encode() not in heard.replace(b" ", b"") and len(heard) < 1 << 20:
        heard += answer.read1(4096)
    connection.close()

    assert SECRET.encode() not in heard
    assert f'"{alice.user}"'.encode() not in heard


def test_nobody_enters_the_terminal_or_the_ports_of_another(
    alice: Person, mallory: Person, jobs: list[str]
):
    """By the service, by the socket beside it, or by a detour over a job of one's own."""
    own = mallory.job(["sleep", "300"])
    mallory.reach(own, "running")
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        ways = [f"{jobs[1]}/attach", f"{jobs[1]}/forward?port={port}", f"{own}/forward?port={port}"]
        answers = [_shaken(mallory, way) for way in ways]
        ours.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ours.accept()
    attempt = alice.api("GET", f"/jobs/{jobs[1]}/attempts")[1]["items"][0]["uid"]
    terminal = mallory.state / "agent" / "scripts" / f"{attempt}.tty"

    assert terminal.exists()
    assert b"belongs to" in answers[0]
    assert b"belongs to" in answers[1]
    assert SECRET.encode() not in b"".join(answers)
    assert b"is not the job's" in answers[2]
    assert mallory.python(CONNECT, str(terminal)) == "PermissionError\n"


def _shaken(person: Person, way: str) -> bytes:
    local = UnixConnection(person.state / "rota.sock", 20, person.user)
    local.connect()
    local.sock.sendall(SHAKE.format(way).encode())
    heard = b""
    while piece := local.sock.recv(4096):
        heard += piece
        if b"is not the job's" in heard or b"belongs to" in heard:
            break
    local.close()
    return heard


CONNECT = """
import socket, sys
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print("connected")
    except OSError as error:
        print(type(error).__name__)
"""
#: Reads, writes, lists, adds to and removes what it is told to; says what it could.
TOUCH = """
import os, sys
for path in sys.stdin.read().split("\\0"):
    tries = {
        "read": lambda: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)),
        "write": lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)),
        "list": lambda: os.listdir(path),
        "add": lambda: os.mkdir(path + "/new"),
        "link": lambda: os.link(path, "linked", follow_symlinks=False),
        "move": lambda: os.rename(path, path + ".moved"),
        "remove": lambda: os.unlink(path),
        "mode": lambda: os.chmod(path, 0o777),
        "time": lambda: os.utime(path),
    }
    for name, act in tries.items():
        try:
            act()
            print(name, path)
        except OSError:
            pass
"""


def test_no_file_of_the_service_or_of_anothers_job_can_be_read_or_changed(
    alice: Person, mallory: Person, jobs: list[str]
):
    """Every file and folder of the service: database, keys, journal, logs, scripts, saved work."""
    mallory.ran("echo mine")
    everything = [str(path) for path in sorted(mallory.state.rglob("*"))]
    theirs = [path for path in everything if os.lstat(path).st_uid != mallory.uid]
    names = mallory.write("names", "\0".join(theirs))

    script = f"import sys; sys.stdin = open({str(names)!r})\n{TOUCH}"
    reached = mallory.python(script).splitlines()

    open_to_all = {f"{word} {mallory.state}/rota.sock" for word in ("read", "write", "time")}
    assert set(reached) <= open_to_all
    assert len(theirs) > 25
    assert [str(p) for p in sorted(mallory.state.rglob("*")) if str(p) in everything] == everything


def test_nobody_but_root_speaks_to_the_keeper(mallory: Person):
    socket_path = mallory.state / "agent" / "keeper.sock"

    assert stat.S_ISSOCK(socket_path.stat().st_mode)
    assert mallory.python(CONNECT, str(socket_path)) == "PermissionError\n"


def test_no_process_shows_a_secret_on_its_command_line(
    town: Box, alice: Person, mallory: Person, jobs: list[str]
):
    """What everybody can read: ps."""
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((folder / "cmdline").read_bytes())
        except OSError:
            continue
    own = {(town.state / "job-tokens.key").read_bytes()}

    assert not [line for line in lines if any(secret in line for secret in own)]
    rota = [line for line in lines if b"rota" in line and b"sleep" not in line]
    assert not [line for line in rota if SECRET.encode() in line]


def test_a_log_or_a_result_that_leads_to_a_file_of_another_is_not_read(
    alice: Person, mallory: Person, flag: Path, jobs: list[str]
):
    """Links, hard links and names that change while they are read."""
    attempt = alice.api("GET", f"/jobs/{jobs[0]}/attempts")[1]["items"][0]["uid"]
    log = mallory.state / "agent" / "logs" / f"{attempt}.out"
    assert SECRET in log.read_text()
    told = []
    for target in (log, alice.work / "private.txt", flag, Path("/etc/shadow")):
        for way in ("stdout", "result"):
            (mallory.work / "to").unlink(missing_ok=True)
            (mallory.work / "to").symlink_to(target)
            job = mallory.ran(
                'ln -sf "$(readlink to)" out; ln -sf "$(readlink to)" "$ROTA_JOB_ID.0.result"',
                output="out",
                variables={"ROTA_RESULT_DIR": str(mallory.work)},
            )["id"]
            path = f"/jobs/{job}/result" if way == "result" else f"/jobs/{job}/logs"
            queries = ("", "?tail=3", f"?search={quote('TOP')}")
            told += [mallory.asks("GET", f"/api/v1{path}{query}") for query in queries]
            (mallory.work / "out").unlink(missing_ok=True)

    assert not [body for _, body in told if SECRET.encode() in body or b"root" in body[:5]]
    assert 200 not in {status for status, body in told if body}


def test_a_secret_of_another_is_not_given_to_a_job_that_names_it(mallory: Person, jobs: list[str]):
    status, answer = mallory.api(
        "POST", "/jobs", {"command": "echo $HERS", "workdir": "/", "secrets": ["HERS"]}
    )

    assert status in (400, 404, 409), answer
    assert mallory.api("GET", "/secrets")[1]["items"] == []


def test_who_reads_what_belongs_to_another_by_the_command_line_is_told_in_one_line(
    mallory: Person, jobs: list[str]
):
    python_of(mallory.user)

    done = [
        mallory.rota(*words, jobs[0], check=False)
        for words in (["logs"], ["artifacts"], ["resubmit"], ["show", "--full"])
    ]
    refused = [mallory.rota("audit", check=False), mallory.rota("logs", jobs[0], check=False)]

    assert all(SECRET not in one.stdout + one.stderr for one in done)
    assert all(one.returncode != 0 and len(one.stderr.splitlines()) == 1 for one in refused)
