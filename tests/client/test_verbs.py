"""Questions about jobs and nodes, and orders to them."""

import time
from pathlib import Path

import pytest

import rota
from rota.client.notebook import bar, told

pytestmark = pytest.mark.slow
WAIT_S = 60.0


def test_jobs_are_listed_by_what_they_are(cluster: rota.ClusterContext):
    jobs = cluster.options(name="listed", hold=True).map(abs, [-1, -2, -3])

    found = cluster.jobs(name="listed", state="held")

    assert [status.id for status in found] == [job.id for job in jobs]
    assert [status.id for status in cluster.jobs(name="listed", limit=2)] == [
        job.id for job in jobs[:2]
    ]
    with pytest.raises(rota.Refused, match="sttate"):
        cluster.jobs(sttate="held")


def test_a_job_is_held_changed_and_released(cluster: rota.ClusterContext):
    job = cluster.options(hold=True).submit(abs, -1)

    changed = cluster.update(job, priority="high", time="2h", cpus=2, memory="64m")

    record = changed.record
    assert (record["priority"], record["time_limit_s"]) == (75, 7200)
    assert (record["resources"]["cpus"], record["resources"]["memory_mb"]) == (2, 64)
    assert cluster.release(job).state != "held"
    assert job.result(WAIT_S) == 1
    with pytest.raises(ValueError, match="update: nothing is given"):
        cluster.update(job)


def test_a_job_that_waits_can_be_held(cluster: rota.ClusterContext):
    first = cluster.options(hold=True).submit(abs, -1)
    job = cluster.submit(abs, first)

    assert cluster.hold(job).state == "held"


def test_why_of_a_function_that_failed_names_its_exception(cluster: rota.ClusterContext):
    job = cluster.submit(_fails)
    assert isinstance(job.exception(timeout=60), KeyError)

    why = job.why()

    assert repr(why) == "<why failed: KeyError: 'no such shard'>"
    assert "| KeyError: 'no such shard'" in str(why)


def _fails() -> None:
    raise KeyError("no such shard")


def test_why_and_plan_tell_a_story_and_nodes_are_there(cluster: rota.ClusterContext):
    job = cluster.options(cpus=100, scheduling_timeout_s=600).submit(abs, -1)

    why = job.why()
    plan = cluster.options(cpus=1, name="tried").plan(abs, -1)
    command = cluster.plan(rota.Job().command("true").cpus(1).options(hold=True))

    assert why.state == "queued"
    assert why.reason in str(why)
    assert plan.starts
    assert str(plan) == f"it would start now on {plan.nodes[0]}"
    assert plan.nodes == [cluster.nodes()[0].name]
    assert not command.starts
    assert cluster.jobs(name="tried") == []
    assert [node.state for node in cluster.nodes()] == ["up"]


def test_a_cluster_and_its_jobs_say_in_a_notebook_which_they_are(cluster: rota.ClusterContext):
    first, second = cluster.options(hold=True, name="pair").map(abs, [-1, -2])

    assert repr(cluster) == f"<ClusterContext {cluster.url}>"
    assert repr(second) == f"<JobHandle {first.id - 1}_1 'pair' not ended>"
    assert repr(second.status()) == f"<job {first.id - 1}_1 held>"


def test_output_is_followed_while_it_comes(cluster: rota.ClusterContext, tmp_path: Path):
    go = tmp_path / "go"

    def speak() -> None:
        print("first ä")
        end_s = time.monotonic() + 60
        while not go.exists() and time.monotonic() < end_s:
            time.sleep(0.005)
        print("last")

    job = cluster.submit(speak)
    heard = ""
    for piece in job.logs(follow=True):
        heard += piece
        if "first" in heard:
            go.touch()

    assert heard == "first ä\nlast\n"
    assert cluster.logs(job, tail=1) == "last\n"


def test_a_bar_counts_the_ends_of_many_jobs(
    cluster: rota.ClusterContext, capsys: pytest.CaptureFixture[str]
):
    jobs = [*cluster.map(abs, [-1, -2]), cluster.submit(divmod, 1, 0)]

    rota.watch(jobs, timeout=WAIT_S)

    assert "3/3 ended, 1 failed" in capsys.readouterr().err
    assert told(2, 0, 3) == "2/3 ended"
    assert bar(2, 3, "<b>") == '<progress value="2" max="3"></progress> &lt;b&gt;'


def test_a_job_that_says_how_far_it_is_has_a_bar_in_notebooks(cluster: rota.ClusterContext):
    def report() -> None:
        rota.context().progress(0.25, "a quarter")

    job = cluster.submit(report)
    job.result(WAIT_S)

    assert '<progress value="0.25" max="1"></progress> a quarter' in job._repr_html_()
