"""Handles as futures, families of jobs, and gangs."""

import concurrent.futures
import os
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

import rota
from rota.client.errors import Refused
from tests.api.running import Running
from tests.journeys.box import until

pytestmark = pytest.mark.slow
WAIT_S = 60.0


def until_there(*paths: Path) -> None:
    """In a job: wait for files, so that an order of ends can be chosen."""
    end_s = time.monotonic() + WAIT_S
    while not all(path.exists() for path in paths) and time.monotonic() < end_s:
        time.sleep(0.005)


def test_handles_come_back_in_the_order_in_which_their_jobs_end(
    cluster: rota.ClusterContext, tmp_path: Path
):
    go = tmp_path / "go"

    def wait_for(path: Path) -> str:
        end_s = time.monotonic() + 60
        while not path.exists() and time.monotonic() < end_s:
            time.sleep(0.005)
        return "late"

    late = cluster.submit(wait_for, go)
    early = cluster.submit(str, "early")

    seen = []
    for job in cluster.as_completed([late, early], timeout=WAIT_S):
        seen.append(job.result())
        go.touch()

    assert seen == ["early", "late"]


def test_a_handle_works_with_the_waiting_of_the_standard_library(cluster: rota.ClusterContext):
    jobs = cluster.map(abs, [-1, -2, -3])

    done, rest = concurrent.futures.wait(jobs, timeout=WAIT_S)

    assert not rest
    assert sorted(job.result() for job in done) == [1, 2, 3]


def test_a_callback_is_called_once_with_the_handle(cluster: rota.ClusterContext):
    called = threading.Event()
    heard: list[object] = []

    def hear(handle: object) -> None:
        heard.append(handle)
        called.set()

    job = cluster.submit(abs, -4)
    job.add_done_callback(hear)

    assert called.wait(WAIT_S)
    assert heard == [job]
    assert isinstance(heard[0], rota.JobHandle)


def test_a_map_is_one_family_of_jobs_and_keeps_its_cap(
    cluster: rota.ClusterContext, tmp_path: Path
):
    def span(number: int) -> tuple[int, float, float]:
        start = time.monotonic()
        (tmp_path / str(number)).touch()
        # Two at a time meet; the last one has nobody to wait for.
        end_s = start + 60
        while not (tmp_path / str(min(number ^ 1, 4))).exists() and time.monotonic() < end_s:
            time.sleep(0.005)
        return number, start, time.monotonic()

    jobs = cluster.map(span, range(5), max_concurrent=2, resources={"cpu": 0.1}, name="capped")

    spans = [job.result(WAIT_S) for job in jobs]
    assert [number for number, _, _ in spans] == list(range(5))
    assert max(sum(a <= start < b for _, a, b in spans) for _, start, _ in spans) == 2
    records = [job.status().record for job in jobs]
    assert len({record["array_id"] for record in records}) == 1
    assert {record["name"] for record in records} == {"capped"}


