"""What a job finds when it starts: its submitter's surroundings and its own share of the box."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from tests.journeys.box import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.journeys.box import Box

TELL = (
    "import json, os, resource; print(json.dumps(dict("
    "cwd=os.getcwd(), env=dict(os.environ), umask=os.umask(0),"
    "files=resource.getrlimit(resource.RLIMIT_NOFILE), cpus=sorted(os.sched_getaffinity(0)),"
    "leader=os.getsid(0) == os.getpid())), flush=True)"
)


def test_environment_folder_umask_and_ulimits_reach_the_job(home: Box) -> None:
    folder = home.work / "a folder"
    folder.mkdir()
    _, made = home.api("POST", "/tokens", {"access": "user"})

    job = home.submit(
        *("--workdir", "a folder", "--umask", "027", "--ulimit", "nofile=777"),
        *("--env", "EXTRA=x=y z"),
        *("--", "python3", "-c", TELL),
        env={"COLOUR": "grün", "ROTA_TOKEN": made["token"]},
    )

    assert home.ended(job)["state"] == "completed"
    told = json.loads(home.output(job))
    assert told["cwd"] == str(folder)
    assert told["umask"] == 0o027
    assert told["files"][0] == 777
    assert told["leader"], "every attempt has a session of its own"
    assert (told["env"]["COLOUR"], told["env"]["EXTRA"]) == ("grün", "x=y z")
    assert "ROTA_TOKEN" not in told["env"], "credentials do not travel"


def test_a_job_finds_who_and_where_it_is(home: Box) -> None:
    job = home.submit(
        *("--name", "me", "--cpus", "2", "--mem", "64m", "--gpus", "1"),
        *("--array", "7", "--", "python3", "-c", TELL),
    )

    (element,) = _elements(home, job)
    assert home.ended(element["id"])["state"] == "completed"
    env = json.loads(home.output(element["id"]))["env"]
    wanted = {
        "ROTA_JOB_ID": str(element["id"]),
        "ROTA_JOB_NAME": "me",
        "ROTA_TASK_INDEX": "0",
        "ROTA_NUM_TASKS": "1",
        "ROTA_ATTEMPT": "1",
        "ROTA_ARRAY_ID": str(job),
        "ROTA_ARRAY_INDEX": "7",
        "ROTA_NODELIST": "box",
        "ROTA_CPUS": "2",
        "ROTA_MEM_MB": "64",
        "SLURM_ARRAY_TASK_ID": "7",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    assert {name: env.get(name) for name in wanted} == wanted


def test_output_and_error_go_to_the_named_files(home: Box) -> None:
    job = home.submit(
        *("--output", "out-%j.txt", "--error", "err-%x.txt", "--name", "both"),
        *("--shell", "echo one; echo two >&2"),
    )

    home.ended(job)
    assert home.read(f"out-{job}.txt") == "one\n"
    assert home.read("err-both.txt") == "two\n"
    assert home.rota("logs", str(job)).stdout == "one\ntwo\n"


def test_before_and_after_lines_surround_the_job_and_keep_its_exit_code(home: Box) -> None:
    job = home.submit(
        *("--prologue", "echo before", "--epilogue", "echo after"),
        *("--", "sh", "-c", "echo during; exit 5"),
    )

    assert home.ended(job)["exit_code"] == 5
    assert home.output(job) == "before\nduring\nafter\n"


def test_a_python_environment_is_active_in_the_job(home: Box) -> None:
    (home.work / "venv" / "bin").mkdir(parents=True)
    program = home.work / "venv" / "bin" / "python"
    program.write_text("#!/bin/sh\necho mine $VIRTUAL_ENV\n")
    program.chmod(0o755)

    job = home.submit("--venv", "venv", "--", "python")

    home.ended(job)
    assert home.output(job) == f"mine {home.work}/venv\n"


def test_whole_cpus_are_bound_to_the_jobs_that_hold_them(new_box: Callable[..., Box]) -> None:
    box = new_box(cpus=len(os.sched_getaffinity(0)))
    box.up()
    meet = f"{TELL}; import time\nwhile not os.path.exists('go'): time.sleep(0.01)"

    jobs = [box.job(["python3", "-c", meet]) for _ in os.sched_getaffinity(0)]
    until(lambda: all(box.output(job) for job in jobs), "all of them to run at once")
    (box.work / "go").touch()
    for job in jobs:
        box.ended(job)

    bound = [json.loads(box.output(job))["cpus"] for job in jobs]
    assert all(len(cpus) == 1 for cpus in bound)
    assert sorted(cpu for cpus in bound for cpu in cpus) == sorted(os.sched_getaffinity(0))


def _elements(box: Box, array: int) -> list[dict[str, object]]:
    _, page = box.api("GET", f"/jobs?array={array}&arrays=expand")
    return list(page["items"])
