"""The table of the docs, the scenarios and their tests are one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.engines.conformance.report import section
from tests.engines.conformance.scenarios import HAS, SCENARIOS
from tests.support.machine import REPOSITORY

if TYPE_CHECKING:
    from tests.engines.conformance.bench import Bench


def test_the_docs_show_what_each_backend_has():
    assert section() in (REPOSITORY / "docs" / "engines.md").read_text()


def test_every_scenario_has_a_test():
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]

    marked = [int(n) for text in texts for n in re.findall(r"mark\.scenario\((\d+)\)", text)]

    assert sorted(marked) == sorted(SCENARIOS) == list(range(1, 53))


def test_a_backend_declares_what_the_table_says(running: Bench):
    assert running.has == HAS[running.name]
