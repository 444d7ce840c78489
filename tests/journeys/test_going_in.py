"""Going into running jobs: a command, a shell, an attach that is refused, a port that waits."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import DEADLINE_S, until
from tests.journeys.test_attach import DETACH, Screen
from tests.support.ports import quiet_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.journeys.box import Box

ROTA = (sys.executable, "-m", "rota.cli.main")
FOREVER = "while :; do sleep 0.1; done"
SERVER = (
    "import http.server as h, os, sys, time\nwhile not os.path.exists('go'): time.sleep(0.02)\n"
)
SERVER += (
    "h.HTTPServer(('127.0.0.1', int(sys.argv[1])), h.SimpleHTTPRequestHandler).serve_forever()"
)


@pytest.fixture
def sit_at() -> Iterator[Callable[..., Screen]]:
    screens: list[Screen] = []

    def sit(box: Box, *args: str) -> Screen:
        screens.append(Screen(box, *args))
        return screens[-1]

    yield sit
    for screen in screens:
        screen.close()


def running(home: Box, command: list[str] | str = FOREVER, **fields: object) -> str:
    job = home.job(command, **fields)
    home.reach(job, "running")
    return str(job)


def test_a_command_runs_inside_a_job_and_its_code_is_ours(home: Box) -> None:
    asked = {"resources": {"gpus": 1}, "variables": {"FLAVOUR": "plum"}}
    job = running(home, **asked)

    script = "echo $FLAVOUR $ROTA_JOB_ID; pwd; echo bad >&2; exit 7"
    done = home.rota("exec", job, "--", "sh", "-c", script, check=False)

    assert done.stdout == f"plum {job}\n{home.work}\nbad\n"
    assert done.returncode == 7
    assert home.rota("exec", job, "--", "head", "-c", "1000000", "/dev/zero").stdout == "\0" * 10**6
    assert home.rota("exec", job, "--", "no-such-program", check=False).returncode == 127


def test_what_runs_inside_a_job_is_of_its_user_although_another_one_started_it(
    open_folder: Path, new_box: Callable[..., Box]
) -> None:
    box = new_box(open_folder / "box")
    box.up()
    command = ["sh", "-c", "echo out; echo err >&2; while :; do sleep 0.1; done"]
    job = box.at(open_folder, "nobody").job(command)
    box.reach(job, "running")

    done = box.rota("exec", str(job), "--", "id", "-un")
    both = until(lambda: box.output(job, "both").count("\n") == 2 and box.output(job, "both"), "it")

    assert done.stdout == "nobody\n"
    assert both == "out\nerr\n"


def test_what_runs_inside_ends_with_the_job(home: Box) -> None:
    job = running(home)
    going_in = subprocess.Popen(
        [*ROTA, "exec", job, "--", "sh", "-c", f"echo $$ > inside; {FOREVER}"],
        cwd=home.work,
        env=home.env,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    pid = int(until(lambda: home.read("inside").strip(), "the program inside"))

    home.rota("cancel", job)
    _, err = going_in.communicate(timeout=DEADLINE_S)

    assert going_in.returncode == 2
    assert "Traceback" not in err
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the program inside to be gone")


def test_a_program_inside_is_hung_up_on_when_its_caller_leaves(home: Box) -> None:
    job = running(home)
    going_in = subprocess.Popen(
        [*ROTA, "exec", job, "--", "sh", "-c", f"echo $$ > inside; {FOREVER}"],
        cwd=home.work,
        env=home.env,
        stdin=subprocess.DEVNULL,
    )
    pid = int(until(lambda: home.read("inside").strip(), "the program inside"))

    going_in.kill()
    going_in.wait()

    until(lambda: not os.path.exists(f"/proc/{pid}"), "the program inside to be gone")
    assert home.api("GET", f"/jobs/{job}")[1]["state"] == "running"


def test_a_shell_inside_a_job_has_its_environment(home: Box, sit_at: Callable[..., Screen]) -> None:
    job = running(home, variables={"FLAVOUR": "plum"})
    screen = sit_at(home, "shell", job, "--shell", "sh")

    screen.type(b"echo got-$FLAVOUR-$ROTA_JOB_ID; stty size\n")
    screen.until(f"got-plum-{job}".encode())
    screen.until(b"33 111")
    screen.type(b"exit 3\n")

    assert screen.left() == 3
    assert "needs a terminal" in home.refusal("shell", job)


def test_leaving_a_shell_ends_it_and_not_the_job(home: Box, sit_at: Callable[..., Screen]) -> None:
    job = running(home)
    screen = sit_at(home, "shell", job, "--shell", "sh")
    screen.type(b"echo $$ > inside; echo writ''ten\n")
    screen.until(b"written")

    screen.type(DETACH)

    assert screen.left() == 0
    pid = home.read("inside").strip()
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the shell to be gone")
    assert home.api("GET", f"/jobs/{job}")[1]["state"] == "running"


def test_a_job_that_does_not_run_cannot_be_entered(home: Box) -> None:
    ended = str(home.ran("true")["id"])

    refusal = home.refusal("exec", ended, "--", "true")

    assert "is completed; only a running job can be entered" in refusal
    assert "run what?" in home.refusal("exec", ended)


def test_attaching_to_a_job_without_a_terminal_is_one_line_at_a_terminal(
    home: Box, sit_at: Callable[..., Screen]
) -> None:
    job, ended = running(home), str(home.ran("true", pty=True)["id"])
    for _ in range(3):
        for name, told in ((job, b"has no terminal; submit it with --pty"), (ended, b"only a")):
            screen = sit_at(home, "attach", name)

            assert screen.left() == 2
            screen.until(told)
            assert b"Traceback" not in screen.seen


class Forwarding:
    """``rota forward`` in the background."""

    def __init__(self, home: Box, *args: str) -> None:
        self.process = subprocess.Popen(
            [*ROTA, "forward", *args],
            cwd=home.work,
            env=home.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = ""
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join(DEADLINE_S)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def test_a_port_at_which_nothing_listens_is_told_and_never_leads_back(home: Box) -> None:
    job, port = running(home), quiet_port()
    forwarding = Forwarding(home, job, str(port))
    try:
        assert forwarding.process.stdout is not None
        forwarding.process.stdout.readline()

        with pytest.raises(OSError):  # noqa: PT011 - closed or reset
            urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=10)

        until(lambda: f"nothing listens on port {port} of the" in forwarding.said, "a word of it")
        assert f"nothing listens on port {port} of job {job} yet" in forwarding.said
        assert "Too many open files" not in forwarding.said
    finally:
        forwarding.close()


def test_forwarding_waits_for_the_job_to_listen_if_asked(home: Box) -> None:
    port = quiet_port()
    job = running(home, [sys.executable, "-c", SERVER, str(port)])
    forwarding = Forwarding(home, job, f"0:{port}", "--wait")
    try:
        until(lambda: "yet; waiting for it" in forwarding.said, "a word of it")
        (home.work / "go").touch()
        assert forwarding.process.stdout is not None
        here = forwarding.process.stdout.readline().partition(" ")[0]

        with urllib.request.urlopen(f"http://{here}/", timeout=30) as answer:
            assert answer.status == 200
    finally:
        forwarding.close()


def test_a_port_that_is_taken_here_is_told_with_what_to_do(home: Box, tmp_path: Path) -> None:
    port = quiet_port()
    (home.work / "go").touch()
    job = running(home, [sys.executable, "-c", SERVER, str(port)])
    until(lambda: not _is_free(port), "the server")

    told = home.refusal("forward", job, str(port))

    assert f"cannot listen on 127.0.0.1:{port}: address already in use; " in told
    assert f"open http://127.0.0.1:{port} itself" in told


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_ctrl_c_ends_what_runs_inside_and_its_code_is_ours(
    home: Box, sit_at: Callable[..., Screen]
) -> None:
    screen = sit_at(home, "exec", running(home), "--", "sh", "-c", "echo in; exec sleep 600")
    screen.until(b"in\r\n")

    screen.type(b"\x03")

    assert screen.left() == 130
    assert b"rota:" not in screen.seen
