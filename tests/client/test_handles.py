"""What stands for a job: not a number, safe beside the jobs of another cluster."""

import asyncio
import pickle
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.client.cluster import ClusterContext
from rota.client.handle import JobReference
from rota.client.http import Client
from tests.api.pretended import PretendedAgent
from tests.api.running import Running, running

#: Guards against hanging only.
WAIT_S = 60.0
COMMAND = rota.Job("small").shell("exit 0").cpus(1)


def connect(server: Running) -> ClusterContext:
    return ClusterContext(Client([f"unix://{server.socket_path}"]))


def test_jobs_of_two_clusters_with_the_same_id_are_two_futures(server: Running):
    with (
        tempfile.TemporaryDirectory(prefix="rota-t") as folder,
        running(Path(folder)) as second,
        connect(server) as one,
        connect(second) as two,
    ):
        jobs = [one.launch(COMMAND), two.launch(COMMAND)]
        for job in jobs:
            job.cancel()

        ended = list(rota.as_completed(jobs, timeout=WAIT_S))

        assert [job.id for job in jobs] == [1, 1]
        assert sorted(job.home for job in ended) == sorted([one.url, two.url])
        assert jobs[0] != jobs[1]


def test_two_handles_of_one_job_are_equal_and_both_hear_of_its_end(
    server: Running, agent: PretendedAgent
):
    with connect(server) as cluster:
        first = cluster.launch(COMMAND)
        second = cluster.job(first.id)

        agent.report_end(agent.launched(first.id))

        assert (first.result(WAIT_S), second.result(WAIT_S)) == (None, None)
        assert len({first, second}) == 1
        assert first is not second


def test_a_handle_says_which_job_it_is_and_how_it_ended(server: Running, agent: PretendedAgent):
    with connect(server) as cluster:
        job = cluster.launch(COMMAND)
        before = repr(job), job._repr_html_()
        agent.report_end(agent.launched(job.id), code=3)
        job.exception(WAIT_S)

        assert not isinstance(job, int)
        assert before[0] == "<JobHandle 1 'small' not ended>"
        assert "<b>small</b>" in before[1]
        assert repr(job) == "<JobHandle 1 'small' failed>"
        assert ">failed<" in job._repr_html_()
        assert (job.id, int(job), str(job), f"{job}") == (1, 1, "1", "1")
        assert job != 1


def test_a_job_of_another_cluster_is_refused_by_every_verb(server: Running):
    with (
        tempfile.TemporaryDirectory(prefix="rota-t") as folder,
        running(Path(folder)) as second,
        connect(server) as here,
        connect(second) as there,
    ):
        mine, stranger = here.launch(COMMAND), there.launch(COMMAND)
        held = here.options(hold=True)
        calls: list[Callable[[], object]] = [
            *(partial(verb, stranger) for verb in verbs(here)),
            lambda: here.update(mine, after_ok=stranger),
            lambda: held.options(after_ok=[mine, stranger]).submit(abs, -1),
            lambda: held.options(depends_on=[{"kind": "after-any", "job": stranger}]).plan(abs, 1),
            lambda: held.map(abs, [-1], after_ok=stranger),
        ]
        refused = f"job 1 belongs to the cluster at {there.url}, and this one is at {here.url}"

        for call in calls:
            with pytest.raises(ValueError, match=refused):
                call()

        assert len(here.jobs()) == len(there.jobs()) == 1
        assert here.status(mine).state == "queued"


def test_a_handle_of_a_second_connection_to_the_same_cluster_is_welcome(server: Running):
    with connect(server) as one, connect(server) as two:
        job = one.launch(COMMAND)
        after = two.options(hold=True, after_ok=job).submit(abs, -1)
        also = [{"kind": "after-any", "job": job}]
        other = two.options(hold=True, depends_on=also).submit(abs, -1)

        assert parent_of(two.status(after)) == ("after-ok", job.id)
        assert parent_of(two.status(other)) == ("after-any", job.id)
        assert two.cancel(job)


@pytest.mark.parametrize(
    "given", ["1_3", " 1", "+1", "\u0661", "", "one", 3.7, 1.0, True, None, 0, -1, [1]], ids=repr
)
def test_what_is_no_id_names_no_job(server: Running, given: Any):
    with connect(server) as cluster:
        cluster.map(abs, range(12), hold=True)

        for verb in verbs(cluster):
            with pytest.raises((TypeError, ValueError), match=r"job: .*expected its handle or its"):
                verb(given)
        assert {status.state for status in cluster.jobs()} == {"held"}
        assert cluster.status("13").id == cluster.job("13").id == 13  # Of array 1, element 11.


def parent_of(status: rota.JobStatus) -> tuple[str, int]:
    (entry,) = status.record["depends_on"]
    return entry["kind"], entry["job"]


def verbs(cluster: ClusterContext) -> list[Callable[[Any], object]]:
    """All that takes a job."""
    return [
        cluster.status, cluster.why, cluster.events, cluster.wait, cluster.cancel, cluster.hold,
        cluster.release, cluster.logs, cluster.progress, cluster.outcome, cluster.job,
        lambda job: cluster.update(job, priority=1),
    ]  # fmt: skip


def test_the_twin_reads_ids_alike(server: Running):
    url, stranger = f"unix://{server.socket_path}", JobReference(1, "unix:///elsewhere", 1)

    async def story() -> None:
        async with rota.connect_async(url) as cluster:
            job = await cluster.launch(COMMAND)
            for given in ("1_3", True, stranger):
                for verb in (cluster.status, cluster.cancel, cluster.wait, cluster.hold):
                    with pytest.raises((TypeError, ValueError), match=r"job(:| 1 belongs)"):
                        await verb(given)
                with pytest.raises((TypeError, ValueError), match=r"job(:| 1 belongs)"):
                    await cluster.update(job, after_ok=given)
            assert (await cluster.status(job)).state == "queued"
            assert job.home == (await cluster.job("1")).home

    asyncio.run(story())


def test_a_handle_cannot_be_stored_and_the_refusal_says_what_to_keep():
    with pytest.raises(TypeError, match=r"job 7: .* keep its id") as caught:
        pickle.dumps(JobReference(7, "unix:///there", 1))
    assert "\n" not in str(caught.value)


def test_a_name_cannot_smuggle_html_into_a_notebook(server: Running):
    with connect(server) as cluster:
        job = cluster.launch(rota.Job("<script>x</script>").shell("exit 0").cpus(1))

        assert "<script>" not in job._repr_html_()
