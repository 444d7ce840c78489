"""How a job starts: what it finds, as whom it runs, and what it leaves."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.engines.conformance.bench import Bench

#: Whatever a shell, a secret or a script might spoil.
ODD = "a b\t\"c\" 'd' $e `f` \\g\nsecond line; é ünï #!"
MEGABYTE = 1 << 20


@pytest.mark.scenario(1)
def test_exit_0_completes_a_job(bench: Bench):
    shown = bench.until(bench.submit(["true"]))

    assert (shown["state"], shown["exit_code"]) == ("completed", 0)
    assert len(shown["attempts"]) == 1


@pytest.mark.scenario(2)
def test_exit_3_fails_it_with_its_code(bench: Bench):
    shown = bench.until(bench.submit("echo said; exit 3"))

    assert (shown["state"], shown["exit_code"], shown["cause_code"]) == ("failed", 3, "exit")
    assert bench.box.output(shown["id"]) == "said\n"


@pytest.mark.scenario(3)
def test_death_by_a_signal_is_told_with_the_signal(bench: Bench):
    jobs = bench.submit_many(["kill -9 $$", "kill -15 $$"])

    ends = [bench.until(job) for job in jobs]

    assert [(end["state"], end["signal"]) for end in ends] == [("failed", 9), ("failed", 15)]


@pytest.mark.scenario(4)
def test_a_command_that_does_not_exist_fails_the_job_by_its_name(bench: Bench):
    shown = bench.until(bench.submit(["no-such-command", "x"], retries=0))

    assert shown["state"] == "failed"
    assert "no-such-command" in said(bench, shown)
    assert len(shown["attempts"]) == 1


@pytest.mark.scenario(5)
def test_a_folder_that_does_not_exist_fails_the_job_by_its_name(bench: Bench):
    folder = str(bench.box.work / "nowhere")

    shown = bench.until(bench.submit("touch ../ran", workdir=folder))

    assert shown["state"] == "failed"
    assert folder in said(bench, shown)
    assert not (bench.box.work / "ran").exists()


def said(bench: Bench, shown: dict[str, object]) -> str:
    """Everything that its user can read about an end."""
    job = int(str(shown["id"]))
    return f"{shown['cause']} {shown['reason']}" + bench.box.output(job) + errors(bench, job)


def errors(bench: Bench, job: int) -> str:
    return bench.box.output(job, "stderr")


@pytest.mark.scenario(6)
def test_the_environment_is_the_jobs_and_nothing_else(bench: Bench):
    given = {"ODD": ODD, "EMPTY": "", "PATH": "/usr/bin:/bin"}
    job = bench.submit(["cat", "/proc/self/environ"], env=given)

    shown = bench.until(job)

    found = dict(part.split("=", 1) for part in bench.box.output(job).split("\0") if part)
    assert shown["state"] == "completed"
    assert {name: found[name] for name in given} == given
    assert found["ROTA_JOB_ID"] == str(job)
    assert found["ROTA_ATTEMPT_UID"] == shown["attempts"][0]["uid"]
    assert "CONFORMANCE_LEAK" not in found


@pytest.mark.scenario(7)
def test_standard_input_is_what_was_given_and_otherwise_empty(bench: Bench):
    given, without = bench.submit(["cat"], stdin=f"{ODD}\n"), bench.submit(["cat"])

    ends = [bench.until(job)["state"] for job in (given, without)]

    assert ends == ["completed", "completed"]
    assert [bench.box.output(job) for job in (given, without)] == [f"{ODD}\n", ""]


@pytest.mark.scenario(8)
def test_a_script_runs_with_its_arguments_by_its_own_interpreter(bench: Bench):
    shell = '#!/bin/sh\nprintf "<%s>" "$@"\n'
    other = "#!/usr/bin/perl\nprint join('|', @ARGV);\n"
    jobs = [
        bench.submit(script=text, script_args=["one", "two words", "$three"])
        for text in (shell, other)
    ]

    ends = [bench.until(job)["state"] for job in jobs]

    assert ends == ["completed", "completed"]
    printed = [bench.box.output(job) for job in jobs]
    assert printed == ["<one><two words><$three>", "one|two words|$three"]


@pytest.mark.scenario(9)
def test_output_and_error_go_to_the_files_that_were_named(bench: Bench):
    (bench.box.work / "logs").mkdir()
    job = bench.submit("echo out; echo err >&2", output="logs/%j.out", error="logs/%j.err")

    shown = bench.until(job)

    assert shown["state"] == "completed"
    assert bench.box.read(f"logs/{job}.out") == "out\n"
    assert bench.box.read(f"logs/{job}.err") == "err\n"


@pytest.mark.scenario(10)
def test_a_megabyte_of_output_is_there_whole(bench: Bench):
    line = "0123456789abcde\n"
    job = bench.submit(f"yes {line.strip()} | head -n {MEGABYTE // len(line)}")

    shown = bench.until(job)

    assert shown["state"] == "completed"
    whole = line * (MEGABYTE // len(line))
    until(lambda: bench.box.output(job) == whole, "all of it: a node may tell the end first")


@pytest.mark.scenario(11)
def test_the_log_of_a_running_job_is_read_from_an_offset(bench: Bench):
    job = bench.submit("echo first; echo second; while [ ! -e go ]; do sleep 0.05; done; echo last")
    until(lambda: bench.box.output(job) == "first\nsecond\n", "what it has printed so far")

    part = bench.box.api("GET", f"/jobs/{job}/logs?offset=6")[1]
    (bench.box.work / "go").touch()
    bench.until(job, "completed")

    assert part == "second\n"
    assert bench.box.output(job) == "first\nsecond\nlast\n"


@pytest.mark.scenario(12)
def test_a_job_runs_as_the_user_who_submitted_it(bench: Bench):
    box = bench.box.at(bench.box.work, bench.other_user)
    job = box.job("id -un; touch made; id -u >ids", resources={"cpus": 1})

    shown = bench.until(job)

    number = pwd.getpwnam(bench.other_user).pw_uid
    assert (shown["state"], shown["user"]) == ("completed", bench.other_user)
    assert box.output(job) == f"{bench.other_user}\n"
    assert os.stat(box.work / "made").st_uid == number
    assert box.read("ids") == f"{number}\n"


@pytest.mark.scenario(13)
def test_umask_and_limits_are_those_that_were_asked_for(bench: Bench):
    job = bench.submit(
        "umask; ulimit -n; ulimit -c; touch made", umask=0o077, ulimits={"nofile": 321, "core": 0}
    )

    shown = bench.until(job)

    assert shown["state"] == "completed"
    assert bench.box.output(job).split() == ["0077", "321", "0"]
    assert os.stat(bench.box.work / "made").st_mode & 0o777 == 0o600
