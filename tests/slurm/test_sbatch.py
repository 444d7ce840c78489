"""What sbatch, scancel and scontrol make of what they are told: seen in the jobs of Rota."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.api.bodies.submission import Desk
from rota.core.facts.array import Array
from rota.core.facts.job import Job
from rota.core.facts.notices import parse_target
from rota.core.facts.parents import DependencyKind
from rota.core.facts.states import JobState
from rota.slurm.orders.detail import detail_of
from rota.slurm.orders.mail import mail_targets
from tests.slurm.cluster import Cluster


def submit(cluster: Cluster, *argv: str, script: str = "true", **more: object) -> Job:
    """A held job, so that nothing runs."""
    text = f"#!/bin/sh\n{script}\n".encode()
    words = ("-H", "--parsable", *argv)
    return cluster.job(int(cluster.text("sbatch", *words, stdin=text, **more)))


def test_tasks_and_their_cpus_become_one_share_of_a_node(cluster: Cluster) -> None:
    job = submit(cluster, "-n2", "-c2", "--mem-per-cpu=100")

    assert job.spec.task_count == 1
    assert job.spec.request.cpu_milli == 4000
    assert job.spec.request.memory_mib == 400


def test_tasks_that_no_node_could_hold_are_spread_over_several(cluster: Cluster) -> None:
    job = submit(cluster, "-n10")

    assert job.spec.task_count == 3
    assert job.spec.placement.node_count == 3
    assert detail_of(job.spec).ntasks == 10


def test_nodes_with_tasks_per_node_give_that_many_tasks(cluster: Cluster) -> None:
    job = submit(cluster, "-N2", "--tasks-per-node=3")

    assert (job.spec.task_count, detail_of(job.spec).ntasks) == (2, 6)
    assert job.spec.variables["SLURM_TASKS_PER_NODE"] == "3(x2)"
    assert job.spec.variables["SLURM_NTASKS"] == "6"


@pytest.mark.parametrize(
    "words",
    [
        ("--gres=gpu:2",),
        ("--gres=gpu:h200:2",),
        ("-G2",),
        ("--gpus=h200:2",),
        ("--gpus-per-node=2",),
        ("--gpus-per-task=1", "-n2"),
        ("--gpus=2", "--ntasks-per-gpu=1"),
    ],
)
def test_gpus_can_be_asked_for_in_every_spelling(cluster: Cluster, words: tuple[str, ...]) -> None:
    assert submit(cluster, *words).spec.request.device_count == 2


def test_options_are_taken_from_the_script_the_environment_and_the_line_in_this_order(
    cluster: Cluster,
) -> None:
    script = "#SBATCH -J script --comment='a b' -t 5\n#SBATCH --qos=low\ntrue"
    env = {"SBATCH_TIMELIMIT": "6", "SBATCH_QOS": "high"}

    job = submit(cluster, "-t7", script=script, env=env)

    assert job.spec.name == "script"
    assert detail_of(job.spec).comment == "a b"
    assert detail_of(job.spec).qos == "high"
    assert job.spec.time_limit_s == 7 * 60


def test_the_directives_of_a_script_become_the_fields_of_a_job(cluster: Cluster) -> None:
    script = "#SBATCH --gres=gpu:1 --job-name=fit\n#SBATCH --time=2:30:00 --priority=60\n./fit"

    spec = submit(cluster, script=script).spec

    assert (spec.name, spec.priority, spec.time_limit_s) == ("fit", 60, 9000)
    assert spec.request.device_count == 1
    blob = cluster.server.host.blobs.get(spec.script)
    assert blob == f"#!/bin/sh\n{script}\n".encode()


def test_the_top_of_the_priorities_is_for_operators(cluster: Cluster) -> None:
    answer = cluster.run("sbatch", "--priority=4000", "--wrap", "true", user="bob")

    assert answer.code == 1
    assert answer.stderr == (
        "sbatch: error: Batch job submission failed: Access/permission denied\n"
    )
    assert submit(cluster, "--priority=4000").spec.priority == 100


def test_a_job_is_named_after_how_it_was_given(cluster: Cluster) -> None:
    assert submit(cluster).spec.name == "sbatch"
    assert cluster.job(cluster.submit("-H")).spec.name == "wrap"


def test_output_goes_to_one_file_beside_the_caller_unless_named(cluster: Cluster) -> None:
    plain = submit(cluster, cwd="/data")
    apart = submit(cluster, "-D/work", "-oout-%j", "-e", "err")

    assert (plain.spec.workdir, plain.spec.output) == ("/data", "slurm-%j.out")
    assert plain.spec.error == plain.spec.output
    assert (apart.spec.workdir, apart.spec.output, apart.spec.error) == ("/work", "out-%j", "err")


def test_the_environment_travels_as_export_says(cluster: Cluster) -> None:
    env = {"MINE": "1", "ROTA_TOKEN": "secret", "HOME": "/h"}
    host = cluster.server.host

    def found(*argv: str) -> bytes:
        body = host.blobs.get(submit(cluster, *argv, env=env).spec.environment)
        assert body is not None
        return body

    assert b"MINE" in found()
    assert b"secret" not in found()
    assert b"MINE" not in found("--export=NONE")
    assert b"OTHER" in found("--export=NONE,OTHER=2")
    assert b"MINE" in found("--export=MINE")


def test_what_looks_like_a_secret_travels_only_when_export_names_it(cluster: Cluster) -> None:
    env = {"MINE": "1", "HF_TOKEN": "hush", "PATH": "/bin"}
    host = cluster.server.host

    plain = host.blobs.get(submit(cluster, env=env).spec.environment)
    named = host.blobs.get(submit(cluster, "--export=ALL,HF_TOKEN", env=env).spec.environment)

    assert plain is not None
    assert named is not None
    assert (b"MINE" in plain, b"hush" in plain) == (True, False)
    assert (b"MINE" in named, b"hush" in named) == (True, True)


def test_variables_that_were_not_asked_for_are_absent(cluster: Cluster) -> None:
    plain = submit(cluster).spec.variables
    asked = submit(cluster, "-n3", "-c1", "--mem=2G").spec.variables

    assert plain["SLURM_NTASKS"] == plain["SLURM_CPUS_PER_TASK"] == ""
    assert asked["SLURM_NTASKS"] == asked["SLURM_NPROCS"] == "3"
    assert asked["SLURM_CPUS_PER_TASK"] == "1"
    assert asked["SLURM_MEM_PER_NODE"] == "2048"


def test_dependencies_are_read_in_every_form(cluster: Cluster) -> None:
    first, second = submit(cluster).id, submit(cluster).id

    both = submit(cluster, f"--dependency=afterok:{first}:{second},afterany:{first}")
    either = submit(cluster, "-d", f"afterok:{first}?afternotok:{second}")
    unknown = submit(cluster, "-d", "afterok:999999")

    kinds = [(one.kind, one.parent) for one in both.spec.dependencies]
    assert kinds == [
        (DependencyKind.AFTER_OK, first),
        (DependencyKind.AFTER_OK, second),
        (DependencyKind.AFTER_ANY, first),
    ]
    assert either.spec.any_dependency
    assert not unknown.spec.dependencies


def test_a_singleton_waits_for_every_job_of_its_name(cluster: Cluster) -> None:
    others = [submit(cluster, "-Jone", user="bob").id for _ in range(2)]
    submit(cluster, "-Jone", user="alice")

    job = submit(cluster, "-Jone", "-dsingleton", user="bob")

    assert [one.parent for one in job.spec.dependencies] == others


def test_a_job_that_shall_start_minutes_after_another_is_not_started_at_once(
    cluster: Cluster,
) -> None:
    first = submit(cluster)
    assert submit(cluster, "-d", f"after:{first.id}+0").spec.dependencies[0].parent == first.id

    done = cluster.run("sbatch", "-d", f"after:{first.id}+5", "--wrap", "true")

    assert done.code == 1
    assert f"after:{first.id}+5: a job cannot wait for minutes" in done.stderr


@pytest.mark.parametrize(
    ("option", "code", "said"),
    [
        ("--open-mode=foo", 255, "Invalid --open-mode specification"),
        ("--exclusive=foo", 255, "Invalid --exclusive specification"),
        ("--mail-type=END,FOO", 255, "Invalid --mail-type specification"),
        ("--reservation=nope", 1, "Requested reservation is invalid"),
        ("--deadline=now", 1, "Requested time limit is invalid (missing or exceeds some limit)"),
    ],
)
def test_words_that_nobody_knows_are_refused(
    cluster: Cluster, option: str, code: int, said: str
) -> None:
    done = cluster.run("sbatch", option, "--wrap", "true")

    assert (done.code, done.stdout) == (code, "")
    assert done.stderr.startswith("sbatch: error: ")
    assert done.stderr.endswith(f"{said}\n")


def test_the_script_of_a_job_with_an_input_is_shown_as_it_was_written(cluster: Cluster) -> None:
    job = submit(cluster, "-i", "in", script="echo mine")

    assert "\necho mine\n" in cluster.text("sacct", "-B", "-j", str(job.id))
    written = cluster.run("scontrol", "write", "batch_script", str(job.id), "-").stdout
    assert written == b"#!/bin/sh\necho mine\n"


def test_an_array_keeps_its_indices_and_its_cap(cluster: Cluster) -> None:
    array_id = cluster.submit("-H", "--array=1-9:4,20%2")

    array = cluster.server.host.cluster.arrays[array_id]
    assert isinstance(array, Array)
    assert (array.count, array.cap) == (4, 2)


def test_a_job_that_is_too_large_waits_as_in_slurm(cluster: Cluster) -> None:
    job_id = cluster.submit("-c64")

    assert cluster.job(job_id).state is JobState.QUEUED


def test_a_script_for_several_nodes_is_run_on_the_first_one(cluster: Cluster) -> None:
    job_id = cluster.submit("-H", "-N2")

    shown = cluster.run("scontrol", "write", "batch_script", str(job_id), "-", user="alice")

    assert isinstance(shown.stdout, bytes)
    assert shown.stdout.endswith(b"\nsleep 1\n")


def test_scancel_takes_filters_and_never_touches_jobs_of_others(cluster: Cluster) -> None:
    mine = cluster.submit("-H", "-Jdrop", user="alice")
    other = cluster.submit("-H", "-Jdrop", user="bob")

    assert cluster.run("scancel", "-n", "drop", user="alice").code == 0

    assert mine not in cluster.server.host.cluster.jobs
    assert cluster.job(other).state is JobState.HELD


def test_scancel_of_one_element_leaves_the_others(cluster: Cluster) -> None:
    array = cluster.submit("-H", "--array=0-3")

    assert cluster.run("scancel", f"{array}_[1-2]", user="alice").code == 0

    states = [cluster.server.host.cluster.state_of(array + 1 + n) for n in range(4)]
    held, gone = JobState.HELD, JobState.CANCELLED
    assert states == [held, gone, gone, held]


def test_scontrol_update_changes_what_it_names(cluster: Cluster) -> None:
    job_id = cluster.submit("-H", "-t10")
    words = (f"jobid={job_id}", "TimeLimit=5", "JobName=new", "Comment=why", "MinMemoryNode=2G")

    assert cluster.run("scontrol", "update", *words, user="alice").code == 0

    spec = cluster.job(job_id).spec
    assert (spec.name, spec.time_limit_s) == ("new", 300)
    assert spec.request.memory_mib == 2048
    assert detail_of(spec).comment == "why"


def test_scontrol_holds_and_releases(cluster: Cluster) -> None:
    job_id = cluster.submit("-H", "-c64")

    assert cluster.run("scontrol", "release", str(job_id), user="alice").code == 0
    assert cluster.job(job_id).state is JobState.QUEUED
    assert cluster.run("scontrol", "hold", str(job_id), user="alice").code == 0
    assert cluster.job(job_id).state is JobState.HELD


def test_test_only_tells_when_and_submits_nothing(cluster: Cluster) -> None:
    before = cluster.server.host.cluster.ids.next

    answer = cluster.run("sbatch", "--test-only", "--wrap", "true")

    assert answer.code == 0
    assert answer.stderr.startswith(f"sbatch: Job {before} to start at ")
    assert cluster.server.host.cluster.ids.next == before


@pytest.mark.parametrize(
    ("kinds", "told"),
    [("END", ["mail:a@b.org,on=end"]), ("begin,FAIL", ["mail:a@b.org,on=started,problem"])],
)
def test_whoever_wants_mail_is_told_where_the_site_can_send_it(
    kinds: str, told: list[str], cluster: Cluster
) -> None:
    desk = cluster.server.context.desk
    able = Desk(desk.knows_blob, desk.now_s, desk.find_job, parse_target)

    assert mail_targets(kinds, "a@b.org", able) == told
    assert mail_targets("NONE", "a@b.org", able) == []
    assert mail_targets(kinds, "a@b.org", desk) == []


def test_a_script_comes_in_over_the_network_too(cluster: Cluster) -> None:
    script = "#!/bin/sh\n#SBATCH -J posted -n2\ntrue\n"
    ada = cluster.server.as_user("ada")

    answer = ada.post("/slurm/sbatch", {"script": script, "options": ["-H"], "workdir": "/w"})

    assert answer.status == 201, answer.body
    spec = cluster.job(answer.json["id"]).spec
    assert (spec.name, spec.user, spec.workdir) == ("posted", "ada", "/w")
    bad = ada.post("/slurm/sbatch", {"script": "true"})
    assert bad.status == 400
    assert "does not look like a batch script" in bad.json["detail"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-t 1:x", "script: line 4: sbatch: error: Invalid --time specification"),
        ("--nosuch=3", "script: line 4: sbatch: unrecognized option '--nosuch=3'"),
        ("--gres=foo:1", "script: line 4: sbatch: error: Invalid generic resource (gres)"),
        ("-J 'a", "sbatch: fatal: /dev/stdin: line 4: Unmatched `'`"),
    ],
)
def test_a_refusal_names_the_line_of_the_script(cluster: Cluster, line: str, said: str) -> None:
    script = f"#!/bin/sh\n#SBATCH -n2\n\n#SBATCH {line}\n#SBATCH -J x\ntrue\n"
    ada = cluster.server.as_user("ada")

    for place in ("/slurm/sbatch", "/slurm/plan"):
        refused = ada.post(place, {"script": script, "workdir": "/w"})

        assert (refused.status, refused.json["field"]) == (400, "script")
        assert refused.json["detail"].startswith(said)
        assert "\n" not in refused.json["detail"]


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
OPTION = st.sampled_from(
    [
        *("-n", "-N", "-c", "-t", "--mem=", "--gres=", "-a", "-d", "-w", "-C", "--begin=", "-p"),
        *("--signal=", "-A", "-q", "-o", "-D", "-J", "--export=", "--nice=", "-G", "--array="),
        *("--dependency=", "--gpus-per-task=", "--ntasks-per-node=", "--mem-per-cpu="),
    ]
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
@given(st.lists(st.tuples(OPTION, WORDS), max_size=4), WORDS)
def test_no_line_script_or_environment_gives_a_traceback(
    cluster: Cluster, pairs: list[tuple[str, str]], tail: str
) -> None:
    words = [option + word for option, word in pairs]
    script = f"#!/bin/sh\n#SBATCH {tail}\n".encode()
    env = {"SBATCH_TIMELIMIT": tail, "SBATCH_GRES": tail}

    for argv in (
        ("sbatch", "-H", *words),
        ("sbatch", "-H", "--test-only"),
        ("scancel", "-Q", *words),
        ("scontrol", "update", f"jobid={tail}", *words),
        ("scontrol", "hold", tail),
        ("srun", *words),
    ):
        answer = cluster.run(*argv, stdin=script, env=env)

        assert "internal error" not in answer.stderr
        assert answer.code in (0, 1, 255)
