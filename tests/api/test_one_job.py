"""One job or array: how it is found, what it shows, why it waits."""

from typing import Any

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running

FIELDS = {
    *("id", "uid", "name", "user", "project", "queue", "state", "reason", "priority", "resources"),
    *("tasks", "submitted_at", "eligible_at", "started_at", "ended_at", "exit_code", "cause"),
    *("nodes", "allocations", "attempts", "array_id", "array_index", "depends_on", "time_limit_s"),
    *("command", "workdir", "labels"),
}
RESOURCES = {"cpus", "memory_mb", "gpus", "gpu_type", "gpu_memory_mb", "shared", "disk_mb"}


def test_a_job_has_every_field_of_the_contract(caller: Caller) -> None:
    caller.submit(["sleep", "1"], time_limit_s=90.5, labels={"a": "b"}, workdir="/tmp")

    job = caller.job(1)

    assert set(job) >= FIELDS
    assert set(job["resources"]) >= RESOURCES
    assert job["command"] == ["sleep", "1"]
    assert job["time_limit_s"] == 91
    assert job["submitted_at"].endswith("Z")
    assert job["exit_code"] is job["started_at"] is job["array_id"] is None


#: A column of a usual table of jobs -> where the same is in ours.
COLUMNS = {
    "id": "uid",
    "user_id": "user",
    "job_name": "name",
    "state": "state",
    "priority": "priority",
    "gpu_count": "resources.gpus",
    "gpu_type": "resources.gpu_type",
    "cpu_cores": "resources.cpus",
    "memory_gb": "resources.memory_mb",
    "command": "command",
    "working_dir": "workdir",
    "created_at": "submitted_at",
    "scheduled_at": "attempts.0.placed_at",
    "started_at": "started_at",
    "completed_at": "ended_at",
}


def test_every_column_of_a_usual_table_of_jobs_is_a_field(caller: Caller, make_agent) -> None:
    agent: PretendedAgent = make_agent(gpus=2)
    wishes = {"cpus": 2, "memory_mb": 4096, "gpus": 1, "gpu_type": "A100"}
    caller.submit(["train"], name="n", workdir="/tmp", priority=60, resources=wishes)
    uid = agent.launched(1)
    agent.report_start(uid)
    agent.report_end(uid)
    job = caller.until(1, "completed")

    def field(path: str) -> object:
        found: Any = job
        for step in path.split("."):
            found = found[int(step) if step.isdigit() else step]
        return found

    row = {column: field(path) for column, path in COLUMNS.items()}
    assert all(value not in (None, "") for value in row.values()), row
    assert (row["job_name"], row["command"], row["working_dir"]) == ("n", ["train"], "/tmp")
    assert (row["state"], row["priority"]) == ("completed", 60)
    assert (row["gpu_count"], row["gpu_type"], row["cpu_cores"]) == (1, "A100", 2)
    assert row["memory_gb"] == 4096
    assert row["created_at"] <= row["scheduled_at"] <= row["started_at"] <= row["completed_at"]


def test_which_room_each_try_had_is_on_record_after_the_end(caller: Caller, make_agent) -> None:
    agent: PretendedAgent = make_agent(gpus=2)
    caller.submit(resources={"cpus": 2, "gpus": 1}, retries=1)
    for ending in (".1", ".2"):
        agent.report_end(agent.launched(1, ending), 1)
    caller.until(1, "failed")

    events = caller.get("/jobs/1/events").json["items"]

    placed = [e["detail"]["allocation"] for e in events if e["kind"] == "attempt-placed"]
    assert [(held["node"], held["cpu_milli"], len(held["devices"])) for held in placed] == [
        ("box", 2000, 1)
    ] * 2


def test_a_change_of_the_type_of_gpu_keeps_the_number(caller: Caller) -> None:
    job = caller.submit(resources={"gpus": 3})

    changed = caller.patch(f"/jobs/{job}", {"resources": {"gpu_type": "A100"}})

    assert (changed.status, changed.json["resources"]["gpu_type"]) == (200, "A100")
    assert changed.json["resources"]["gpus"] == 3


