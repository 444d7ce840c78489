"""A terminal here and a terminal there: attached, detached, shared, and gone with the job."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.journeys.box import DEADLINE_S, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.journeys.box import Box

DETACH = b"\x1dd"


class Screen:
    """A person at a terminal who runs one command of ``rota``."""

    def __init__(self, box: Box, *args: str, rows: int = 33, columns: int = 111) -> None:
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rota.cli.main", *args],
            cwd=box.work,
            env=box.env,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while piece := os.read(self.master, 4096):
                self.seen += piece
        except OSError:
            return

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def until(self, words: bytes) -> None:
        try:
            until(lambda: words in self.seen, f"{words!r} to be seen")
        except AssertionError as failure:
            code = self.process.poll()
            raise AssertionError(f"{failure}: {self.seen[-2000:]!r}, exit code {code}") from None

    def left(self) -> int:
        """The exit code of the command."""
        return self.process.wait(DEADLINE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        # Its number may be given to the next file at once, and must not be read from then.
        self._reader.join(DEADLINE_S)
        os.close(self.master)


@pytest.fixture
def sit_at(home: Box) -> Iterator[Callable[..., Screen]]:
    screens: list[Screen] = []

    def sit(*args: str, box: Box = home, **options: int) -> Screen:
        screens.append(Screen(box, *args, **options))
        return screens[-1]

    yield sit
    for screen in screens:
        screen.close()


def talker(box: Box, script: str = "echo ready; while read line; do echo got:$line; done") -> int:
    job = box.job(["sh", "-c", script], pty=True)
    box.reach(job, "running")
    return job


def is_alive(pid: int) -> bool:
    """Whether it can still do anything: a zombie only waits for its new parent to look."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_is_typed_reaches_the_job_and_its_exit_code_comes_back(
    home: Box, sit_at: Callable[..., Screen]
) -> None:
    job = talker(home, "echo ready; read line; printf '\\033[32mgot:%s\\033[0m\\n' $line; exit 7")

    screen = sit_at("attach", str(job))
    screen.until(b"ready")
    screen.type(b"hello\r")
    screen.until(b"\x1b[32mgot:hello\x1b[0m")

    assert screen.left() == 7, screen.seen
    assert home.output(job) == "ready\nhello\ngot:hello\n", "the log is clean text"


def test_the_window_has_the_size_of_the_callers_and_follows_it(
    home: Box, sit_at: Callable[..., Screen]
) -> None:
    job = talker(home, "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done")
    until(lambda: home.output(job) == "ready\n", "the trap to be set")

    screen = sit_at("attach", str(job), rows=33, columns=111)
    screen.until(b"33 111")
    screen.resize(44, 99)
    screen.process.send_signal(signal.SIGWINCH)

    screen.until(b"44 99")


def test_a_detached_job_goes_on_and_can_be_attached_again(
    home: Box, sit_at: Callable[..., Screen]
) -> None:
    job = talker(home)
    first = sit_at("attach", str(job))
    first.until(b"ready")
    first.type(b"one\r")
    first.until(b"got:one")

    first.type(DETACH)
    assert first.left() == 0, first.seen
    assert home.api("GET", f"/jobs/{job}")[1]["state"] == "running"
    second = sit_at("attach", str(job))
    second.until(b"got:one")
    second.type(b"two\r")
    second.until(b"got:two")
    second.type(b"\x04")

    assert second.left() == 0, second.seen
    assert home.ended(job)["state"] == "completed"


def test_several_may_look_and_one_who_only_looks_cannot_type(
    home: Box, sit_at: Callable[..., Screen]
) -> None:
    job = talker(home)
    writer, other = sit_at("attach", str(job)), sit_at("attach", str(job))
    looker = sit_at("attach", "--read-only", str(job))
    for screen in (writer, other, looker):
        screen.until(b"ready")

    looker.type(b"nonsense\r")
    other.type(b"mine\r")
    for screen in (writer, other, looker):
        screen.until(b"got:mine")

    assert b"got:nonsense" not in writer.seen
    looker.process.send_signal(signal.SIGINT)
    assert looker.left() == 0, looker.seen


def test_ctrl_c_goes_to_the_job(home: Box, sit_at: Callable[..., Screen]) -> None:
    job = talker(home, "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done")
    screen = sit_at("attach", str(job))
    screen.until(b"ready")

    screen.type(b"\x03")

    screen.until(b"caught")
    assert screen.left() == 3, screen.seen


def test_run_with_a_terminal_is_submit_and_attach(home: Box, sit_at: Callable[..., Screen]) -> None:
    screen = sit_at("run", "--pty", "--", "sh", "-c", "test -t 0 && echo tty:yes; read x; exit $x")
    screen.until(b"tty:yes")
    screen.type(b"4\r")

    assert screen.left() == 4, screen.seen
    absent = home.rota("run", "--pty", "--", "no-such-program", check=False)
    assert absent.returncode == 127
    assert "command not found: no-such-program" in absent.stdout + absent.stderr


