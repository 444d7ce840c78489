"""Ten small programs as they are written for submitit: the import is all that is changed."""

import os
import time
from pathlib import Path

import submitit


def make_executor() -> submitit.AutoExecutor:
    return submitit.AutoExecutor(folder="logs", cluster="local")


def add(first: int, second: int = 0) -> int:
    return first + second


def fail(words: str) -> None:
    raise ValueError(words)


def one_call() -> object:
    executor = make_executor()
    executor.update_parameters(timeout_min=1, cpus_per_task=1)
    job = executor.submit(add, 5, 7)
    return job.result()


def keywords() -> object:
    return make_executor().submit(add, 5, second=8).result()


def an_array() -> object:
    executor = make_executor()
    executor.update_parameters(slurm_array_parallelism=2)
    jobs = executor.map_array(add, [1, 2, 3], [10, 20, 30])
    return [job.result() for job in jobs]


def a_batch() -> object:
    executor = make_executor()
    with executor.batch():
        jobs = [executor.submit(add, number, 1) for number in range(3)]
    return [job.result() for job in jobs]


def what_was_raised() -> object:
    job = make_executor().submit(fail, "no data")
    error = job.exception()
    return "no data" in str(error), job.done()


def a_loop_until_all_are_done() -> object:
    executor = make_executor()
    jobs = [executor.submit(add, number) for number in range(3)]
    while not all(job.done() for job in jobs):
        time.sleep(0.02)
    return sum(job.result() for job in jobs)


def what_was_printed() -> object:
    job = make_executor().submit(print, "hello from the job")
    job.wait()
    return "hello from the job" in job.stdout()


def the_job_itself() -> object:
    def who() -> tuple[int, int]:
        environment = submitit.JobEnvironment()
        return environment.global_rank, environment.num_tasks

    return make_executor().submit(who).result()


def ids_are_text() -> object:
    jobs = make_executor().map_array(add, [1, 2])
    ids = {job.job_id for job in jobs}
    return len(ids), all(isinstance(each, str) for each in ids), [job.result() for job in jobs]


def a_file_that_all_see() -> object:
    folder = Path(os.environ["PORTED_FOLDER"])

    def leave(name: str) -> str:
        (folder / name).write_text(name)
        return name

    names = [job.result() for job in make_executor().map_array(leave, ["a", "b"])]
    return sorted(path.name for path in folder.iterdir()) == sorted(names)


EXPECTED = {
    one_call: 12,
    keywords: 13,
    an_array: [11, 22, 33],
    a_batch: [1, 2, 3],
    what_was_raised: (True, True),
    a_loop_until_all_are_done: 3,
    what_was_printed: True,
    the_job_itself: (0, 1),
    ids_are_text: (2, True, [1, 2]),
    a_file_that_all_see: True,
}
