"""What this machine offers to the tests, and what happens where something is missing."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def in_ci() -> bool:
    """Whether continuous integration runs the tests: there, nothing may be left out."""
    return os.environ.get("CI", "").lower() not in {"", "0", "false"}


def missing(what: str) -> NoReturn:
    """End the test that needs something absent: a skip at a desk, a failure in CI."""
    if in_ci():
        pytest.fail(f"{what} (CI is set: nothing is skipped)", pytrace=False)
    pytest.skip(what)


@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[None]:
    """A file system of its own at the folder, gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        missing(f"mounting is not permitted here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