def test_a_map_too_large_for_one_request_is_sent_in_several_under_one_cap(
    cluster: rota.ClusterContext, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rota.client.calls.ROWS_CHARS_MAX", 100)

    jobs = cluster.map(abs, range(-6, 0), max_concurrent=3)

    assert [job.result(WAIT_S) for job in jobs] == [6, 5, 4, 3, 2, 1]
    records = [job.status().record for job in jobs]
    assert len({record["array_id"] for record in records}) > 1


def test_a_map_over_nothing_is_nothing_and_a_negative_cap_is_refused(
    cluster: rota.ClusterContext,
):
    assert cluster.map(abs, []) == []
    with pytest.raises(ValueError, match="max_concurrent: -1 is not valid"):
        cluster.map(abs, [1], max_concurrent=-1)


def test_a_running_job_is_cancelled_and_says_so_as_a_future_does(
    cluster: rota.ClusterContext, tmp_path: Path
):
    started = tmp_path / "started"

    def linger() -> None:
        started.touch()
        time.sleep(600)

    job = cluster.submit(linger)
    until_there(started)
    until(job.running, "the start to be on record")
    assert not job.cancelled()

    assert job.cancel()

    with pytest.raises(CancelledError):
        job.result(WAIT_S)
    assert job.cancelled()
    assert isinstance(job.exception(), rota.JobCancelled)
    assert not job.cancel(), "it has ended already"


def test_a_cancelled_family_is_settled_including_what_never_started(
    cluster: rota.ClusterContext,
):
    jobs = cluster.map(time.sleep, [600] * 5, max_concurrent=1)
    array = jobs[0].status().record["array_id"]

    cluster.cancel(array)

    ends = [job.exception(WAIT_S) for job in jobs]
    assert [type(end) for end in ends] == [rota.JobCancelled] * 5


def test_waiting_too_short_names_the_job_and_leaves_it_alone(cluster: rota.ClusterContext):
    job = cluster.submit(abs, -1, hold=True)

    with pytest.raises(TimeoutError, match=f"job {int(job)} has not ended after 0.05 s"):
        job.result(timeout=0.05)
    with pytest.raises(TimeoutError, match=f"job {int(job)} has not ended after 0.05 s"):
        cluster.wait(job, timeout=0.05)

    cluster.release(job)
    assert job.result(WAIT_S) == 1


def test_a_cluster_that_was_closed_takes_no_further_calls(server: Running):
    cluster = rota.connect(f"unix://{server.socket_path}")
    cluster.close()

    with pytest.raises(rota.Disconnected, match="was closed"):
        cluster.submit(abs, -1)


def test_a_timeout_that_the_function_raised_is_its_result(cluster: rota.ClusterContext):
    def impatient() -> None:
        raise TimeoutError("of my own")

    with pytest.raises(TimeoutError, match="of my own"):
        cluster.submit(impatient).result(WAIT_S)


def test_another_program_gets_the_result_by_the_id_through_the_server(
    cluster: rota.ClusterContext,
):
    job, gang = cluster.submit(abs, -8), cluster.submit(abs, -9, tasks=2)
    assert job.result(WAIT_S) == 8

    with rota.connect(cluster.url) as other:
        again = other.job(int(job))

        assert again.result(WAIT_S) == 8
        assert other.job(int(gang)).results(WAIT_S) == [9, 9]
        assert other.job(int(cluster.launch(rota.Job().shell("exit 0").cpus(1)))).result(60) is None


def test_over_the_network_a_token_is_shown_and_never_given_to_the_job(
    cluster: rota.ClusterContext, network: tuple[str, str], monkeypatch: pytest.MonkeyPatch
):
    url, token = network
    monkeypatch.setenv("ROTA_TOKEN", token)

    def tokens() -> list[str]:
        return [value for value in os.environ.values() if value.startswith("rota_")]

    with rota.connect(url, token) as remote:
        assert remote.submit(tokens).result(WAIT_S) == []
        with remote.pool(1) as pool:
            assert pool.submit(abs, -3).result(WAIT_S) == 3
    with rota.connect(url, "rota_00000000_nobody") as stranger, pytest.raises(Refused):
        stranger.submit(abs, -1)


def test_a_gang_starts_together_and_each_task_has_its_result(cluster: rota.ClusterContext):
    def place() -> tuple[int, int]:
        me = rota.context()
        return me.rank, me.world_size

    job = cluster.submit(place, tasks=3)

    assert job.result(WAIT_S) == (0, 3)
    assert job.results() == [(0, 3), (1, 3), (2, 3)]


def test_a_gang_of_roles_gives_back_what_each_member_returned(cluster: rota.ClusterContext):
    def role() -> str:
        return os.environ["ROTA_ROLE"]

    roles = [{"name": "driver"}, {"name": "worker", "count": 2, "resources": {"cpus": 0.5}}]

    assert cluster.submit(role, roles=roles).results(WAIT_S) == ["driver", "worker", "worker"]


def test_a_gang_fails_with_what_one_of_its_tasks_raised(cluster: rota.ClusterContext):
    def break_at_one() -> None:
        if rota.context().rank == 1:
            raise LookupError("rank 1 lost its way")
        time.sleep(600)

    with pytest.raises(LookupError, match="rank 1 lost its way"):
        cluster.submit(break_at_one, tasks=2, grace_s=1).result(WAIT_S)
