"""Pools and gangs on a real Kubernetes: Rota meters what it lets in, Kubernetes chooses."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.engines.kubernetes.cluster import IMAGE, NAMESPACE
from tests.engines.kubernetes.conftest import KubeSite
from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.engines.kubernetes.cluster import Kube

#: The first member waits for the others at the meeting place, and tells what each one said.
MEET = """
import os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
who = " ".join(os.environ[name] for name in ("ROTA_RANK", "NODE_RANK", "LOCAL_RANK"))
if rank == 0:
    with socket.create_server(place) as server:
        said = sorted(server.accept()[0].recv(100).decode() for _ in range(size - 1))
    print("; ".join([who, *said]), flush=True)
else:
    for _ in range(200):
        try:
            socket.create_connection(place).sendall(who.encode())
            break
        except OSError:
            time.sleep(0.1)
"""


@pytest.fixture
def theirs(kube: Kube, tmp_path: Path) -> Iterator[KubeSite]:
    folder = tmp_path / "engine"
    folder.mkdir()
    more = {"placement": "theirs", "give_back_s": 8.0, "inside_max": 1}
    made = KubeSite(Box(tmp_path / "box"), folder, kube, **more)
    made.box.up("--no-agent")
    made.begin()
    yield made
    made.box.down("--stop-jobs")
    made.stop()


def only(site: KubeSite) -> dict[str, Any]:
    (pool,) = site.nodes().values()
    return pool


def stranger(kube: Kube, cpus: int) -> None:
    container = {
        "name": "c",
        "image": IMAGE,
        "command": ["/bin/sleep", "600"],
        "resources": {"requests": {"cpu": str(cpus)}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger", "namespace": NAMESPACE},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    kube.ctl("apply", "-f", "-", stdin=json.dumps(pod))


def test_a_pod_in_a_pool_runs_where_kubernetes_chose_and_others_use_counts(
    theirs: KubeSite, kube: Kube
):
    pool = only(theirs)
    assert (pool["machines"], pool["total"]["cpus"], pool["total"]["gpus"]) == (3, 24, 12)

    job = theirs.box.ran(["/bin/true"], resources={"gpus": 1})
    stranger(kube, 5)
    try:
        until(lambda: only(theirs)["total"]["cpus"] == 19, "the use of a stranger")
    finally:
        kube.ctl("-n", NAMESPACE, "delete", "pod", "stranger", "--now")

    assert (job["state"], job["nodes"]) == ("completed", [pool["name"]])
    assert job["attempts"][0]["engine_node"] in ("fake-1", "fake-2", "fake-3")
    until(lambda: only(theirs)["total"]["cpus"] == 24, "what the stranger had")


def test_nodes_of_another_type_are_a_pool_of_their_own_to_which_its_pods_are_kept(
    theirs: KubeSite, kube: Kube
):
    kube.ctl("label", "node", "fake-2", "node.kubernetes.io/instance-type=big")
    try:
        until(lambda: len(theirs.nodes()) == 2, "a second pool")
        (big,) = [name for name in theirs.nodes() if name.startswith("big")]
        jobs = [theirs.box.ran(["/bin/true"], node_list=[big]) for _ in range(3)]
    finally:
        kube.ctl("label", "node", "fake-2", "node.kubernetes.io/instance-type-")

    assert {job["attempts"][0]["engine_node"] for job in jobs} == {"fake-2"}
    until(lambda: "does not list it" in theirs.nodes()[big]["note"], "the pool to be gone")


def test_the_members_of_a_gang_meet_at_their_first_one(theirs: KubeSite):
    job = theirs.box.ran([sys.executable, "-c", MEET], tasks=3)

    assert job["state"] == "completed"
    assert theirs.box.output(job["id"]) == "0 0 0; 1 1 0; 2 2 0\n"
    until(lambda: not theirs.pods(), "the pods to be gone")
    until(lambda: not theirs.services(), "the names to be gone")


def test_a_gang_of_which_some_cannot_start_comes_back_as_a_whole(theirs: KubeSite, kube: Kube):
    kube.quota(pods="2")
    try:
        job = theirs.box.job(["/bin/sleep", "600"], tasks=3)
        until(lambda: "closed to such tasks" in theirs.box.why(job), "it to come back")
        until(lambda: not theirs.pods(), "its pods to be gone")
        shown = theirs.box.api("GET", f"/jobs/{job}")[1]
    finally:
        kube.no_quota()

    assert shown["state"] == "queued"
    assert "start_failed" in {attempt["cause_code"] for attempt in shown["attempts"]}
