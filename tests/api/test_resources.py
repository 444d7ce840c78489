"""Pools of nodes, room that is held without a program, nodes that take nothing new."""

import threading
from collections.abc import Callable

import pytest

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running

Agents = Callable[..., PretendedAgent]


def test_nodes_with_the_same_devices_or_one_label_are_a_pool(
    caller: Caller, make_agent: Agents
) -> None:
    make_agent(name="a1", gpus=2)
    make_agent(name="a2", gpus=2)
    make_agent(name="plain")
    make_agent(name="ours")
    caller.patch("/nodes/ours", {"labels": {"pool": "team"}})

    pools = {pool["name"]: pool for pool in caller.get("/pools").json["items"]}

    assert {name: pool["nodes"] for name, pool in pools.items()} == {
        "A100": ["a1", "a2"],
        "cpu": ["plain"],
        "team": ["ours"],
    }
    assert pools["A100"]["total"]["gpus"] == 4
    assert caller.get("/pools/cpu").json == pools["cpu"]
    assert caller.get("/pools/tpu").json["detail"] == "there is no pool tpu"


def test_what_is_free_in_a_pool_is_what_can_be_had_there_now(
    caller: Caller, make_agent: Agents
) -> None:
    busy = make_agent(name="a1", gpus=1)
    make_agent(name="a2", gpus=1)
    job = caller.submit(resources={"cpus": 1, "gpus": 1}, node_list=["a1"])
    busy.launched(job)
    caller.post("/nodes/a2:cordon", {"note": "new fan"})

    pool = caller.get("/pools/A100").json

    assert (pool["ready"], pool["jobs"]) == (1, [job])
    assert (pool["total"]["gpus"], pool["used"]["gpus"], pool["free"]["gpus"]) == (2, 1, 0)
    assert pool["free"]["cpus"] == 3


def test_a_cordoned_node_keeps_its_work_and_gets_no_more_until_it_is_resumed(
    caller: Caller, agent: PretendedAgent
) -> None:
    first = caller.submit()
    agent.report_start(agent.launched(first))
    caller.until(first, "running")

    node = caller.post("/nodes/box:cordon").json
    later = caller.submit()
    states = caller.job(first)["state"], caller.job(later)["state"]
    caller.post("/nodes/box:resume")

    assert (node["drained"], node["migrates"]) == (True, False)
    assert states == ("running", "queued")
    assert agent.launched(later)
    assert caller.post("/nodes/nowhere:cordon").status == 404


def test_a_cordon_takes_a_reason_and_nothing_else_and_is_for_operators(server: Running) -> None:
    refused = server.local().post("/nodes/box:cordon", {"migrate": True})

    assert (refused.status, refused.json["field"]) == (400, "migrate")
    assert server.as_user("ada").post("/nodes/box:cordon").status == 403


def test_room_is_held_without_a_program_until_it_is_released(
    caller: Caller, agent: PretendedAgent
) -> None:
    starting = threading.Thread(target=lambda: agent.report_start(agent.launched(1)))
    starting.start()
    made = caller.post("/allocations", {"resources": {"cpus": 3}, "wait_s": 10})
    starting.join()
    uid = agent.launched(1)

    held = made.json["allocations"]
    listed = caller.get("/allocations").json["items"]
    given_back = caller.delete("/allocations/1")
    agent.report_end(agent.stopping(uid).uid)
    caller.until(1, "cancelled", "completed")

    assert (made.status, made.json["id"], made.json["state"]) == (201, 1, "running")
    assert [(one["node"], one["cpus"]) for one in held] == [("box", 3.0)]
    assert listed == [made.json]
    assert given_back.status == 202
    assert caller.get("/allocations").json["items"] == []


def test_room_that_is_not_free_is_waited_for_like_any_other(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit(resources={"cpus": 4})
    agent.launched(1)

    made = caller.post("/allocations", {"resources": {"cpus": 1}, "wait_s": 0.1}).json

    assert (made["state"], made["allocations"]) == ("queued", [])
    assert made["reason"] == "not enough free cpus"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"command": "true"}, "command"),
        ({"wait_s": 61}, "wait_s"),
        ({"tasks": 0}, "tasks"),
        ({"resources": {"cpus": 99}}, "resources.cpus"),
        ({"queue": "nowhere"}, "queue"),
    ],
)
def test_a_bad_wish_for_room_names_the_field(
    caller: Caller, agent: PretendedAgent, body: dict, field: str
) -> None:
    refused = caller.post("/allocations", body)

    assert (refused.status, refused.json["field"]) in ((400, field), (404, field))


def test_nobody_releases_what_belongs_to_another(server: Running, agent: PretendedAgent) -> None:
    job = server.as_user("ada").post("/allocations", {}).json["id"]

    assert server.as_user("bob").delete(f"/allocations/{job}").status == 403