def test_a_running_job_names_its_node_and_what_it_holds(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit(resources={"cpus": 1.5, "memory_mb": 100})
    agent.report_start(agent.launched(1))

    job = caller.until(1, "running")

    assert job["nodes"] == ["box"]
    assert job["allocations"][0]["cpus"] == 1.5
    assert job["allocations"][0]["memory_mb"] == 100
    assert job["attempts"][0]["number"] == 1
    assert job["attempts"][0]["pid"] == 1234
    assert job["started_at"]


def test_an_ended_job_is_found_by_id_and_uid(caller: Caller, agent: PretendedAgent) -> None:
    uid = caller.post("/jobs", {"command": "true"}).json["uid"]
    agent.report_end(agent.launched(1))

    job = caller.until(1, "completed")

    assert job["exit_code"] == 0
    assert caller.job(uid) == job
    assert caller.get("/jobs/1/attempts").json["items"][0]["exit_code"] == 0


def test_an_element_is_found_by_index_and_uid_before_anything_touched_it(caller: Caller) -> None:
    uid = caller.post("/jobs", {"command": "true", "array": "10-20:5"}).json["uid"]

    element = caller.job("1_15")

    assert (element["id"], element["array_index"]) == (3, 15)
    assert caller.job(f"{uid}.15")["id"] == 3
    assert caller.get("/jobs/1_11").status == 404


def test_an_ended_array_is_found_by_id_and_uid_and_stands_for_its_elements(
    caller: Caller, agent: PretendedAgent
) -> None:
    uid = caller.post("/jobs", {"command": "true", "array": "0-1"}).json["uid"]
    agent.report_end(agent.launched(2), 1)
    agent.report_end(agent.launched(3))

    array = caller.until(1, "failed")

    assert array["states"] == {"completed": 1, "failed": 1}
    assert caller.job(uid) == array
    assert caller.job("1_1")["state"] == "completed"
    assert [job["id"] for job in caller.get("/jobs?ids=1").json["items"]] == [2, 3]


def test_an_array_is_one_item_with_counts(caller: Caller, agent: PretendedAgent) -> None:
    caller.submit(array="0-9%2")
    agent.report_end(agent.launched(2))
    caller.until(2, "completed")

    array = caller.job(1)

    assert array["count"] == 10
    assert array["states"]["completed"] == 1
    assert sum(array["states"].values()) == 10
    assert array["state"] == "queued"


def test_a_waiting_job_says_why(caller: Caller, agent: PretendedAgent) -> None:
    caller.submit(resources={"cpus": 4})
    agent.launched(1)
    caller.submit(resources={"cpus": 2})

    why = caller.get("/jobs/2/why").json

    assert why["state"] == "queued"
    assert why["reason"] == caller.job(2)["reason"] == "not enough free cpus"
    assert why["lines"]


def test_an_ended_job_says_how(caller: Caller, agent: PretendedAgent) -> None:
    caller.submit()
    agent.report_end(agent.launched(1), code=7)
    caller.until(1, "failed")

    why = caller.get("/jobs/1/why").json

    assert why["state"] == "failed"
    assert "exit code 7" in why["reason"]


def test_the_trail_of_a_job_names_who_did_what(server: Running, agent: PretendedAgent) -> None:
    ada = server.as_user("ada")
    ada.submit()
    agent.report_end(agent.launched(1))
    ada.until(1, "completed")

    events = ada.get("/jobs/1/events").json["items"]

    assert [event["kind"] for event in events] == [
        "job-submitted",
        "attempt-placed",
        "attempt-ended",
        "job-settled",
    ]
    assert events[0]["actor"] == "ada"
    assert events[2]["actor"] == "agent"


def test_the_request_of_a_job_can_be_submitted_again(caller: Caller) -> None:
    body = {
        "name": "n",
        "script": "#!/bin/sh\ntrue\n",
        "env": {"A": "1"},
        "resources": {"cpus": 2, "memory_mb": 5},
        "array": "0-9%3",
        "labels": {"a": "b"},
        "depends_on": [],
        "retries": 2,
    }
    caller.post("/jobs", body)

    made = caller.get("/jobs/1/request").json

    again = caller.post("/jobs", made)
    assert again.status == 201
    assert made["script"] == body["script"]
    assert made["env"] == {"A": "1"}
    assert made["array"] == "0-9%3"
    assert caller.get(f"/jobs/{again.json['id']}/request").json == made


def test_the_request_of_an_element_has_its_values_in_place(caller: Caller) -> None:
    caller.submit(["f", "{x}"], parameters={"names": ["x"], "rows": [["1"], ["2"]]})

    made = caller.get("/jobs/1_1/request").json

    assert made["command"] == ["f", "2"]
    assert "parameters" not in made


def test_the_environment_of_a_job_is_read_by_its_owner_and_admins_alone(server: Running) -> None:
    ann, boss = server.as_user("ann"), server.as_user("boss", "admin")
    job = ann.submit(env={"A": "1"}, variables={"MY_SECRET": "x"})

    seen = {who: c.get(f"/jobs/{job}/request").status for who, c in (("ann", ann), ("boss", boss))}
    refused = server.as_user("olga", "operator").get(f"/jobs/{job}/request")

    assert seen == {"ann": 200, "boss": 200}
    assert refused.status == 403
    assert "its environment is theirs and admins'" in refused.json["detail"]
