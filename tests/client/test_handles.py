"""What stands for a job: not a number, safe beside the jobs of another cluster."""

import pickle
import tempfile
from pathlib import Path

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


def test_a_handle_cannot_be_stored_and_the_refusal_says_what_to_keep():
    with pytest.raises(TypeError, match=r"job 7: .* keep its id") as caught:
        pickle.dumps(JobReference(7, "unix:///there", 1))
    assert "\n" not in str(caught.value)


def test_a_name_cannot_smuggle_html_into_a_notebook(server: Running):
    with connect(server) as cluster:
        job = cluster.launch(rota.Job("<script>x</script>").shell("exit 0").cpus(1))

        assert "<script>" not in job._repr_html_()