def test_a_job_that_has_ended_is_not_said_to_go_on(home: Box) -> None:
    job = home.job(["true"], pty=True)
    home.ended(job)

    late = home.rota("attach", str(job), check=False)

    assert late.returncode == 2
    assert late.stderr == f"rota: job {job} is completed; only a running job can be entered\n"


def test_the_end_of_a_job_leaves_nothing_running(home: Box) -> None:
    """Children in the background, in sessions of their own, and those that ignore a hang-up."""
    mark = f"4711.{os.getpid()}"
    script = (
        f"sleep {mark} & setsid sleep {mark} & nohup sleep {mark} & "
        f"(trap '' HUP TERM; sleep {mark}; sleep {mark}) & echo ready; read x"
    )

    def marked() -> list[int]:
        found = psutil.process_iter(["cmdline"])
        return [p.pid for p in found if mark in " ".join(p.info["cmdline"] or ())]

    for end in ("by itself", "cancelled"):
        job = home.job(["sh", "-c", script], pty=True, grace_s=1)
        until(lambda job=job: "ready" in home.output(job), "its children to be there")
        pid = home.reach(job, "running")["attempts"][-1]["pid"]
        until(lambda: len(marked()) >= 4, "four children")
        if end == "cancelled":
            home.api("DELETE", f"/jobs/{job}")
        else:
            done = subprocess.run(
                [sys.executable, "-m", "rota.cli.main", "attach", str(job)],
                env=home.env,
                input=b"\n",
                capture_output=True,
                timeout=DEADLINE_S,
                check=False,
            )
            assert done.returncode == 0, done
        home.ended(job)

        assert marked() == [], end
        assert not is_alive(pid)


def test_a_terminal_outlives_agent_and_controller(
    new_box: Callable[..., Box], sit_at: Callable[..., Screen]
) -> None:
    box = new_box()
    box.up()
    job = talker(box)
    first = sit_at("attach", str(job), box=box)
    first.until(b"ready")

    box.kill("agent", "controller")
    assert first.left() != 0
    until(lambda: box.api("GET", "/nodes")[1]["items"][0]["state"] == "up", "the node to be back")

    def attached() -> Screen | None:
        screen = sit_at("attach", str(job), box=box)
        until(lambda: b"ready" in screen.seen or screen.process.poll() is not None, "an answer")
        return screen if b"ready" in screen.seen else None

    again = until(attached, "to be attached again")
    again.type(b"back\r")
    again.until(b"got:back")
    again.type(b"\x04")
    assert again.left() == 0, again.seen
    assert box.ended(job)["state"] == "completed"


def test_a_job_without_a_terminal_or_not_running_says_so(home: Box) -> None:
    plain = home.job(["sleep", "100"])
    home.reach(plain, "running")
    waiting = home.job(["true"], pty=True, hold=True)

    assert "has no terminal; submit it with --pty" in home.refusal("attach", str(plain))
    assert "is held; only a running job" in home.refusal("attach", str(waiting))
    assert (
        "no stdin"
        in home.api("POST", "/jobs", {"command": "true", "pty": True, "stdin": "x"})[1]["detail"]
    )


@pytest.mark.root
def test_a_terminal_of_another_user_has_their_rights(
    open_folder: Path, new_box: Callable[..., Box], sit_at: Callable[..., Screen]
) -> None:
    box = new_box(open_folder / "box")
    box.up()
    theirs = box.at(open_folder, "nobody")
    job = theirs.job(["sh", "-c", "id -un; stat -c %U $(tty); read x; exit 6"], pty=True)
    box.reach(job, "running")

    screen = sit_at("attach", str(job), box=box)
    screen.until(b"nobody\r\nnobody")
    screen.type(b"\r")

    assert screen.left() == 6, screen.seen


def test_a_terminal_outlives_the_keeper_and_its_end_leaves_nothing(
    new_box: Callable[..., Box], sit_at: Callable[..., Screen]
) -> None:
    box = new_box()
    box.up()
    job = talker(box)
    pid = box.reach(job, "running")["attempts"][-1]["pid"]

    box.kill("keeper")
    until(lambda: box.pid("keeper"), "the next keeper")
    screen = sit_at("attach", str(job), box=box)
    screen.until(b"ready")
    screen.type(b"still here\r")
    screen.until(b"got:still here")
    box.api("DELETE", f"/jobs/{job}")

    assert box.ended(job)["state"] == "cancelled"
    assert not is_alive(pid)


def test_a_job_that_prints_faster_than_anybody_reads_is_not_slowed_down(
    home: Box, sit_at: Callable[..., Screen]
) -> None:
    count = 300_000
    job = home.job(["sh", "-c", f"echo ready; read x; seq {count}; echo done; read x"], pty=True)
    home.reach(job, "running")
    idle = sit_at("attach", str(job))
    busy = sit_at("attach", str(job))
    for screen in (idle, busy):
        screen.until(b"ready")
    os.kill(idle.process.pid, signal.SIGSTOP)

    busy.type(b"\r")
    busy.until(b"done\r\n")
    busy.type(b"\r")

    assert home.ended(job)["state"] == "completed"
    lines = home.output(job).split()
    assert lines[1 : count + 1] == [str(number) for number in range(1, count + 1)]
    os.kill(idle.process.pid, signal.SIGCONT)
