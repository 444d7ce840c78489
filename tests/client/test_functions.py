"""Functions as jobs: what comes back from them, however they end."""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

import rota
from rota.client import outcomes
from rota.client.errors import Refused

pytestmark = pytest.mark.slow
WAIT_S = 60.0


def test_a_function_gets_its_arguments_and_its_value_comes_back(cluster: rota.ClusterContext):
    factor = 3

    def scaled(number: int, *, plus: int = 0) -> list[int]:
        return [number * factor + plus]

    job = cluster.submit(scaled, 5, kwargs={"plus": 1})

    assert job.result(WAIT_S) == [16]
    assert cluster.wait(job).state == "completed"


def test_a_class_of_the_program_is_the_same_class_on_the_way_back(cluster: rota.ClusterContext):
    class Model:
        def __init__(self, size: int) -> None:
            self.size = size

    def grow(model: Model) -> Model:
        return Model(model.size + 1)

    grown = cluster.submit(grow, Model(4)).result(WAIT_S)

    assert isinstance(grown, Model)
    assert grown.size == 5


def test_an_exception_keeps_its_type_and_brings_the_traceback_of_the_job(
    cluster: rota.ClusterContext,
):
    class OutOfTea(Exception):
        pass

    def brew() -> None:
        raise OutOfTea("no leaves", 3)

    job = cluster.submit(brew)

    with pytest.raises(OutOfTea) as caught:
        job.result(WAIT_S)
    assert caught.value.args == ("no leaves", 3)
    assert isinstance(caught.value.__cause__, rota.RemoteTraceback)
    trace = str(caught.value.__cause__)
    assert "in brew" in trace
    assert "runner.py" not in trace
    assert job.status().exit_code == 1
    assert "OutOfTea" in job.logs("stderr")


def test_an_exception_that_cannot_travel_is_told_in_words(cluster: rota.ClusterContext):
    class Picky(Exception):
        def __init__(self, first: str, second: str) -> None:
            super().__init__(f"{first} and {second}")

    def fail() -> None:
        raise Picky("salt", "pepper")

    with pytest.raises(rota.JobError, match="salt and pepper") as caught:
        cluster.submit(fail).result(WAIT_S)
    assert "in fail" in str(caught.value.__cause__)


def test_a_value_that_cannot_travel_is_an_error_of_the_call(cluster: rota.ClusterContext):
    def give_lock() -> object:
        return threading.Lock()

    def give_generator() -> object:
        yield 1

    with pytest.raises(rota.JobError, match="a lock cannot be brought back: cannot pickle"):
        cluster.submit(give_lock).result(WAIT_S)
    with pytest.raises(rota.JobError, match="a generator cannot be brought back") as caught:
        cluster.submit(give_generator).result(WAIT_S)
    assert "cannot pickle" in caught.value.remote_traceback


def test_a_function_that_exits_is_reported_and_does_not_end_this_program(
    cluster: rota.ClusterContext,
):
    job = cluster.submit(sys.exit, 3)

    with pytest.raises(rota.JobError, match=r"sys\.exit\(3\)"):
        job.result(WAIT_S)
    assert job.status().exit_code == 3


def test_large_calls_large_items_and_large_results_make_the_journey(cluster: rota.ClusterContext):
    many = bytes(7 * 1024 * 1024)
    item = os.urandom(200_000)

    def doubled(body: bytes) -> bytes:
        return body + body

    whole = cluster.submit(doubled, many)
    mapped = cluster.map(doubled, [item, b"small"])

    assert len(whole.result(WAIT_S)) == 14 * 1024 * 1024
    assert [job.result(WAIT_S) for job in mapped] == [item + item, b"smallsmall"]


