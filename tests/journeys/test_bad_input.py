"""Bad input: one clear line, a non-zero exit, no traceback, no half-made job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.journeys.box import Box

#: What is wrong -> the words of the command line, and what the one line must contain.
BAD = {
    "unknown command": (["sumbit", "--", "true"], "did you mean 'submit'"),
    "unknown option": (["submit", "--cpuz", "3", "--", "true"], "--cpus"),
    "option without a value": (["submit", "--cpus"], "--cpus"),
    "nothing to run": (["submit"], "nothing to run"),
    "an empty command": (["submit", "--", ""], "empty"),
    "a missing script": (["submit", "no-such-file.sh"], "no-such-file.sh"),
    "no command at all": (["submit"], "nothing to run"),
    "missing command": (["submit", "--", "no-such-program"], "no-such-program"),
    "missing work folder": (["submit", "--workdir", "/no/such/folder", "--", "true"], "folder"),
    "malformed size": (["submit", "--mem", "12q", "--", "true"], "16GB"),
    "negative size": (["submit", "--mem", "-1g", "--", "true"], "-1g"),
    "malformed time": (["submit", "--time", "1q", "--", "true"], "HH:MM:SS"),
    "negative time": (["submit", "--time", "-5", "--", "true"], "-5"),
    "negative cpus": (["submit", "--cpus", "-1", "--", "true"], "-1"),
    "no cpus at all": (["submit", "--cpus", "nan", "--", "true"], "nan"),
    "negative gpus": (["submit", "--gpus", "-2", "--", "true"], "-2"),
    "negative retries": (["submit", "--retries", "-1", "--", "true"], "-1"),
    "no tasks": (["submit", "--tasks", "0", "--", "true"], "0"),
    "malformed array": (["submit", "--array", "1-x", "--", "true"], "array"),
    "falling array": (["submit", "--array", "9-1", "--", "true"], "must rise"),
    "endless array": (["submit", "--array", "0-99999999999", "--", "true"], "array"),
    "malformed priority": (["submit", "--priority", "urgentest", "--", "true"], "high, normal"),
    "priority too high": (["submit", "--priority", "101", "--", "true"], "0 to 100"),
    "malformed umask": (["submit", "--umask", "999", "--", "true"], "octal"),
    "unknown ulimit": (["submit", "--ulimit", "nosuch=1", "--", "true"], "nosuch"),
    "malformed begin": (["submit", "--begin", "someday", "--", "true"], "someday"),
    "malformed sweep": (["submit", "--param", "lr", "--", "true"], "lr"),
    "shared without memory": (["submit", "--gpus", "1", "--shared", "--", "true"], "--gpu-mem"),
    "unknown parent": (["submit", "--after-ok", "987654", "--", "true"], "987654"),
    "malformed parent": (["submit", "--after-ok", "nobodys", "--", "true"], "nobodys"),
    "unknown restart": (["submit", "--restart", "sometimes", "--", "true"], "sometimes"),
    "label without value": (["submit", "--label", "=x", "--", "true"], "label"),
    "unknown job": (["show", "987654"], "no job 987654"),
    "malformed job": (["show", "twelve"], "twelve"),
    "unknown state": (["queue", "-s", "quueued"], "did you mean queued"),
    "unknown field": (["queue", "--fields", "nmae"], "did you mean name"),
    "unknown node": (["node", "drain", "nowhere"], "nowhere"),
    "wait for nobody": (["wait", "987654"], "no job 987654"),
    "malformed timeout": (["wait", "1", "--timeout", "soon"], "soon"),
    "logs of nobody": (["logs", "987654"], "no job 987654"),
    "cancel of nothing": (["cancel"], "which jobs"),
    "malformed address": (["up", "--listen", "nonsense"], "HOST:PORT"),
    "unknown access": (["token", "create", "--access", "god"], "admin"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_gives_one_clear_line_and_no_job(home: Box, what: str) -> None:
    words, clue = BAD[what]
    before = _jobs(home)

    line = home.refusal(*words)

    assert clue in line
    assert _jobs(home) == before


def test_an_environment_of_ten_megabytes_is_refused(home: Box) -> None:
    before = _jobs(home)
    env = {f"V{number}": "x" * 100_000 for number in range(100)}
    (home.work / "fat.sh").write_text(f"#ROTA --env FAT={'x' * 200_000}\ntrue\n")

    status, problem = home.api("POST", "/jobs", {"command": ["true"], "workdir": "/", "env": env})
    line = home.refusal("submit", "fat.sh")

    assert (status, problem["field"]) == (400, "env")
    assert "FAT" in line
    assert _jobs(home) == before


@pytest.mark.parametrize(
    "junk", [b"\x7fELF\0\0\1", b"\xff\xfe\xfa" * 50, b"", b"#!/bin/sh\r\nls\r\n"]
)
def test_binary_junk_as_a_script_is_refused(home: Box, junk: bytes) -> None:
    (home.work / "junk").write_bytes(junk)
    before = _jobs(home)

    line = home.refusal("submit", "junk")

    assert line.startswith("rota: junk: ")
    assert _jobs(home) == before


#: What is wrong -> the body of the request and the field that the answer must name.
BAD_BODIES = {
    "unknown field": ({"comand": ["true"], "workdir": "/"}, "comand"),
    "no command": ({"workdir": "/"}, "command"),
    "relative folder": ({"command": ["true"], "workdir": "here"}, "workdir"),
    "cpus as text": (
        {"command": ["true"], "workdir": "/", "resources": {"cpus": "many"}},
        "resources.cpus",
    ),
    "negative memory": (
        {"command": ["true"], "workdir": "/", "resources": {"memory_mb": -1}},
        "resources.memory_mb",
    ),
    "NUL in a word": ({"command": ["tr\0ue"], "workdir": "/"}, "command[0]"),
    "a variable without a name": (
        {"command": ["true"], "workdir": "/", "env": {"": "x"}},
        "env",
    ),
    "both command and script": ({"command": ["true"], "script": "x", "workdir": "/"}, "script"),
    "a user's name": ({"command": ["true"], "workdir": "/", "user": "root"}, "user"),
}


@pytest.mark.parametrize("what", BAD_BODIES)
def test_a_bad_request_is_answered_with_a_problem_that_names_the_field(
    home: Box, what: str
) -> None:
    body, field = BAD_BODIES[what]
    before = _jobs(home)

    status, problem = home.api("POST", "/jobs", body)

    assert status == 400
    assert problem["field"] == field
    assert problem["detail"]
    assert problem["title"] == "Bad Request"
    assert _jobs(home) == before


def _jobs(box: Box) -> dict[str, int]:
    _, status = box.api("GET", "/status")
    return dict(status["jobs"])
