"""Sweeps as a whole: folded in listings, tried beforehand, redone where they failed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.journeys.box import Box


def ended(home: Box, *args: str) -> int:
    array = home.submit(*args)
    home.rota("wait", str(array), check=False)
    return array


def test_the_failed_elements_of_a_sweep_are_done_again_with_their_values(home: Box) -> None:
    array = ended(home, "--param", "lr=1,2,3", "--", "sh", "-c", 'test "{lr}" != 2')

    again = int(home.rota("redo", str(array), "--failed").stdout)
    home.rota("wait", str(again), check=False)

    _, page = home.api("GET", f"/jobs?array={again}")
    assert [job["parameters"] for job in page["items"]] == [{"lr": "2"}]
    assert f"no element of {home.submit('--array', '0-1', '--', 'true')}" in home.refusal(
        "redo", "@", "--failed"
    )


def test_the_failed_elements_of_an_array_keep_their_indices(home: Box) -> None:
    array = ended(home, "--array", "1-9%2", "--", "sh", "-c", "exit $((ROTA_ARRAY_INDEX / 7))")

    body = json.loads(home.rota("redo", str(array), "--failed", "--dry-run").stdout)

    assert body["array"] == "7-9%2"
    assert "--failed is for arrays" in home.refusal("redo", f"{array}_9", "--failed")


def test_an_ended_array_is_one_line_that_names_what_failed(home: Box) -> None:
    code = "exit $((ROTA_ARRAY_INDEX % 4 == 3))"
    array = ended(home, "--array", "0-7", "--name", "sweep", "--", "sh", "-c", code)
    home.ran("true", name="after")

    lines = [line.split() for line in home.rota("queue", "-a", "--last", "2").stdout.splitlines()]
    each = home.rota("queue", "-a", "-r", "--name", "sweep").stdout

    assert [line[1] for line in lines[1:]] == ["sweep", "after"]
    assert " ".join(lines[1]).startswith(f"{array} sweep")
    assert " ".join(lines[1]).endswith("6 completed, 2 failed: 3,7")
    assert f"{array}_3" in each


def test_the_unfinished_elements_of_an_array_keep_their_lines(home: Box) -> None:
    command = "test $ROTA_ARRAY_INDEX -lt 2 && exit 0; while :; do sleep 0.1; done"
    array = home.submit("--array", "0-2", "--name", "part", "--", "sh", "-c", command)
    for index in range(2):
        home.ended(f"{array}_{index}")
    home.reach(f"{array}_2", "running")

    shown = home.rota("queue", "-a", "--name", "part").stdout.splitlines()[1:]

    assert sorted(line.split()[0] for line in shown) == [str(array), f"{array}_2"]
    assert any("2 completed" in line for line in shown)


def test_why_of_an_array_says_what_runs_and_why_the_others_wait(home: Box) -> None:
    code = "test $ROTA_ARRAY_INDEX = 0 || while :; do sleep 0.1; done; exit 1"
    array = home.submit("--array", "0-3", "--cpus", "2", "--", "sh", "-c", code)
    home.ended(f"{array}_0")
    for index in (1, 2):
        home.reach(f"{array}_{index}", "running")

    told = home.rota("why", str(array)).stdout.splitlines()
    home.rota("cancel", f"{array}_3")
    later = home.rota("why", str(array)).stdout.splitlines()

    assert told[0] == f"{array} has 1 queued, 2 running, 1 failed: not enough free cpus"
    assert told[1] == "  running: elements 1-2 on box"
    assert any("expected to start" in line for line in told)
    assert later[0] == f"{array} has 2 running, 1 failed, 1 cancelled: elements 1-2 on box"
    assert not any("free" in line for line in later)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--param", "x=1,2,3", "--gpus", "2"), "2 of 3 elements would start now"),
        (("--array", "0-1"), "all 2 elements would start now"),
        (("--array", "0-9%3"), "3 of 10 elements would start now"),
    ],
)
def test_a_plan_looks_at_the_whole_sweep(home: Box, options: tuple[str, ...], line: str) -> None:
    told = home.rota("plan", *options, "--", "true").stdout

    assert told.startswith(line)
    _, page = home.api("GET", "/jobs?state=active")
    assert page["items"] == []


def test_a_placeholder_that_no_parameter_fills_is_refused(home: Box) -> None:
    refusal = home.refusal("submit", "--param", "lr=1,2", "--", "echo", "{lrr}")
    job = home.submit("--param", "lr=1", "--", "echo", "${lrr} { lrr } {{lrr}} {lr} {index}")

    assert "no parameter fills {lrr}; did you mean {lr}?" in refusal
    home.ended(f"{job}_0")
    assert home.output(f"{job}_0") == "${lrr} { lrr } {{lrr}} 1 0\n"
