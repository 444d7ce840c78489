"""What type checkers see of the Python API."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.machine import REPOSITORY

#: Knows nothing of Rota, and needs torch.
APART = {"torch_example.py"}


@pytest.mark.slow
def test_the_examples_pass_a_strict_check_and_wrong_calls_do_not(tmp_path: Path):
    examples = sorted((REPOSITORY / "examples").glob("*.py"))
    checked = [str(path) for path in examples if path.name not in APART]

    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores",
            "--follow-imports=silent", "--config-file=", f"--cache-dir={tmp_path}",
            "--ignore-missing-imports", "tests/client/typed/calls.py", *checked,
        ],
        cwd=REPOSITORY,
        env={**os.environ, "MYPYPATH": str(REPOSITORY / "src")},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout
