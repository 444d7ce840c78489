"""Made-up nodes for a demonstration: what becomes of their jobs, and that none is executed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.agent.pretend import LENGTHS_S, play_of
from rota.rpc.messages import Launch
from tests.journeys.box import Box


@pytest.fixture
def box_folder(tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path)
    yield made
    made.down("--stop-jobs")


def launch(job: int, *argv: str, limit_s: int = 0, attempt: int = 1) -> Launch:
    variables = {"ROTA_ATTEMPT": str(attempt)}
    if limit_s:
        variables["ROTA_TIME_LIMIT_S"] = str(limit_s)
    return Launch(f"a{job}", job, "ann", argv or ("python",), "/", variables, cpu_milli=2000)


def test_the_same_jobs_fare_the_same_way_each_time_and_nine_of_ten_succeed() -> None:
    plays = [play_of(7, launch(job, limit_s=3600)) for job in range(2000)]

    assert plays == [play_of(7, launch(job, limit_s=3600)) for job in range(2000)]
    assert plays != [play_of(8, launch(job, limit_s=3600)) for job in range(2000)]
    assert 0.88 < sum(not play.code for play in plays) / 2000 < 0.92
    assert all(0 < play.length_s < 3600 for play in plays)
    assert len({play.length_s for play in plays}) > 1900


def test_a_job_lasts_as_long_as_it_asks_for() -> None:
    short, long = (play_of(0, launch(1, limit_s=limit_s)) for limit_s in (60, 6000))
    unlimited = play_of(0, launch(1))
    slept = play_of(0, launch(1, "sleep", "42", limit_s=60))

    assert long.length_s == pytest.approx(100 * short.length_s)
    assert 0 < unlimited.length_s <= max(LENGTHS_S)
    assert (slept.length_s, slept.code) == (42.0, 0)
    assert play_of(0, launch(1, attempt=2)) != play_of(0, launch(1))


@pytest.mark.slow
def test_a_pretended_cluster_shows_jobs_that_were_never_run(box_folder: Box) -> None:
    box = box_folder
    box.env |= {"ROTA_GPUS_MEASURE_S": "0.1"}
    box.up("--pretend", "2")

    assert box.rota("nodes", "--quiet").stdout.split() == ["demo1", "demo2"]
    box.submit("--gpus", "8", "--name", "train", "--", "sleep", "1")
    box.submit("--time", "2s", "--", "touch", str(box.work / "done"))
    box.rota("wait", "1", "2", check=False)
    shown = box.rota("show", "1").stdout
    assert "completed" in shown
    assert "gpu used:" in shown
    assert "step 20 of 20" in box.rota("logs", "1").stdout
    assert not (box.work / "done").exists()

    going = box.submit("--", "sleep", "600")
    box.reach(going, "running")
    box.rota("down")
    refused = box.rota("up", "--detach", check=False)
    assert refused.returncode == 2
    assert "holds pretended jobs; start it with --pretend" in refused.stderr
    box.up("--pretend")
    assert box.ended(going)["state"] == "node_failed"


def test_jobs_that_are_to_be_run_are_not_pretended(box_folder: Box) -> None:
    box_folder.state.mkdir()
    (box_folder.state / "rota.db").touch()

    for options, words in (
        ((), "holds jobs that are to be run; choose another folder with --state-dir"),
        (("--standby",), "a head that stands by has no nodes"),
        (("--database", "sqlite:///x.db"), "its database is in its state folder"),
        (("--pretend", "0"), "0 is too small; the least is 1"),
    ):
        refused = box_folder.rota("up", "--pretend", "2", *options, check=False)

        assert refused.returncode == 2
        assert words in refused.stderr
