"""The tests give the same answer in the background, where a shell lets programs ignore Ctrl-C."""

import signal
import subprocess
import sys

import pytest

from tests.support.machine import REPOSITORY

#: One that sends Ctrl-C to a program, as a person would.
SENDS = "tests/cli/test_follow.py"


@pytest.mark.slow
def test_a_test_that_sends_ctrl_c_passes_where_that_is_ignored():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            SENDS,
            "-k",
            "stopped_without",
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
