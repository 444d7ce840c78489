"""Jobs that a builder puts together, as the server takes them."""

from collections.abc import Callable, Iterator

import pytest

import rota
from rota.client.cluster import ClusterContext, JobFailed
from rota.client.http import Client
from tests.api.pretended import PretendedAgent
from tests.api.running import WAIT_S, Caller, Running


@pytest.fixture
def cluster(server: Running) -> Iterator[ClusterContext]:
    with ClusterContext(Client([f"unix://{server.socket_path}"])) as context:
        yield context


def test_a_job_is_built_step_by_step_and_one_can_be_the_start_of_several(
    cluster: ClusterContext, caller: Caller
) -> None:
    small = rota.Job("train").command("python", "train it.py").cpus(1.5).memory("2g")
    large = small.gpus(2, "A100").priority("high").time_limit("2h").options(queue="default")

    first, second = cluster.launch(small), cluster.launch(large)

    one, two = caller.job(first), caller.job(second)
    assert (one["name"], one["priority"], one["time_limit_s"]) == ("train", 50, 0)
    assert (two["name"], two["priority"], two["time_limit_s"]) == ("train", 75, 7200)
    asked = [(job["resources"]["cpus"], job["resources"]["memory_mb"]) for job in (one, two)]
    assert asked == [(1.5, 2048), (1.5, 2048)]
    assert (one["resources"]["gpus"], two["resources"]["gpus"]) == (0, 2)
    assert two["resources"]["gpu_type"] == "A100"
    assert one["command"] == two["command"] == ["python", "train it.py"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rota.Job("x").command("true").request(), "needs a resource"),
        (lambda: rota.Job("x").cpus(1).request(), "needs a command"),
        (lambda: rota.Job("x").command(), "at least the program"),
        (lambda: rota.Job("x").cpus(-1), "-1"),
        (lambda: rota.Job("x").memory("4 apples"), "4 apples"),
        (lambda: rota.Job("x").gpus(0), "at least 1"),
        (lambda: rota.Job("x").time_limit("soon"), "soon"),
    ],
)
def test_a_step_that_cannot_be_meant_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_a_command_has_no_result_and_its_failure_is_raised(
    cluster: ClusterContext, agent: PretendedAgent
) -> None:
    job = rota.Job().shell("exit 0").cpus(1)
    fine, broken = cluster.launch(job), cluster.launch(job)
    agent.report_end(agent.launched(fine.id))
    agent.report_end(agent.launched(broken.id), code=3)

    assert fine.result(timeout=WAIT_S) is None
    with pytest.raises(JobFailed, match="exit code 3"):
        broken.result(timeout=WAIT_S)
