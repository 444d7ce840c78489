"""The tests give the same answer in the background, where a shell lets programs ignore Ctrl-C."""

import subprocess
import sys

import pytest

from tests.support.machine import REPOSITORY

#: One that sends Ctrl-C to a program, as a person would.
SENDS = "tests/cli/test_follow.py"
#: Less than what the test itself may take, so that one that hangs there shows where.
TIMEOUT_S = 120


@pytest.mark.slow
def test_a_test_that_sends_ctrl_c_passes_where_that_is_ignored():
    done = subprocess.run(
        [
            # Not by Python between fork and exec: other threads of a worker may hold its locks.
            *("sh", "-c", 'trap "" INT; exec "$@"', "sh"),
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-o", f"timeout={TIMEOUT_S}", SENDS, "-k", "stopped_without"),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
