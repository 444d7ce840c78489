"""Records that are edited by Slurm's commands and over REST at the same time."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from rota.slurm.serving import answer_to
from tests.api.running import WAIT_S
from tests.slurm.cluster import Cluster

#: What is edited where over REST, and by which command of Slurm.
EDITS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "/queues/night": ({"priority": 70}, ["sacctmgr", "-i", "modify", "qos", "night", "set"]),
    "/projects/arts": ({"shares": 7}, ["sacctmgr", "-i", "modify", "account", "arts", "set"]),
    "/users/ann": ({"shares": 7}, ["sacctmgr", "-i", "modify", "user", "ann", "set"]),
}
LIMIT = {"qos": "maxjobspu", "account": "grpjobs", "user": "grpjobs"}


@pytest.fixture(scope="module", autouse=True)
def records(cluster: Cluster) -> None:
    cluster.queue("night")
    cluster.project("arts")
    assert cluster.server.local().patch("/users/ann", {"shares": 1}).status == 200


def tag(cluster: Cluster, path: str) -> str:
    return str(cluster.server.local().get(path).headers["etag"])


def held(cluster: Cluster, *calls: Callable[[], Future[Any]]) -> list[Any]:
    """What they give. All of them begin while the controller is busy with something else."""
    reader = cluster.server.local()
    cluster.server.store.may_commit.clear()
    try:
        begun: list[Future[Any]] = []
        for call in (lambda: busy(cluster), *calls):
            begun.append(call())
            # By the time that others were answered so often, it has got as far as it can.
            assert {reader.get("/queues/night").status for _ in range(20)} == {200}
    finally:
        cluster.server.store.may_commit.set()
    return [future.result(WAIT_S) for future in begun][1:]


def busy(cluster: Cluster) -> Future[Any]:
    made = cluster.call_of("sbatch", "-H", "--wrap", "true")
    return asyncio.run_coroutine_threadsafe(answer_to(made), cluster.server.loop)


def command(cluster: Cluster, path: str, jobs: int) -> Future[Any]:
    words = EDITS[path][1]
    made = cluster.call_of(*words, f"{LIMIT[words[3]]}={jobs}")
    return asyncio.run_coroutine_threadsafe(answer_to(made), cluster.server.loop)


def patched(cluster: Cluster, pool: Executor, path: str, **headers: str) -> Future[Any]:
    return pool.submit(cluster.server.local().call, "PATCH", path, EDITS[path][0], **headers)


@pytest.mark.parametrize("path", EDITS)
def test_edits_at_once_by_two_doors_keep_each_others_change(cluster: Cluster, path: str) -> None:
    with ThreadPoolExecutor() as pool:
        slurm, rest = held(
            cluster, lambda: command(cluster, path, 3), lambda: patched(cluster, pool, path)
        )

    shown = str(cluster.server.local().get(path).json)
    assert (slurm.code, rest.status) == (0, 200)
    assert "'jobs': 3" in shown or "'max_per_user': 3" in shown
    assert "'shares': 7" in shown or "'priority': 70" in shown


def test_an_edit_over_rest_is_refused_when_slurm_is_about_to_change_it(cluster: Cluster) -> None:
    path = "/queues/night"
    cluster.text("sacctmgr", "-i", "modify", "qos", "night", "set", "maxjobspu=9")
    read = tag(cluster, path)

    with ThreadPoolExecutor() as pool:
        slurm, rest = held(
            cluster,
            lambda: command(cluster, path, 3),
            lambda: patched(cluster, pool, path, If_Match=read),
        )

    assert (slurm.code, rest.status) == (0, 412)


@pytest.mark.parametrize("path", EDITS)
def test_a_change_by_a_command_of_slurm_changes_the_tag(cluster: Cluster, path: str) -> None:
    read = tag(cluster, path)

    assert command(cluster, path, 5).result(WAIT_S).code == 0

    refused = cluster.server.local().call("PATCH", path, EDITS[path][0], If_Match=read)
    assert (refused.status, refused.json["code"]) == (412, "changed")


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("scontrol update nodename=n1 state=drain reason=disk", "/nodes/n1"),
        ("scontrol update partitionname=night state=down", "/queues/night"),
    ],
)
def test_a_change_by_scontrol_changes_the_tag(cluster: Cluster, command: str, path: str) -> None:
    read = tag(cluster, path)

    cluster.text(*command.split())

    assert tag(cluster, path) != read
