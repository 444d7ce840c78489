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


def test_every_verb_takes_ranges_labels_and_states(home: Box) -> None:
    code = "echo hi {x}; exit {x}"
    array = home.submit("--param", "x=0,1,2,3", "--label", "r=1", "--", "sh", "-c", code)
    home.rota("wait", "label:r=1", check=False)

    shown = json.loads(home.rota("show", f"{array}_[0,2]", "--json").stdout)
    waited = home.rota("wait", f"{array}_0-1", check=False).stdout
    after = home.submit("--hold", "--after-any", f"{array}_[0,2],state:failed+label:r=1", "--", "x")

    assert [one["ref"] for one in shown] == [f"{array}_0", f"{array}_2"]
    assert home.rota("why", f"{array}_0-1").stdout.startswith(f"{array}_0 completed\n{array}_1 ")
    assert home.rota("logs", "state:failed+label:r=1").stdout == "".join(
        f"{array}_{x}: hi {x}\n" for x in (1, 2, 3)
    )
    assert waited == f"{array}_0 completed\n{array}_1 failed (exit code 1)\n"
    assert len(home.show(after)["depends_on"]) == 4


def test_several_jobs_are_changed_and_done_again_at_once(home: Box) -> None:
    array = home.submit("--param", "x=0,1,2,3", "--hold", "--", "echo", "{x}")
    other = waiting(home, "--name", "other")

    updated = home.rota("update", f"{array}_[1-2]", str(other), "--priority", "7").stdout
    again = json.loads(home.rota("redo", f"{array}_[1,3]", "other", "--dry-run").stdout)

    assert updated == f"updated {array}_1\nupdated {array}_2\nupdated {other}\n"
    assert again[0]["parameters"] == {"names": ["x"], "rows": [["1"], ["3"]]}
    assert again[1]["name"] == "other"
    assert f"there is no job {array}_9" in home.refusal("redo", f"{array}_[8-9]").replace(
        "_8", "_9"
    )
    home.rota("cancel", f"{array}_0")
    assert f"job {array}_0 is cancelled already" in home.refusal("hold", f"{array}_0", exit_code=1)
    assert f"rota release {array}_3" in home.rota("why", f"{array}_3").stdout
    assert "there is no job nowhere" in home.refusal("redo", str(other), "nowhere", "train.py")


def test_elements_are_done_again_only_where_there_are_such(home: Box) -> None:
    single = waiting(home)
    array = home.submit("--hold", "--array", "0-3", "--", "true")

    of_one = home.refusal("redo", f"{single}_[0-1]")
    failed = home.refusal("redo", f"{array}_[0-1]", "--failed")

    assert f"there is no job {single}_0" in of_one
    assert "leave out the elements" in failed


def test_work_of_others_is_ended_after_a_yes_only(
    open_folder: Path, new_box: Callable[..., Box]
) -> None:
    box = new_box(open_folder / "box")
    box.up()
    other = box.at(box.work, user="nobody")
    theirs = other.job(["true"], hold=True)
    mine = box.job(["true"], hold=True)

    refusal = box.refusal("cancel", "--all")
    by_range = box.refusal("cancel", f"{theirs}-{mine}")
    array = other.job(["true"], hold=True, array="0-9")
    by_elements = box.refusal("cancel", f"{array}_[5-6]")
    box.rota("cancel", str(array))
    done = box.rota("cancel", "--all", "--yes").stdout

    assert "cancel 2 jobs, 1 of them of nobody? there is nobody to ask here: add --yes" in refusal
    assert "cancel 2 jobs, 1 of them of nobody?" in by_range
    assert "of nobody? there is nobody to ask here: add --yes" in by_elements
    assert done == f"cancelled {theirs}, {mine}\n"


def test_running_work_of_others_is_stopped_with_the_service_after_a_yes_only(
    open_folder: Path, new_box: Callable[..., Box]
) -> None:
    box = new_box(open_folder / "box")
    box.up()
    theirs = box.at(box.work, user="nobody").job(list(FOREVER))
    box.reach(theirs, "running")

    told = box.rota("down", "--stop-jobs", "--dry-run").stdout
    asked = box.refusal("down", "--stop-jobs")

    assert told.endswith(f"; would cancel {theirs} (nobody)\n")
    assert "cancel 1 job, 1 of them of nobody? there is nobody to ask here: add --yes" in asked
    assert state_of(box, theirs) == "running"
    assert box.rota("down", "--stop-jobs", "--yes").stdout.startswith("stopped ")


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


def test_tab_offers_parents_and_the_jobs_that_can_be_entered(home: Box) -> None:
    running = home.submit("--name", "served", "--", *FOREVER)
    home.reach(running, "running")
    held = waiting(home, "--name", "nightly")

    parents = completions(home, "submit", "--after-ok", f"{running},")
    inside = {verb: completions(home, verb, "") for verb in ("exec", "shell", "attach")}

    assert f"plain,{running},{held}\tnightly (held)" in parents
    assert all(f"plain,{running}\tserved (running)" in found for found in inside.values())
    assert not any(f"plain,{held}" in line for found in inside.values() for line in found)
    assert not "".join(completions(home, "exec", str(running), "--", ""))
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
