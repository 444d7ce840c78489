"""What clients read beside the answer itself: the order of the lines, the variables of a job."""

import subprocess

import pytest

from tests.journeys.box import until
from tests.slurm.real import Slurm

pytestmark = pytest.mark.slow


def merged(slurm: Slurm, *argv: str, stdin: str = "", **env: str) -> list[str]:
    """What a client reads that takes both streams of a command as one."""
    done = subprocess.run(
        argv,
        cwd=slurm.work,
        env={**slurm.env, **env},
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def variables(printed: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)


@pytest.mark.parametrize("option", ["", "--wait"])
def test_the_id_of_a_job_is_in_the_last_line_of_both_streams(either: Slurm, option: str) -> None:
    words = ("sbatch", "--switches=1", "-o", "/dev/null", *option.split(), "--wrap", "true")

    *warned, last = merged(either, *words, HUB_TOKEN="1")

    assert last.startswith("Submitted batch job ")
    assert warned[0] == "sbatch: warning: --switches has no effect here"
    assert "HUB_TOKEN" in warned[1]


def test_a_script_that_asks_for_a_login_is_taken_without_a_word(slurm: Slurm) -> None:
    script = "#!/bin/sh\n#SBATCH --get-user-env=L --export=ALL,HOME=/given\necho $HOME,$LOGNAME\n"
    env = {name: value for name, value in slurm.env.items() if name not in ("LOGNAME", "USER")}

    done = subprocess.run(
        ["sbatch", "-W", "-o", "out"],
        cwd=slurm.work,
        env=env,
        input=script,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stderr == ""
    home, who = (slurm.work / "out").read_text().strip().split(",")
    assert home == "/given"
    assert who == slurm.text("whoami").strip()


@pytest.mark.parametrize("option", ["--mpi=none", "--cpu-bind=none", "--gpu-bind=none"])
def test_an_option_that_asks_for_nothing_gets_it_without_a_word(slurm: Slurm, option: str) -> None:
    assert slurm.run("srun", option, "true").stderr == ""


def test_an_allocation_without_a_name_is_interactive_whatever_its_command(slurm: Slurm) -> None:
    shown = "echo $SLURM_JOB_NAME; squeue -h -j $SLURM_JOB_ID -o %j"

    plain = slurm.text("salloc", "-Q", "sh", "-c", shown)
    named = slurm.text("salloc", "-Q", "-J", "mine", "sh", "-c", shown)

    assert (plain, named) == ("interactive\n" * 2, "mine\n" * 2)


def test_a_task_learns_how_srun_was_called(slurm: Slurm) -> None:
    found = variables(slurm.text("sh", "-c", "umask 027; srun env"))

    assert found["SLURM_UMASK"] == "0027"
    assert found["SRUN_DEBUG"] == "3"
    assert found["SLURM_SRUN_COMM_HOST"] == found["SLURM_LAUNCH_NODE_IPADDR"] == "127.0.0.1"


def test_every_group_of_a_heterogeneous_job_tells_what_it_asked_for(slurm: Slurm) -> None:
    script = "#!/bin/sh\n#SBATCH -n1 -c2 -J pair\n#SBATCH hetjob\n#SBATCH -n2\nenv\n"

    slurm.text("sbatch", "-W", "-o", "out", stdin=script)

    found = variables((slurm.work / "out").read_text())
    told = {name: value for name, value in found.items() if "_HET_GROUP_" in name}
    names = ("NTASKS", "NPROCS", "TASKS_PER_NODE", "JOB_CPUS_PER_NODE", "JOB_NAME", "JOB_QOS")
    groups = [[told[f"SLURM_{name}_HET_GROUP_{number}"] for name in names] for number in (0, 1)]
    assert groups[0] == ["1", "1", "1", "2", "pair", "normal"]
    assert groups[1] == ["2", "2", "2", "2", "pair", "normal"]
    assert told["SLURM_CPUS_PER_TASK_HET_GROUP_0"] == "2"
    assert "SLURM_CPUS_PER_TASK_HET_GROUP_1" not in told
    assert told["SLURM_JOB_PARTITION_HET_GROUP_1"] == found["SLURM_JOB_PARTITION"]
    # Programs take these for signs of a step, or of a job of one kind only.
    assert {"SLURM_LAUNCH_NODE_IPADDR", "SLURM_CPUS_PER_TASK"}.isdisjoint(found)


def test_a_message_for_a_job_is_among_its_errors(slurm: Slurm) -> None:
    waits = "until [ -e go ]; do sleep 0.02; done"
    job = slurm.text("sbatch", "--parsable", "-o", "out", "--wrap", waits).strip()
    slurm.box.reach(job, "running")

    slurm.text("scontrol", "notify", job, "disk", "full")

    told = "slurmstepd-box: error: disk full\n"
    until(lambda: (slurm.work / "out").read_text() == told, "the message")
    (slurm.work / "go").touch()
    slurm.box.ended(job)
    late, waited = (slurm.run("scontrol", *words, job) for words in (["notify"], ["wait_job"]))
    assert late.stderr == "too few arguments for keyword:notify\n"
    assert waited.stderr == f"scontrol: Job {job} no longer running\n"
    late = slurm.run("scontrol", "notify", job, "x")
    assert late.stderr == "job notify failure: Job/step already completing or completed\n"


def test_a_message_for_an_interactive_job_comes_to_its_srun(slurm: Slurm) -> None:
    asked = "scontrol notify $SLURM_JOB_ID hello; echo $?"

    done = slurm.run("srun", "sh", "-c", asked)

    assert (done.stdout, done.stderr) == ("0\n", "slurmstepd-box: error: hello\n")


@pytest.mark.parametrize("entity", ["wckeys", "federations", "problems", "resources"])
def test_tables_of_accounting_are_named_in_the_plural_too(slurm: Slurm, entity: str) -> None:
    assert slurm.text("sacctmgr", "-nP", "show", entity) == ""


def test_all_fields_of_nodes_are_one_word_of_a_long_format(slurm: Slurm) -> None:
    long, short = (slurm.text("sinfo", *words) for words in (["-O", "all"], ["-o", "%all"]))

    assert long == short
    assert long.startswith("AVAIL|ACTIVE_FEATURES|CPUS|")
