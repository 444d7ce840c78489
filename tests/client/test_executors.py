"""Executors: a job per call, and workers that stay."""

import concurrent.futures
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

import rota
from rota.client.executors.pool_worker import open_line, serve

pytestmark = pytest.mark.slow
WAIT_S = 60.0


def test_an_executor_runs_each_call_as_a_job_with_its_options(cluster: rota.ClusterContext):
    with cluster.executor(resources={"cpu": 1}, labels={"by": "executor"}) as executor:
        job = executor.submit(int, "ff", base=16)

        assert job.result(WAIT_S) == 255
        assert job.status().record["labels"] == {"by": "executor"}
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result(WAIT_S)
    assert isinstance(executor, concurrent.futures.Executor)


def test_an_executor_maps_several_lists_in_order_and_in_chunks(cluster: rota.ClusterContext):
    with cluster.executor() as executor:
        values = list(executor.map(pow, range(5), [2] * 5, chunksize=2, timeout=WAIT_S))

    assert values == [0, 1, 4, 9, 16]


def test_an_executor_that_was_shut_down_has_waited_and_takes_no_more(
    cluster: rota.ClusterContext,
):
    executor = cluster.executor()
    job = executor.submit(abs, -3)

    executor.shutdown()

    assert job.done()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, -3)


def test_an_executor_can_cancel_what_it_has_not_finished(cluster: rota.ClusterContext):
    executor = cluster.executor(hold=True)
    job = executor.submit(abs, -3)

    executor.shutdown(cancel_futures=True)

    assert job.cancelled()


def test_a_pool_runs_many_calls_in_few_processes(cluster: rota.ClusterContext):
    def where(number: int) -> tuple[int, int]:
        return number, os.getpid()

    with cluster.pool(2, name="fast") as pool:
        answers = list(pool.map(where, range(100), timeout=WAIT_S))
        assert pool.submit(int, "ff", base=16).result(WAIT_S) == 255

    assert [number for number, _ in answers] == list(range(100))
    assert len({pid for _, pid in answers}) <= 2
    assert [cluster.status(job).state for job in pool.workers] == ["completed"] * 2
    assert {cluster.status(job).name for job in pool.workers} == {"fast"}


def test_arguments_of_a_pool_may_be_of_classes_that_no_module_has(cluster: rota.ClusterContext):
    class Box(dict[str, int]):
        pass

    class Pair(tuple[int, ...]):
        __slots__ = ()

    def kinds(*values: object) -> list[str]:
        return [type(value).__name__ for value in values]

    with cluster.pool(1) as pool:
        assert pool.submit(kinds, Box(), Pair(), 1).result(WAIT_S) == ["Box", "Pair", "int"]
        assert list(pool.map(kinds, [1, [Box()], "x"])) == [["int"], ["list"], ["str"]]


def test_a_call_in_a_pool_that_raises_leaves_its_worker_at_work(cluster: rota.ClusterContext):
    class Own(Exception):
        pass

    def fail(words: str) -> None:
        raise Own(words)

    with cluster.pool(1) as pool:
        with pytest.raises(Own, match="mine") as caught:
            pool.submit(fail, "mine").result(WAIT_S)
        assert "in fail" in str(caught.value.__cause__)
        assert pool.submit(abs, -2).result(WAIT_S) == 2


def test_a_call_whose_worker_is_killed_fails_and_others_go_on(cluster: rota.ClusterContext):
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with cluster.pool(2) as pool:
        with pytest.raises(rota.WorkerLost, match="ended while it ran this call"):
            pool.submit(die).result(WAIT_S)

        assert pool.submit(abs, -5).result(WAIT_S) == 5


def test_a_pool_without_any_worker_left_says_so_instead_of_waiting(cluster: rota.ClusterContext):
    with cluster.pool(1, resources={"cpu": 100}, scheduling_timeout_s=1) as pool:
        waiting = pool.submit(abs, -1)

        with pytest.raises(rota.WorkerLost, match="unschedulable"):
            waiting.result(WAIT_S)
        with pytest.raises(rota.WorkerLost, match="no worker is left"):
            pool.submit(abs, -1)


def test_a_worker_that_is_started_again_takes_calls_again(cluster: rota.ClusterContext):
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with cluster.pool(1, retries=1, backoff_s=0) as pool:
        with pytest.raises(rota.WorkerLost):
            pool.submit(die).result(WAIT_S)

        assert pool.submit(abs, -6).result(WAIT_S) == 6


def test_a_pool_that_is_shut_down_early_cancels_calls_and_waiting_workers(
    cluster: rota.ClusterContext,
):
    pool = cluster.pool(2, hold=True)
    call = pool.submit(abs, -1)

    pool.shutdown(cancel_futures=True)

    assert call.cancelled()
    assert all(job.cancelled() for job in pool.workers)


def test_a_worker_talks_to_nobody_without_the_key(tmp_path: Path):
    path = str(tmp_path / "line")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        served: list[object] = []

        def stranger() -> None:
            sock, _ = listening.accept()
            with pytest.raises(Exception, match="digest"):
                open_line(sock, b"a guess", first=True)

        thread = threading.Thread(target=stranger)
        thread.start()
        with pytest.raises(Exception, match="digest"):
            served.append(serve(path, b"the key"))
        thread.join(WAIT_S)
        assert not served


def test_a_worker_whose_pool_is_gone_has_nothing_to_do(tmp_path: Path):
    assert serve(str(tmp_path / "nobody"), b"the key") == 0


@pytest.mark.parametrize("count", [0, -1])
def test_a_pool_needs_a_worker(cluster: rota.ClusterContext, count: int):
    with pytest.raises(ValueError, match=f"workers: {count} is not valid; 1 or more"):
        cluster.pool(count)
