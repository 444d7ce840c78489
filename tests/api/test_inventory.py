"""The inventory: topology, GPUs by what they are, GPUs that are kept for a job."""

from collections.abc import Iterator

import pytest

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running


@pytest.fixture
def gpu_box(server: Running) -> Iterator[PretendedAgent]:
    agent = PretendedAgent(server.socket_path, gpus=4)
    yield agent
    agent.close()


def test_the_topology_names_every_node_with_its_gpus(caller: Caller, gpu_box: PretendedAgent):
    (node,) = caller.get("/topology").json["nodes"]

    assert node["node"] == "box"
    assert [gpu["uuid"] for gpu in node["devices"]] == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]


def test_gpus_are_chosen_by_availability_type_and_number(caller: Caller, gpu_box: PretendedAgent):
    caller.submit(resources={"gpus": 1})
    gpu_box.launched(1)

    free = caller.get("/gpus?available=true&type=a100").json["items"]
    used = caller.get("/gpus?available=false").json["items"]
    two = caller.get("/gpus?limit=2").json["items"]
    none = caller.get("/gpus?type=H100").json["items"]

    assert (len(free), len(used), len(two), none) == (3, 1, 2, [])
    assert used[0]["jobs"] == [1]
    assert caller.get("/gpus?limit=0").status == 400


def test_gpus_that_are_kept_for_a_job_are_given_to_it_alone(
    caller: Caller, gpu_box: PretendedAgent
):
    mine = caller.submit(resources={"gpus": 2}, hold=True)

    made = caller.post("/reservations", {"job_id": mine, "gpu_ids": ["GPU-1", "box:2"]})
    other = caller.submit(resources={"gpus": 3})
    kept = caller.get("/gpus?available=false").json["items"]
    caller.post("/jobs:release", {"ids": [mine]})
    gpu_box.launched(mine)

    assert made.status == 201
    assert (made.json["job_id"], made.json["gpu_ids"]) == (mine, ["GPU-1", "GPU-2"])
    assert made.json["items"][0]["job_id"] == mine
    assert [(gpu["uuid"], gpu["state"], gpu["reserved_for"]) for gpu in kept] == [
        ("GPU-1", "reserved", mine),
        ("GPU-2", "reserved", mine),
    ]
    assert caller.job(mine)["allocations"][0]["gpus"] == [1, 2]
    assert caller.job(other)["state"] == "queued"


def test_a_reservation_is_removed_by_the_id_of_its_job(caller: Caller, gpu_box: PretendedAgent):
    mine = caller.submit(resources={"gpus": 1}, hold=True)
    caller.post("/reservations", {"job_id": mine, "gpu_ids": ["GPU-3"]})

    gone = caller.delete(f"/reservations/{mine}")
    again = caller.delete(f"/reservations/{mine}")

    assert (gone.status, again.status) == (204, 404)
    assert caller.get("/reservations").json["items"] == []
    assert len(caller.get("/gpus?available=true").json["items"]) == 4


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"job_id": 1}, 400, "gpu_ids: is required"),
        ({"gpu_ids": ["GPU-0"]}, 400, "job_id: is required"),
        ({"job_id": 1, "gpu_ids": ["GPU-9"]}, 400, "GPU-9 is no GPU of this site"),
        ({"job_id": 1, "gpu_ids": ["GPU-0"], "user": "ann"}, 400, "user: not together with job_id"),
        ({"job_id": 77, "gpu_ids": ["GPU-0"]}, 404, "there is no job 77"),
        ({"job_id": 1, "gpu_ids": ["GPU-0"]}, 400, "needs 1 x 2 GPUs"),
    ],
)
def test_a_reservation_that_cannot_be_is_refused_by_name(
    caller: Caller, gpu_box: PretendedAgent, body: dict[str, object], status: int, words: str
):
    caller.submit(resources={"gpus": 2}, hold=True)

    answer = caller.post("/reservations", body)

    assert answer.status == status, answer.body
    assert words in answer.json["detail"]


def test_only_operators_keep_gpus_for_jobs(server: Running, gpu_box: PretendedAgent):
    ann = server.as_user("ann")
    mine = ann.submit(resources={"gpus": 1}, hold=True)

    assert ann.post("/reservations", {"job_id": mine, "gpu_ids": ["GPU-0"]}).status == 403
