"""Nodes, queues, groups, projects, counts and metrics."""

from collections.abc import Callable

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running


def test_a_node_shows_what_it_has_and_what_is_free(caller: Caller, agent: PretendedAgent) -> None:
    caller.submit(resources={"cpus": 3, "memory_mb": 1000})
    agent.launched(1)

    (node,) = caller.get("/nodes").json["items"]

    assert node["total"] == {
        **{"cpus": 4.0, "memory_mib": 8192, "disk_mib": 1000, "gpus": 0},
        **{"memory_mb": 8192, "disk_mb": 1000},
    }
    assert node["free"]["cpus"] == 1
    assert node["used"]["memory_mb"] == 1000
    assert node["jobs"] == [1]
    assert caller.get("/nodes/elsewhere").status == 404


def test_a_drained_node_takes_nothing_new(caller: Caller, agent: PretendedAgent) -> None:
    drained = caller.post("/nodes/box:drain", {"note": "new memory"})
    caller.submit()

    assert drained.json["drained"]
    assert drained.json["note"] == "new memory"
    assert "drained" in caller.job(1)["reason"]
    assert not caller.post("/nodes/box:resume").json["drained"]
    agent.launched(1)
    assert caller.post("/nodes/elsewhere:drain").status == 404


def test_a_connected_node_cannot_be_forgotten(caller: Caller, agent: PretendedAgent) -> None:
    assert caller.delete("/nodes/box").status == 409


def test_a_queue_is_made_counted_and_removed(caller: Caller) -> None:
    made = caller.put("/queues/night", {"priority": 10, "max_running": 2})
    caller.submit(queue="night")
    caller.submit(queue="night", array="0-4")

    queue = caller.get("/queues/night").json

    assert made.status == 200
    assert (queue["pending_jobs"], queue["running_jobs"], queue["total_jobs"]) == (6, 0, 6)
    assert caller.delete("/queues/night").status == 409
    assert caller.delete("/queues/default").status == 409
    caller.post("/jobs:cancel", {"all": True})
    assert caller.delete("/queues/night").status == 204
    assert caller.get("/queues/night").status == 404


def test_queues_of_a_project_are_listed_with_what_runs_and_waits_in_each(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.put("/queues/day", {"project": "vision", "priority": 60, "max_running": 1})
    caller.put("/queues/night", {"project": "vision", "priority": 10})
    caller.put("/queues/other", {"project": "speech"})
    for queue in ("day", "day", "night", "day"):
        caller.submit(queue=queue, project="vision")
    agent.launched(1)
    agent.launched(3)

    items = caller.get("/queues?project_id=vision").json["items"]

    assert [(item["name"], item["priority"]) for item in items] == [("day", 60), ("night", 10)]
    assert [item["id"] for item in items] == ["day", "night"]
    counters = ("running_jobs", "pending_jobs", "total_jobs")
    assert [[item[key] for key in counters] for item in items] == [[1, 2, 3], [1, 0, 1]]


def test_a_closed_queue_refuses_jobs(caller: Caller) -> None:
    caller.put("/queues/night", {"state": "closed"})

    answer = caller.post("/jobs", {"command": "true", "queue": "night"})

    assert answer.status == 409
    assert answer.json["field"] == "queue"


def test_groups_and_projects_are_listed(caller: Caller) -> None:
    caller.submit(group="g", max_concurrent=2)
    caller.put("/projects/research", {})
    caller.put("/projects/vision", {"parent": "research", "shares": 3})

    assert caller.get("/groups").json["items"][0]["max_concurrent"] == 2
    vision = caller.get("/projects").json["items"][1]
    assert (vision["name"], vision["parent"], vision["shares"]) == ("vision", "research", 3)
    assert caller.put("/groups/h", {"max_concurrent": 1}).status == 404
    assert caller.get("/reservations").json["items"] == []


def test_counts_are_by_state_and_by_band(caller: Caller) -> None:
    caller.submit(priority="high")
    caller.submit(priority="low", array="0-9")
    caller.submit(hold=True)

    found = caller.get("/queue").json

    assert found["bands"] == {"high": 1, "normal": 1, "low": 10}
    assert found["states"]["queued"] == 11
    assert found["states"]["held"] == 1
    info = caller.get("/jobs/scheduler/info").json
    assert (info["policy"], info["pending_jobs"], info["active_queues"]) == ("default", 12, 1)
    assert info["quota_provider"] == "local"


def test_a_trigger_runs_a_pass_and_counts_what_is_left(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit(resources={"cpus": 4})
    agent.launched(1)
    caller.submit(resources={"cpus": 4})

    with_body = caller.post("/jobs/scheduler/trigger", {"project_id": "p"})
    without = caller.post("/jobs/scheduler/trigger")

    assert with_body.json == without.json == {"scheduled_count": 0, "remaining_pending": 1}


def test_metrics_are_text_for_prometheus(caller: Caller, agent: PretendedAgent) -> None:
    caller.submit(hold=True)

    answer = caller.get("/metrics")

    text = answer.body.decode()
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'rota_jobs{state="held"} 1.0\n' in text
    assert 'rota_nodes{state="up"} 1.0\n' in text
    assert 'rota_node_cpus_free{node="box"} 4.0\n' in text
    assert "# TYPE rota_tick_seconds histogram\n" in text


def test_devices_show_their_holders(
    server: Running, caller: Caller, make_agent: Callable[..., PretendedAgent]
) -> None:
    make_agent(gpus=2)
    job_id = caller.submit(resources={"gpus": 1})
    caller.until(job_id, "scheduled")

    used, free = caller.get("/gpus").json["items"]

    assert (used["state"], used["jobs"], used["available"]) == ("used", [job_id], False)
    assert (free["state"], free["jobs"], free["available"]) == ("free", [], True)
    assert [g["index"] for g in caller.get("/gpus?available=true").json["items"]] == [1]
    assert caller.get("/gpus?type=h100").json["items"] == []
    topology = caller.get("/topology").json["nodes"][0]
    assert topology["node"] == "box"
    assert len(topology["devices"]) == 2


def test_the_use_of_a_project_is_counted_from_what_lives(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit(project="p", resources={"cpus": 2, "memory_mb": 1024})
    caller.submit(project="q")
    agent.launched(1)

    found = caller.get("/queues/quota/p").json

    assert (found["cpu"]["used"], found["memory_gb"]["used"], found["gpu"]["used"]) == (2, 1, 0)
    assert found["cpu"]["limit"] is None
    assert caller.post("/queues/quota/p/sync").json["cpu"] == found["cpu"]
    assert caller.get("/queues/quota/nowhere").status == 404
