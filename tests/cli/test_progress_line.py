"""What the scripts say while something takes long: one line that tells what and since when."""

import os
import pty
import subprocess

from tests.support.machine import REPOSITORY

ENVIRONMENT = REPOSITORY / "script" / "lib" / "environment.sh"


def shell(text: str, **more: object) -> subprocess.CompletedProcess[bytes]:
    command = ["bash", "-c", f". {ENVIRONMENT}; {text}"]
    return subprocess.run(command, check=False, **more)  # type: ignore[call-overload,no-any-return]


def test_on_a_terminal_a_line_says_what_is_done_and_for_how_long():
    ours, theirs = pty.openpty()

    done = shell("with_progress sh -c 'echo fetching; sleep 2.5'", stderr=theirs)

    os.close(theirs)
    seen = os.read(ours, 65_536).decode()
    os.close(ours)
    assert done.returncode == 0
    assert " 1 s  fetching" in seen
    assert seen.endswith("\r\x1b[K")


def test_a_command_that_fails_shows_all_that_it_said_and_its_code():
    done = shell("with_progress sh -c 'echo one; echo two >&2; exit 3'", capture_output=True)

    assert (done.returncode, done.stderr) == (3, b"one\ntwo\n")
