"""Tests that look for what happens now and then have no second chance in CI."""

from __future__ import annotations

from pathlib import Path

from tests.support.second_runs import ONCE, REAL, gets_second_run

TESTS = Path(__file__).parents[1]
WORDS = ("kill_minus_nine", "survival", "trouble", "storm", "lease", "postgres", "keeper_life")


def test_store_network_and_what_outlives_a_death_are_run_once():
    files = [str(file.relative_to(TESTS)) for file in TESTS.rglob("test_*.py")]
    strict = [
        f for f in files if f.startswith(("store/", "network/")) or any(w in f for w in WORDS)
    ]

    assert len(strict) > 20
    assert [file for file in strict if gets_second_run(file)] == []
    assert gets_second_run("api/test_jobs.py")


def test_every_name_in_the_rule_is_that_of_a_test():
    names = {file.name for folder in REAL for file in (TESTS / folder).rglob("test_*.py")}

    assert [name for name in ONCE if not any(n.startswith(name) for n in names)] == []
