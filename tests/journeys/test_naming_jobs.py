"""One way to name jobs: ids, elements, ranges, names, filters, and what the Tab key offers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.journeys.box import Box

FOREVER = ("sh", "-c", "while :; do sleep 0.1; done")


def waiting(home: Box, *options: str) -> int:
    return home.submit("--hold", *options, "--", "true")


def state_of(home: Box, job: int | str) -> str:
    return str(home.api("GET", f"/jobs/{job}")[1]["state"])


def test_elements_are_named_the_same_way_everywhere(home: Box) -> None:
    array = home.submit("--array", "0-3", "--cpus", "4", "--name", "sweep", "--", *FOREVER)
    home.reach(f"{array}_0", "running")
    job = home.submit("--cpus", "4", "--", "true")

    ahead = home.rota("why", str(job)).stdout
    element = home.rota("why", "@~1_1").stdout
    data = json.loads(home.rota("queue", "-r", "--name", "sweep", "--json").stdout)
    cancelled = home.rota("cancel", f"{array}_[0,2-3]").stdout
    changed = json.loads(home.rota("cancel", f"{array}_1", "--json").stdout)

    assert f"ahead of it: {array}_1" in ahead
    assert element.startswith(f"{array}_1 is queued")
    assert [one["ref"] for one in data] == [f"{array}_{index}" for index in range(4)]
    assert cancelled == f"cancelled {array}_0, {array}_2, {array}_3\n"
    assert changed["refs"] == [f"{array}_1"]


def test_an_array_that_is_changed_whole_is_told_once(home: Box) -> None:
    array = home.submit("--array", "0-3", "--cpus", "4", "--", *FOREVER)
    home.reach(f"{array}_0", "running")

    assert home.rota("cancel", str(array)).stdout == f"cancelled {array}\n"


def test_ranges_and_names_choose_jobs(home: Box) -> None:
    first = waiting(home, "--name", "prepare")
    waiting(home, "--name", "train")
    waiting(home, "--name", "train")

    by_name = home.rota("cancel", "train").stdout
    by_range = home.rota("cancel", f"{first}-{first + 2}", check=False)

    assert by_name == f"cancelled {first + 1}, {first + 2}\n"
    assert by_range.stdout == f"cancelled {first}\n"
    assert "is cancelled already" in by_range.stderr
    assert home.rota("why", "prepare").stdout.startswith(f"{first} was cancelled")
    assert "there is no job nonesuch" in home.refusal("show", "nonesuch")


@pytest.mark.parametrize("text", ["5-3", "5_[3-1]", "5_[a]", "1-9999999", "x/y"])
def test_what_names_no_jobs_is_refused_in_one_line(home: Box, text: str) -> None:
    assert "is not valid" in home.refusal("cancel", text)


@pytest.mark.parametrize("name", ["two words", "学习 run №1", "l'été (2)"])
def test_every_name_that_a_job_may_have_in_words_names_it(home: Box, name: str) -> None:
    job = waiting(home, "--name", name)

    assert home.rota("why", name).stdout.startswith(f"{job} is held")
    assert home.rota("cancel", name).stdout == f"cancelled {job}\n"


def test_filters_choose_jobs_and_a_dry_run_only_names_them(home: Box) -> None:
    home.submit("--label", "exp=7", "--name", "runs", "--", *FOREVER)
    held = waiting(home, "--label", "exp=7")
    other = waiting(home, "--label", "exp=8")

    named = home.rota("cancel", "-l", "exp=7", "-s", "held", "--dry-run").stdout
    done = home.rota("cancel", "-l", "exp=7", "-s", "held").stdout

    assert named == f"would have cancelled {held}\n"
    assert done == f"cancelled {held}\n"
    assert state_of(home, other) == "held"
    assert "not both" in home.refusal("cancel", str(other), "-s", "held")


def test_work_of_others_is_ended_after_a_yes_only(
    open_folder: Path, new_box: Callable[..., Box]
) -> None:
    box = new_box(open_folder / "box")
    box.up()
    other = box.at(box.work, user="nobody")
    theirs = other.job(["true"], hold=True)
    mine = box.job(["true"], hold=True)

    refusal = box.refusal("cancel", "--all")
    done = box.rota("cancel", "--all", "--yes").stdout

    assert "cancel 2 jobs, 1 of them of nobody? there is nobody to ask here: add --yes" in refusal
    assert done == f"cancelled {theirs}, {mine}\n"


def test_moments_are_read_in_one_way(home: Box) -> None:
    job = home.submit("--begin", "tomorrow 9:00", "--", "true")
    later = home.submit("--begin", "2h", "--", "true")

    recent = home.rota("queue", "--since", "1h", "-q").stdout.split()

    assert "begin time in" in home.rota("why", str(job)).stdout
    assert re.search("begin time in (1h59m|2h)", home.rota("why", str(later)).stdout)
    assert {str(job), str(later)} <= set(recent)
    assert home.rota("queue", "--since", "today", "-q").stdout.split()[-1] == str(later)
    assert "a moment that has passed" in home.refusal("queue", "--since", "tomorrow")


def completions(home: Box, *words: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "rota.cli.main"],
        env={
            **home.env,
            "COMP_WORDS": " ".join(["rota", *words]),
            "COMP_CWORD": words[-1],
            "_ROTA_COMPLETE": "fish_complete",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout.splitlines()


def test_tab_offers_jobs_nodes_queues_and_states(home: Box) -> None:
    job = waiting(home, "--name", "nightly")
    ended = home.ran("true")["id"]

    assert f"plain,{job}\tnightly (held)" in completions(home, "cancel", "")
    assert not any(f"plain,{ended}" in line for line in completions(home, "cancel", ""))
    assert any(line.startswith(f"plain,{ended}\t") for line in completions(home, "show", ""))
    assert completions(home, "node", "drain", "b") == ["plain,box\tup"]
    assert completions(home, "submit", "--queue", "def") == ["plain,default\tactive"]
    assert completions(home, "queue", "-s", "run") == ["plain,running"]


def test_tab_offers_nothing_where_rota_is_not_running(home: Box, tmp_path) -> None:
    away = home.at(tmp_path)
    away.env = {**home.env, "ROTA_STATE_DIR": str(tmp_path / "none")}

    assert not any(completions(away, "cancel", ""))


def test_several_nodes_are_named_at_once(home: Box) -> None:
    home.rota("node", "label", "box", "rack=a")

    marked = home.rota("node", "label", "box", "rack-").stdout
    drained = home.refusal("node", "drain", "n[1-2]")

    assert marked == "box: labels none\n"
    assert "there is no node n1" in drained
    assert "expected names such as" in home.refusal("node", "label", "bo[x]", "rack=a")
