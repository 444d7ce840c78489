"""Processes of others on GPUs: which of them the agent is told not to mind."""

import json
import os
from pathlib import Path

import pytest

from rota.agent.machine.foreign import strangers
from rota.agent.machine.gpus import Tolerance
from rota.agent.machine.readings import Fake

USES = [
    {"pid": 10, "user": "root", "memory_mib": 300, "name": "Xorg"},
    {"pid": 11, "user": "bob", "memory_mib": 9000, "name": "python"},
]


def ignored(tmp_path: Path, tolerance: Tolerance) -> list[int]:
    file = tmp_path / "gpus.json"
    file.write_text(json.dumps([{"model": "A100", "foreign": USES}]))
    found = strangers(Fake(str(file)).look()[1], (), tolerance)
    assert [use.pid for use in found] == [10, 11]
    return [use.pid for use in found if use.ignored]


@pytest.mark.parametrize(
    ("words", "below_mib", "expected"),
    [
        ("", 0, []),
        ("Xorg", 0, [10]),
        ("xorg", 0, []),
        ("11", 0, [11]),
        ("Xorg, 11", 0, [10, 11]),
        ("gnome-shell python", 0, [11]),
        ("", 500, [10]),
        ("", 300, []),
        ("python", 500, [10, 11]),
    ],
)
def test_a_process_is_ignored_by_name_pid_or_size_and_still_shown(
    tmp_path: Path, words: str, below_mib: int, expected: list[int]
):
    assert ignored(tmp_path, Tolerance.of(words, below_mib)) == expected


def test_the_name_of_a_real_process_is_the_kernels(tmp_path: Path):
    own = Path("/proc/self/comm").read_text().strip()
    file = tmp_path / "gpus.json"
    use = {"pid": os.getpid(), "user": "x", "memory_mib": 1}
    file.write_text(json.dumps([{"model": "A100", "foreign": [use]}]))

    (found,) = strangers(Fake(str(file)).look()[1], (), Tolerance.of(own))

    assert found.ignored
