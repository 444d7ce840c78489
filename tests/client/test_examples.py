"""Every program in examples/ runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.machine import REPOSITORY

EXAMPLES = REPOSITORY / "examples"

#: Example -> a line that it prints.
SAYS = {
    "async_example.py": "the smallest factor of 1001 is 7",
    "graph_example.py": "the best rate is 0.3 with a loss of 1.2e-16",
    "pool_example.py": "the best of a thousand scores is 96",
}
#: Run elsewhere: in the first minutes, and on two machines.
ELSEWHERE = {"cluster_example.py", "torch_example.py"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "line"), SAYS.items())
def test_an_example_runs_and_says_what_it_found(name: str, line: str, tmp_path: Path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert line in done.stdout.splitlines()


def test_no_example_is_left_without_a_test():
    assert {path.name for path in EXAMPLES.glob("*.py")} == SAYS.keys() | ELSEWHERE