def test_a_result_beyond_the_cap_is_refused_with_what_to_do_instead(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(outcomes, "RESULT_BYTES_MAX", 1000)

    with pytest.raises(rota.ResultTooLarge, match="at most 1000: write it to a file"):
        outcomes.returned(bytes(2000))
    assert outcomes.read(outcomes.returned(bytes(900))).give() == bytes(900)


def test_variables_limits_and_labels_reach_the_job(cluster: rota.ClusterContext):
    def spell() -> tuple[str, str]:
        return os.environ["GREETING"], os.environ.get("ROTA_PARAM_ITEM", "none")

    job = cluster.submit(
        spell, env={"GREETING": "hello"}, time_limit="1m", labels={"kind": "test"}, priority="low"
    )

    assert job.result(WAIT_S) == ("hello", "none")
    record = job.status().record
    assert (record["time_limit_s"], record["priority"]) == (60, 25)
    assert record["labels"] == {"kind": "test"}


def test_gpus_that_were_asked_for_are_the_ones_that_the_function_sees(
    cluster: rota.ClusterContext,
):
    def seen() -> tuple[list[int], str]:
        return rota.context().gpus, os.environ["CUDA_VISIBLE_DEVICES"]

    gpus, visible = cluster.submit(seen, resources={"cpu": 1, "gpus": 2}).result(WAIT_S)

    assert (gpus, visible) == ([0, 1], "0,1")


def test_a_retry_counts_and_not_the_failure_before_it(cluster: rota.ClusterContext):
    def second_time_lucky() -> int:
        attempt = rota.context().attempt
        if attempt == 1:
            raise ValueError("not yet")
        return attempt

    assert cluster.submit(second_time_lucky, retries=1, backoff_s=0).result(WAIT_S) == 2


def test_a_killed_attempt_is_not_explained_by_what_one_before_it_raised(
    cluster: rota.ClusterContext,
):
    def raise_then_die() -> None:
        if rota.context().attempt == 1:
            raise ValueError("an old story")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(rota.JobFailed, match="ended failed") as caught:
        cluster.submit(raise_then_die, retries=1, backoff_s=0).result(WAIT_S)
    assert caught.value.status.state == "failed"


def test_a_job_that_never_fits_is_unschedulable_after_its_time(cluster: rota.ClusterContext):
    job = cluster.submit(os.getpid, resources={"cpu": 100}, scheduling_timeout_seconds=1)

    status = cluster.wait(job, timeout=WAIT_S)

    assert status.state == "unschedulable"
    with pytest.raises(rota.JobFailed, match="unschedulable"):
        job.result(WAIT_S)


def test_a_job_waits_for_the_jobs_that_it_was_told_to_wait_for(
    cluster: rota.ClusterContext, tmp_path: Path
):
    mark = tmp_path / "mark"
    parent = cluster.submit(mark.write_text, "made by the parent", hold=True)
    child = cluster.submit(mark.read_text, after_ok=parent)
    assert not child.done()

    cluster.release(parent)

    assert child.result(WAIT_S) == "made by the parent"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"resources": {"cpuss": 1}}, ValueError, "'cpuss' is not known; known are cpu"),
        ({"resources": {"memory": "4 apples"}}, ValueError, "4 apples"),
        ({"resources": {"cpu": -1}}, Refused, "resources.cpus"),
        ({"retriess": 1}, TypeError, r"did you mean cluster\.options\(retries="),
        ({"time_limit": "soon"}, ValueError, "soon"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(
    cluster: rota.ClusterContext, options: dict, error: type[Exception], words: str
):
    with pytest.raises(error, match=words) as caught:
        cluster.submit(os.getpid, **options)
    assert "\n" not in str(caught.value)


def test_something_that_cannot_be_called_is_refused(cluster: rota.ClusterContext):
    with pytest.raises(TypeError, match=r"12 is not a function; expected something to call$"):
        cluster.submit(12)
    for command in ("echo hi", ["echo", "hi"]):
        with pytest.raises(TypeError, match=r"for a command: rota\.Job\(NAME\)\.command"):
            cluster.submit(command)
