"""Variables that callers set for the commands: for options, and for the code of a refusal."""

import pytest

from rota.slurm.orders.options import SHEETS
from tests.slurm.cluster import Cluster
from tests.slurm.real import Slurm

#: What 22.05 to 24.11 read in place of an option, without the prefix of the command.
SHARED = (
    "ACCOUNT ACCTG_FREQ CLUSTERS CONSTRAINT CORE_SPEC CPUS_PER_GPU DEBUG DELAY_BOOT EXCLUSIVE"
    " GPUS GPUS_PER_NODE GPUS_PER_TASK GPU_BIND GPU_FREQ GRES GRES_FLAGS HINT MEM_BIND MEM_PER_CPU"
    " MEM_PER_GPU MEM_PER_NODE NETWORK NO_KILL OVERCOMMIT PARTITION POWER PROFILE QOS REQ_SWITCH"
    " RESERVATION SIGNAL SPREAD_JOB THREADS_PER_CORE THREAD_SPEC TIMELIMIT TRES_BIND TRES_PER_TASK"
    " USE_MIN_NODES WAIT_ALL_NODES WCKEY"
)
OWN = {
    "sbatch": "SBATCH_ARRAY_INX SBATCH_BATCH SBATCH_CONTAINER SBATCH_CONTAINER_ID"
    " SBATCH_DISTRIBUTION SBATCH_ERROR SBATCH_EXPORT SBATCH_GET_USER_ENV SBATCH_IGNORE_PBS"
    " SBATCH_INPUT SBATCH_JOB_NAME SBATCH_NO_REQUEUE SBATCH_OPEN_MODE SBATCH_OUTPUT"
    " SBATCH_REQUEUE SBATCH_WAIT",
    "salloc": "SALLOC_BELL SALLOC_BURST_BUFFER SALLOC_CONTAINER SALLOC_CONTAINER_ID"
    " SALLOC_IMMEDIATE SALLOC_KILL_CMD SALLOC_NO_BELL",
    "srun": "SLURMD_DEBUG SLURM_BCAST SLURM_BCAST_EXCLUDE SLURM_BURST_BUFFER SLURM_COMPRESS"
    " SLURM_CPU_BIND SLURM_CPU_FREQ_REQ SLURM_DEPENDENCY SLURM_DISABLE_STATUS SLURM_DISTRIBUTION"
    " SLURM_EPILOG SLURM_EXACT SLURM_EXPORT_ENV SLURM_IMMEDIATE SLURM_JOB_NAME"
    " SLURM_JOB_NUM_NODES SLURM_KILL_BAD_EXIT SLURM_LABELIO SLURM_MPI_TYPE SLURM_NNODES"
    " SLURM_NPROCS SLURM_NTASKS SLURM_NTASKS_PER_CORE SLURM_NTASKS_PER_GPU SLURM_NTASKS_PER_NODE"
    " SLURM_NTASKS_PER_SOCKET SLURM_OOMKILLSTEP SLURM_OPEN_MODE SLURM_OVERLAP SLURM_PROLOG"
    " SLURM_REMOTE_CWD SLURM_RESV_PORTS SLURM_SEND_LIBS SLURM_STDERRMODE SLURM_STDINMODE"
    " SLURM_STDOUTMODE SLURM_STEP_GRES SLURM_TASK_EPILOG SLURM_TASK_PROLOG SLURM_THREADS"
    " SLURM_UNBUFFEREDIO SLURM_WAIT SLURM_WORKING_DIR SRUN_CONTAINER SRUN_CONTAINER_ID"
    " SRUN_CPUS_PER_TASK SRUN_ERROR SRUN_EXPORT_ENV SRUN_INPUT SRUN_OUTPUT",
}
PREFIX = {"sbatch": "SBATCH_", "salloc": "SALLOC_", "srun": "SLURM_"}


@pytest.mark.parametrize("program", SHEETS)
def test_every_variable_that_slurm_takes_for_an_option_is_in_the_table(program: str) -> None:
    shared = {PREFIX[program] + name for name in SHARED.split()}

    assert not (shared | set(OWN[program].split())) - SHEETS[program].variables.keys()


def test_an_option_that_is_refused_is_refused_from_a_variable_too(cluster: Cluster) -> None:
    answer = cluster.run("sbatch", "--wrap", "true", env={"SBATCH_CONTAINER": "/images/x"})

    said = "--container is not possible here: images run with rota submit --image"
    assert (answer.code, answer.stderr) == (255, f"sbatch: error: {said}\n")


def test_a_bad_value_in_a_variable_is_refused_and_a_good_one_taken_silently(
    cluster: Cluster,
) -> None:
    bad = cluster.run("sbatch", "-H", "--wrap", "true", env={"SBATCH_HINT": "foo"})
    good = cluster.run("sbatch", "-H", "--wrap", "true", env={"SBATCH_HINT": "multithread"})

    assert bad.stderr == 'sbatch: error: unrecognized --hint argument "foo", see --hint=help\n'
    assert (good.code, good.stderr) == (0, "")


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("-p", "nosuch", "--wrap", "true"), 42),
        (("no-such-file",), 42),
        (("--bogus", "--wrap", "true"), 255),
        (("-c", "x", "--wrap", "true"), 1),
    ],
)
def test_the_code_of_what_cannot_be_had_is_the_callers_choice(
    argv: tuple[str, ...], code: int, cluster: Cluster
) -> None:
    assert cluster.run("sbatch", *argv, env={"SLURM_EXIT_ERROR": "42"}).code == code


