"""What the inventory says of our GPUs: others' are not used, and its silence stops nothing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from rota.controller.chores.elsewhere import Elsewhere
from rota.inventory.client import InventoryClient
from tests.api.pretended import PretendedAgent
from tests.api.running import WAIT_S, Caller, Running, running
from tests.inventory.service import Service


@pytest.fixture
def server() -> Iterator[Running]:
    with TemporaryDirectory(prefix="rota-") as name, running(Path(name)) as made:
        yield made


@pytest.fixture
def caller(server: Running) -> Caller:
    return server.local()


@pytest.fixture
def box(server: Running) -> Iterator[PretendedAgent]:
    agent = PretendedAgent(server.socket_path, gpus=3)
    yield agent
    agent.close()


@pytest.fixture
def watch(server: Running, service: Service) -> Elsewhere:
    client = InventoryClient(service.url, timeout_s=WAIT_S, tries=1)
    server.context.elsewhere = Elsewhere(server.host, client, service.url)
    return server.context.elsewhere


def look(server: Running, watch: Elsewhere) -> None:
    asyncio.run_coroutine_threadsafe(watch.look(), server.loop).result(WAIT_S)


def gpu(index: int, **more: object) -> dict[str, object]:
    return {"uuid": f"GPU-{index}", "node": "box", "index": index, "available": True, **more}


def states(caller: Caller) -> list[str]:
    return [one["state"] for one in caller.get("/gpus").json["items"]]


def test_gpus_that_others_have_or_that_are_gone_are_not_used(
    server: Running, caller: Caller, box: PretendedAgent, service: Service, watch: Elsewhere
):
    service.gpus = [gpu(0), gpu(1, available=False, jobs=[999])]

    look(server, watch)
    caller.submit(resources={"gpus": 1})
    second = caller.submit(resources={"gpus": 1})
    box.launched(1)

    assert states(caller) == ["used", "elsewhere", "elsewhere"]
    assert caller.job(second)["state"] == "queued"
    assert caller.get("/status").json["inventory"]["elsewhere"] == 2

    service.gpus = [gpu(0), gpu(1), gpu(2)]
    look(server, watch)
    box.launched(second)
    assert "elsewhere" not in states(caller)


def test_a_job_that_needs_all_gpus_waits_for_those_that_others_have(
    server: Running, caller: Caller, box: PretendedAgent, service: Service, watch: Elsewhere
):
    service.gpus = [gpu(0), gpu(1), gpu(2, available=False)]
    look(server, watch)

    job = caller.submit(resources={"gpus": 3})
    too_large = caller.post("/jobs", {"command": "true", "resources": {"gpus": 4}})

    assert caller.job(job)["state"] == "queued"
    assert "no node has more than 3 GPUs" in too_large.json["detail"]

    service.gpus = [gpu(0), gpu(1), gpu(2)]
    look(server, watch)
    box.launched(job)


def test_a_silent_inventory_leaves_its_last_answer_and_jobs_go_on(
    server: Running, caller: Caller, box: PretendedAgent, service: Service, watch: Elsewhere
):
    service.gpus = [gpu(0), gpu(1), gpu(2, available=False)]
    look(server, watch)
    service.faults = ["500"]

    look(server, watch)
    caller.submit(resources={"gpus": 2})
    box.launched(1)
    said = caller.get("/status").json["inventory"]

    assert (said["state"], said["elsewhere"]) == ("silent", 1)
    assert "answers 500" in said["problem"]
    assert said["answered_at"]
    assert states(caller) == ["used", "used", "elsewhere"]

    look(server, watch)
    assert caller.get("/status").json["inventory"]["state"] == "ok"


def test_the_inventory_hears_which_gpus_our_jobs_use_and_our_own_are_never_taken_for_others(
    server: Running, caller: Caller, box: PretendedAgent, service: Service, watch: Elsewhere
):
    caller.submit(resources={"gpus": 1})
    uid = box.launched(1)
    box.report_start(uid)
    caller.until(1, "running")
    service.gpus = [gpu(0, available=False, jobs=[1]), gpu(1), gpu(2)]
    look(server, watch)
    told = dict(service.reserved)

    box.report_end(uid)
    caller.until(1, "completed")
    look(server, watch)

    assert told == {1: ["GPU-0"]}
    assert service.reserved == {}
    assert states(caller) == ["free", "free", "free"]


def test_an_inventory_that_takes_no_reservations_is_still_listened_to(
    server: Running, caller: Caller, box: PretendedAgent, service: Service, watch: Elsewhere
):
    service.refuses_reservations = True
    service.gpus = [gpu(0), gpu(1, available=False), gpu(2)]
    caller.submit(resources={"gpus": 1})
    box.launched(1)

    look(server, watch)
    look(server, watch)

    said = caller.get("/status").json["inventory"]
    assert (said["state"], said["elsewhere"]) == ("ok", 1)
    assert "takes no reservations" in said["problem"]
    assert sum(asked.startswith("POST") for asked in service.asked) == 1


def test_a_node_that_the_inventory_does_not_know_is_left_alone(
    server: Running, caller: Caller, box: PretendedAgent, service: Service, watch: Elsewhere
):
    service.gpus = [{"uuid": "GPU-77", "node": "other", "index": 0, "available": False}]

    look(server, watch)

    assert states(caller) == ["free", "free", "free"]


def test_what_was_said_stands_when_the_agent_comes_back(
    server: Running, caller: Caller, service: Service, watch: Elsewhere
):
    agent = PretendedAgent(server.socket_path, gpus=3)
    service.gpus = [gpu(0), gpu(1), gpu(2, available=False)]
    look(server, watch)
    agent.close()

    again = PretendedAgent(server.socket_path, gpus=3)

    assert states(caller) == ["free", "free", "elsewhere"]
    again.close()
