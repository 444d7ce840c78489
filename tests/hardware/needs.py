"""What a machine must have for these tests; where it has not, they are skipped by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TOP = Path("/sys/fs/cgroup")
_CONTROLLERS = TOP / "cgroup.controllers"

NEEDS_GROUPS = pytest.mark.skipif(
    os.geteuid() != 0 or not _CONTROLLERS.exists() or "memory" not in _CONTROLLERS.read_text(),
    reason="needs root and version 2 of control groups with the memory controller",
)
