"""How long results are kept, and what an end without one brings along."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rota
from rota.client import outcomes

pytestmark = pytest.mark.slow
WAIT_S = 60.0

#: A program that breaks after its jobs have ended.
BROKEN = """
import sys
import rota

with rota.connect(sys.argv[1], folder=sys.argv[2]) as cluster:
    jobs = cluster.map(abs, [-1, -2])
    print(*[job.id for job in jobs if job.result(60)], flush=True)
    raise KeyError("in the plot")
"""


def test_results_outlive_a_program_that_breaks(cluster: rota.ClusterContext, tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", BROKEN, cluster.url, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )

    assert "KeyError" in done.stderr
    with rota.connect(cluster.url) as other:
        jobs = [other.job(int(word)) for word in done.stdout.split()]
        assert rota.gather(jobs, timeout=WAIT_S) == [1, 2]


def test_a_result_that_is_gone_is_called_that(cluster: rota.ClusterContext, tmp_path: Path):
    with rota.connect(cluster.url, folder=str(tmp_path)) as other:
        job = other.submit(abs, -1)
        job.result(WAIT_S)
        for folder in tmp_path.glob("rota-results-*"):
            shutil.rmtree(folder)

        again = other.job(job.id)
        child = other.submit(abs, again)

        with pytest.raises(rota.ResultGone, match=rf"job {job.id} completed, but its result is"):
            again.result(WAIT_S)
        with pytest.raises(rota.ResultGone, match=f"job {job.id} completed"):
            child.result(WAIT_S)


def test_old_results_are_dropped_where_new_ones_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ages = {"rota-results-old": 8, "rota-results-new": 6, "something-else": 8}
    for name in ages:
        outcomes.leave(str(tmp_path / name / "inner"), "1.0.result", b"")
    for name, days in ages.items():
        then_s = time.time() - days * 86_400
        os.utime(tmp_path / name, (then_s, then_s))

    monkeypatch.setenv("ROTA_RESULT_DAYS", "0")
    outcomes.leave(str(tmp_path / "rota-results-first" / "inner"), "1.0.result", b"")
    kept = {path.name for path in tmp_path.iterdir()}
    monkeypatch.setenv("ROTA_RESULT_DAYS", "7")
    outcomes.leave(str(tmp_path / "rota-results-second" / "inner"), "1.0.result", b"")

    assert kept == {*ages, "rota-results-first"}
    assert {path.name for path in tmp_path.iterdir()} == {
        "rota-results-new", "something-else", "rota-results-first", "rota-results-second",
    }  # fmt: skip


def test_a_result_makes_its_folder_young_again(tmp_path: Path):
    folder = tmp_path / "rota-results-a" / "inner"
    outcomes.leave(str(folder), "1.0.result", b"")
    os.utime(folder.parent, (0, 0))

    outcomes.leave(str(folder), "2.0.result", b"")

    assert folder.parent.stat().st_mtime > time.time() - 3600


def test_nothing_is_left_in_a_folder_that_others_could_have_made(tmp_path: Path):
    folder = tmp_path / "rota-results-a"
    folder.mkdir()
    folder.chmod(0o777)

    with pytest.raises(rota.JobError, match="is not this user's alone, nothing is left there"):
        outcomes.leave(str(folder / "inner"), "1.0.result", b"secret")
    assert list(folder.iterdir()) == []


def test_the_site_says_how_long_results_are_kept():
    with rota.local(cpus=1, settings={"ROTA_RESULTS_DAYS": "3"}) as own:
        assert own.submit(os.getenv, "ROTA_RESULT_DAYS").result(WAIT_S) == "3"


def test_a_failure_brings_the_end_of_standard_error(cluster: rota.ClusterContext):
    def die() -> None:
        print("about to die", file=sys.stderr)
        os.abort()

    with pytest.raises(rota.JobError, match=r"ended failed: .*signal 6") as caught:
        cluster.submit(die).result(WAIT_S)
    assert caught.value.stderr_tail == "about to die\n"
    assert "\n" not in str(caught.value)
    assert caught.value.__notes__ == ["the end of its standard error:\nabout to die"]


def test_an_exception_brings_what_was_written_before_it(cluster: rota.ClusterContext):
    def wrong() -> None:
        print("\n".join(f"step {number}" for number in range(30)), file=sys.stderr)
        raise KeyError("no such shard")

    async def awaited() -> BaseException | None:
        async with rota.connect_async(cluster.url) as twin:
            return await (await twin.submit(wrong)).exception(WAIT_S)

    for error in (cluster.submit(wrong).exception(WAIT_S), asyncio.run(awaited())):
        assert isinstance(error, KeyError)
        tail = error.stderr_tail  # type: ignore[attr-defined]
        assert tail.splitlines() == [f"step {number}" for number in range(10, 30)]
        assert error.__notes__ == [f"the end of its standard error:\n{tail.rstrip()}"]


def test_an_exception_of_a_silent_function_has_no_note(cluster: rota.ClusterContext):
    job = cluster.submit(divmod, 1, 0)

    error = job.exception(WAIT_S)

    assert job.exception() is error
    assert (error.stderr_tail, hasattr(error, "__notes__")) == ("", False)  # type: ignore[union-attr]


def test_an_exit_brings_standard_error_and_where_it_happened(cluster: rota.ClusterContext):
    def leave() -> None:
        print("no data", file=sys.stderr)
        sys.exit(3)

    error = cluster.submit(leave).exception(WAIT_S)

    assert isinstance(error, rota.JobError)
    assert error.stderr_tail == "no data\n"


def test_what_a_job_prints_is_seen_although_it_is_killed(cluster: rota.ClusterContext):
    def die() -> None:
        print("before the end")
        os.abort()

    job = cluster.submit(die)
    job.exception(WAIT_S)

    assert job.logs() == "before the end\n"
    buffered = cluster.options(env={"PYTHONUNBUFFERED": ""}).submit(os.getenv, "PYTHONUNBUFFERED")
    assert buffered.result(WAIT_S) == ""


def test_a_result_that_cannot_be_read_here_is_an_error_and_no_silence(
    cluster: rota.ClusterContext,
):
    class Trap:
        def __reduce__(self) -> tuple:
            return sys.exit, (3,)

    with pytest.raises(rota.JobError, match="cannot be read here: SystemExit"):
        cluster.submit(Trap).result(WAIT_S)
    assert cluster.submit(abs, -1).result(WAIT_S) == 1