@pytest.mark.parametrize("text", ["0", "x"])
def test_a_choice_of_no_code_is_told_and_not_followed(text: str, cluster: Cluster) -> None:
    answer = cluster.run("sbatch", "no-such-file", env={"SLURM_EXIT_ERROR": text})

    assert answer.code == 1
    assert answer.stderr.startswith("sbatch: error: SLURM_EXIT_ERROR has zero value\n")


@pytest.mark.slow
def test_srun_and_salloc_end_with_the_chosen_code_and_programs_with_their_own(
    slurm: Slurm,
) -> None:
    chosen = {"SLURM_EXIT_ERROR": "42", "SLURM_EXIT_IMMEDIATE": "43"}
    calls = [
        ("srun", "-p", "nosuch", "true"),
        ("salloc", "-p", "nosuch", "true"),
        ("srun", "--jobid=99999", "true"),
        ("srun", "-I1", "-n99", "true"),
        ("srun", "sh", "-c", "exit 3"),
        ("salloc", "-Q", "srun", "-N2", "true"),
    ]

    codes = [slurm.run(*argv, env=chosen).returncode for argv in calls]

    assert codes == [42, 42, 42, 43, 3, 42]


@pytest.mark.slow
def test_a_step_exports_what_its_job_was_told_to_export(slurm: Slurm) -> None:
    shown = "srun env | grep -e ^MINE= -e ^GIVEN= -e ^SLURM_SUBMIT_HOST= | cut -d= -f1 | xargs"
    twice = f"export MINE=1; {shown}; export SLURM_EXPORT_ENV=ALL; {shown}"

    none = slurm.script(twice, "--export=NONE").splitlines()
    given = slurm.script(twice, "--export=ALL,GIVEN=2").splitlines()

    assert [set(line.split()) for line in none] == [
        {"SLURM_SUBMIT_HOST"},
        {"SLURM_SUBMIT_HOST", "MINE"},
    ]
    assert [set(line.split()) for line in given] == [{"SLURM_SUBMIT_HOST", "MINE", "GIVEN"}] * 2


@pytest.mark.slow
def test_variables_of_srun_place_its_tasks_and_their_folder(slurm: Slurm) -> None:
    env = {"SLURM_NPROCS": "2", "SLURM_REMOTE_CWD": "/", "SRUN_OUTPUT": f"{slurm.work}/o.%t"}

    done = slurm.run("srun", "pwd", env=env)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [(slurm.work / f"o.{rank}").read_text() for rank in (0, 1)] == ["/\n", "/\n"]


def test_scancel_takes_its_filters_and_its_question_from_variables(cluster: Cluster) -> None:
    mine, other = (cluster.submit("-H", "-J", name) for name in ("by-variable", "other"))

    asked = {"SCANCEL_NAME": "by-variable", "SCANCEL_INTERACTIVE": "true"}
    cluster.run("scancel", env=asked, stdin=b"n\n")
    left = cluster.server.host.cluster.jobs.keys() & {mine, other}
    cluster.text("scancel", env={**asked, "SCANCEL_INTERACTIVE": "false"})

    assert left == {mine, other}
    assert cluster.server.host.cluster.jobs.keys() & {mine, other} == {other}


@pytest.mark.parametrize("program", ["squeue", "sinfo", "sprio", "scancel", "sbatch"])
def test_a_cluster_that_nobody_knows_is_refused_from_a_variable_too(
    program: str, cluster: Cluster
) -> None:
    answer = cluster.run(program, env={"SLURM_CLUSTERS": "elsewhere"}, stdin=b"#!/bin/sh\n")

    assert answer.code == 1
    assert answer.stderr.startswith(f"{program}: error: No cluster 'elsewhere' known by database.")


def test_lists_take_their_flags_and_formats_from_variables(cluster: Cluster) -> None:
    array = cluster.submit("-H", "-a1-2", "-J", "spread-out")

    names = ("-h", "-n", "spread-out", "-o", "%i")
    split = cluster.text("squeue", *names, env={"SQUEUE_ARRAY": "1"})
    whole = cluster.text("squeue", *names, env={"SQUEUE_ARRAY": "0"})
    heads = cluster.text("sprio", env={"SPRIO_FORMAT": "%i|%u"})

    assert split.split() == [f"{array}_1", f"{array}_2"]
    assert whole == f"{array}_[1-2]\n"
    assert heads.splitlines()[0] == "JOBID|USER"
    cluster.text("scancel", str(array))


@pytest.mark.parametrize("words", [["-v"], ["--verbose", "-v"]])
def test_sbatch_tells_its_options_when_it_is_asked_to(words: list[str], cluster: Cluster) -> None:
    answer = cluster.run("sbatch", "-H", *words, "-t", "5", "--wrap", "true")

    rule = f"sbatch: {'-' * 20} {'-' * 20}"
    assert answer.stderr.splitlines() == [
        "sbatch: defined options",
        rule,
        "sbatch: hold                : set",
        "sbatch: time                : 00:05:00",
        f"sbatch: verbose             : {len(words)}",
        "sbatch: wrap                : true",
        rule,
        "sbatch: end of defined options",
    ]


@pytest.mark.parametrize("env", [{}, {"SBATCH_DEBUG": "1"}])
def test_nobody_is_quiet_and_verbose_at_once(env: dict[str, str], cluster: Cluster) -> None:
    words = ["-Q"] if env else ["-Q", "-v"]

    answer = cluster.run("sbatch", *words, "--wrap", "true", env=env)

    said = "sbatch: error: don't specify both --verbose (-v) and --quiet (-Q)\n"
    assert (answer.code, answer.stderr) == (1, said)
