"""Many jobs at once: arrays, sweeps, groups, and the caps on them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.journeys.box import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.journeys.box import Box

#: Notes how many of its kind run beside it: each has a file of its own while it runs.
CROWD = "mkdir -p in; : > in/$$; ls in | wc -l >> crowd; sleep 0.05; rm in/$$"
UNTIL_GO = "while [ ! -e go ]; do sleep 0.02; done"


def test_an_array_with_a_cap_never_exceeds_it_and_shows_its_progress(home: Box) -> None:
    array = home.submit("--array", "0-19%2", "--name", "grid", "--shell", f"{UNTIL_GO}; {CROWD}")

    line = home.rota("queue").stdout
    (home.work / "go").touch()
    assert home.rota("wait", str(array)).returncode == 0
    assert f"{array}_[" in line, "what waits is one line"
    _, shown = home.api("GET", f"/jobs/{array}")
    assert (shown["count"], shown["states"]) == (20, {"completed": 20})
    crowds = [int(count) for count in home.read("crowd").split()]
    assert len(crowds) == 20
    assert max(crowds) <= 2


def test_one_element_of_an_array_can_be_named_and_fails_by_itself(home: Box) -> None:
    array = home.submit("--array", "1-3", "--shell", "exit $((ROTA_ARRAY_INDEX == 2))")

    assert home.rota("wait", str(array), check=False).returncode == 1
    assert home.show(f"{array}_2")["exit_code"] == 1
    assert home.show(f"{array}_3")["state"] == "completed"
    failed = json.loads(home.rota("queue", "-s", "failed", "--json", "--last", "1").stdout)
    assert [(job["array_id"], job["array_index"]) for job in failed] == [(array, 2)]


def test_ten_thousand_elements_are_one_object_until_they_run(home: Box) -> None:
    array = home.job(["true"], array="0-9999%1", hold=True)

    _, page = home.api("GET", "/jobs?state=active&arrays=collapse")
    home.rota("cancel", str(array))

    assert [job["id"] for job in page["items"]] == [array]
    assert page["items"][0]["count"] == 10_000
    _, after = home.api("GET", f"/jobs/{array}")
    assert after["states"] == {"cancelled": 10_000}


def test_a_sweep_fills_parameters_into_command_name_and_environment(home: Box) -> None:
    array = home.submit(
        *("--param", "lr=0.1,0.01", "--param", "n=1:3", "--name", "lr{lr}-n{n}"),
        *("--", "sh", "-c", "echo {lr} {n} $ROTA_PARAM_lr $ROTA_PARAM_n"),
    )

    assert home.rota("wait", str(array)).returncode == 0
    jobs = _elements(home, array)
    said = {job["name"]: home.output(job["id"]).split() for job in jobs}
    assert said == {
        f"lr{lr}-n{n}": [lr, n, lr, n] for lr in ("0.1", "0.01") for n in ("1", "2", "3")
    }


def test_a_sweep_from_a_file_runs_one_job_for_each_line(home: Box) -> None:
    (home.work / "grid.csv").write_text('model,text\nsmall,"a, b"\nlarge,c\n')

    array = home.submit("--param-file", "grid.csv", "--", "echo", "{model}: {text}")

    assert home.rota("wait", str(array)).returncode == 0
    said = [home.output(job["id"]) for job in _elements(home, array)]
    assert said == ["small: a, b\n", "large: c\n"]


def test_a_groups_cap_can_be_changed_while_its_jobs_run(home: Box) -> None:
    for _ in range(3):
        home.job(UNTIL_GO, group="shy", max_concurrent=1)
    until(lambda: _running(home) == 1, "the first of the group to run")
    _, page = home.api("GET", "/jobs?state=queued")

    home.rota("group", "set", "shy", "--max-concurrent", "3")

    until(lambda: _running(home) == 3, "all of the group to run")
    (home.work / "go").touch()
    assert {job["reason"] for job in page["items"]} == {"group shy runs 1 of at most 1"}


def test_a_batch_with_one_bad_job_leaves_none_of_it_behind(home: Box) -> None:
    good: dict[str, Any] = {"command": ["true"], "workdir": "/"}
    before = home.status()["jobs"]

    status, answer = home.api(
        "POST", "/jobs:batch", {"jobs": [good, {**good, "resources": {"cpus": -1}}]}
    )

    assert (status, answer["field"]) == (400, "jobs[1].resources.cpus")
    assert home.status()["jobs"] == before


def _running(box: Box) -> int:
    _, page = box.api("GET", "/jobs?state=running")
    return len(page["items"])


def _elements(box: Box, array: int) -> list[dict[str, Any]]:
    _, page = box.api("GET", f"/jobs?array={array}&arrays=expand")
    return list(page["items"])


def test_short_jobs_that_stood_behind_a_long_one_run_once_and_do_not_wait_for_it(
    new_box: Callable[..., Box],
) -> None:
    box = new_box(cpus=2)
    box.up()
    long = "while [ ! -e go ]; do sleep 0.02; done"
    once = f"echo $ROTA_ARRAY_INDEX >> ran; [ $ROTA_ARRAY_INDEX -ne 30 ] || {long}"

    array = box.submit("--array", "0-59", "--shell", once)
    until(
        lambda: box.api("GET", f"/jobs/{array}")[1]["states"].get("completed") == 59, "the others"
    )
    (box.work / "go").touch()
    assert box.rota("wait", str(array)).returncode == 0

    assert sorted(map(int, box.read("ran").split())) == list(range(60))
