"""Clients that know Slurm and not Rota, unmodified."""

import sys
import textwrap

import pytest

from tests.journeys.box import until
from tests.slurm.real import Slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


#: Only against hanging for ever: each job of theirs is a Python that imports a lot.
PATIENCE_S = 280.0


def python(slurm: Slurm, program: str) -> str:
    """Run a program in a process of its own, with our commands in front of PATH."""
    path = slurm.work / "program.py"
    path.write_text(textwrap.dedent(program))
    done = slurm.run(sys.executable, str(path), timeout_s=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


SUBMITIT = """
import os, time, submitit
executor = submitit.AutoExecutor(folder="log_%j", cluster="slurm")
executor.update_parameters(timeout_min=5, slurm_partition="default", mem_gb=0.1)
"""


def test_submitit_runs_functions_alone_in_arrays_and_side_by_side(slurm: Slurm) -> None:
    pytest.importorskip("submitit")
    program = """
    def add(a, b): return a + b
    def fail(): raise ValueError("broken on purpose")
    def rank():
        env = submitit.JobEnvironment()
        return env.global_rank, env.num_tasks
    one = executor.submit(add, 2, 3)
    many = executor.map_array(add, [1, 2, 3], [10, 20, 30])
    bad = executor.submit(fail)
    executor.update_parameters(tasks_per_node=2)
    pair = executor.submit(rank)
    print(one.result(), [job.result() for job in many], pair.results())
    print(type(bad.exception()).__name__, "broken on purpose" in str(bad.exception()))
    """

    printed = python(slurm, SUBMITIT + textwrap.dedent(program))

    assert printed.splitlines() == [
        "5 [11, 22, 33] [(0, 2), (1, 2)]",
        "FailedJobError True",
    ]


def test_submitit_cancels_a_job(slurm: Slurm) -> None:
    pytest.importorskip("submitit")
    program = """
    job = executor.submit(time.sleep, 60)
    while job.state != "RUNNING": time.sleep(0.05)
    job.cancel()
    while job.state in ("RUNNING", "COMPLETING", "PENDING"): time.sleep(0.05)
    print(job.state.split()[0])
    """

    assert python(slurm, SUBMITIT + textwrap.dedent(program)) == "CANCELLED\n"


def test_submitit_saves_its_work_when_told_to_and_goes_on_under_the_same_id(slurm: Slurm) -> None:
    pytest.importorskip("submitit")
    program = """
    class Counting:
        def __init__(self): self.done = 0
        def __call__(self):
            while self.done < 600:
                if os.path.exists("go"): return self.done
                self.done += 1
                open("begun", "w").close()
                time.sleep(0.1)
        def checkpoint(self):
            open("go", "w").close()
            return submitit.helpers.DelayedSubmission(self)
    job = executor.submit(Counting())
    while not os.path.exists("begun"): time.sleep(0.05)
    job._interrupt(timeout=False)
    first = job.job_id
    result = job.result()
    print(job.job_id == first, 0 < result < 600)
    """

    printed = python(slurm, SUBMITIT + textwrap.dedent(program))

    assert printed == "True True\n"


def test_simple_slurm_submits_and_chains_jobs(slurm: Slurm) -> None:
    pytest.importorskip("simple_slurm")
    program = """
    from simple_slurm import Slurm
    first = Slurm(job_name="first", output="first.out", array=range(3), cpus_per_task=1)
    first.add_cmd("echo", "begin")
    job = first.sbatch("echo", Slurm.SLURM_ARRAY_TASK_ID, convert=False)
    second = Slurm(output="second.out", dependency=dict(afterok=job), wait=True)
    second.sbatch("echo chained")
    print(isinstance(job, int), open("second.out").read().strip())
    """

    assert python(slurm, program).splitlines()[-1] == "True chained"


def test_dask_jobqueue_brings_workers_and_takes_them_away(slurm: Slurm) -> None:
    pytest.importorskip("dask_jobqueue")
    program = """
    from dask.distributed import Client
    from dask_jobqueue import SLURMCluster
    options = dict(queue="default", interface="lo", log_directory="logs", walltime="00:10:00")
    if __name__ == "__main__":
        with SLURMCluster(cores=1, memory="500MB", processes=1, **options) as cluster:
            cluster.scale(jobs=1)
            with Client(cluster) as client:
                print(client.submit(lambda x: x + 1, 41).result(timeout=240))
    """

    printed = python(slurm, program)

    assert printed == "42\n"
    until(lambda: "dask" not in slurm.text("squeue", "-h", "-t", "PD,R", "-o%j"), "it to be gone")
