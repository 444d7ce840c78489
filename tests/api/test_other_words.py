"""What clients of other schedulers send and ask for, in their own words."""

import pytest

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running


@pytest.mark.parametrize(
    ("executor", "asked"),
    [
        ({"kubernetes": {}}, (1, 2048, 0)),
        ({"slurm": {}}, (1, 2048, 0)),
        (
            {"kubernetes": {"requests": {"cpu": "2500m", "memory": "4Gi", "nvidia.com/gpu": 2}}},
            (2.5, 4096, 2),
        ),
        ({"kubernetes": {"requests": {"memory": "512Mi"}}}, (1, 512, 0)),
        ({"slurm": {"cpus_per_task": 4, "mem": "16G"}}, (4, 16384, 0)),
        ({"slurm": {"mem": "4000"}}, (1, 4000, 0)),
    ],
)
def test_what_a_job_asks_for_is_read_out_of_the_settings_of_its_executor(
    caller: Caller, executor: object, asked: tuple[float, int, float]
) -> None:
    job = caller.submit(executor=executor, hold=True)

    shown = caller.get(f"/jobs/{job}").json["resources"]

    assert (shown["cpus"], shown["memory_mb"], shown["gpus"]) == asked


def test_gpus_per_node_count_for_each_of_the_nodes(caller: Caller) -> None:
    words = {"slurm": {"cpus_per_task": 2, "gpus_per_node": 4, "nodes": 3}}

    shown = caller.get(f"/jobs/{caller.submit(executor=words, hold=True)}").json

    assert (shown["tasks"], shown["resources"]["gpus"]) == (3, 4)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"executor": {}}, "executor: expected one of kubernetes and slurm"),
        ({"executor": {"slurm": {"mem": "lots"}}}, "executor.slurm.mem: 'lots' is not valid"),
        (
            {"executor": {"kubernetes": {"requests": {"cpu": "x"}}}},
            "executor.kubernetes.requests.cpu: 'x' is not valid; expected a quantity",
        ),
        (
            {"executor": {"kubernetes": {"requests": {"pods": 3}}}},
            "executor.kubernetes.requests: 'pods' is not valid; expected one of cpu, memory",
        ),
        ({"executor": {"slurm": {}}, "resources": {"cpus": 2}}, "name them once"),
    ],
)
def test_words_of_an_executor_that_make_no_sense_are_refused_in_one_line(
    caller: Caller, fields: dict[str, object], words: str
) -> None:
    answer = caller.post("/jobs", {"command": "true", **fields})

    assert answer.status == 400
    assert words in answer.json["detail"]


def test_a_quota_that_is_switched_on_without_limits_has_the_usual_ones(caller: Caller) -> None:
    found = caller.patch("/queues/quota/p", {"enforce_quota": True}).json

    limits = [found[key]["limit"] for key in ("cpu", "memory_gb", "gpu", "jobs")]
    assert limits == [100, 500, 10, 50]
    assert (found["provider"], found["drift"], found["warning"]) == ("local", [], "")
    assert found["outer"] is None


def test_whether_a_project_may_use_more_is_answered_as_the_next_pass_would(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.patch("/queues/quota/lab", {"cpu_quota": 3, "job_types": {"training": 1}})
    caller.put("/projects/team", {"parent": "lab"})
    caller.submit(project="team", type="training", resources={"cpus": 2})
    agent.launched(1)

    def answer(**question: object) -> tuple[bool, str]:
        found = caller.post("/queues/quota/team/check", question).json
        return found["allowed"], found["reason"]

    waits = caller.submit(project="team", resources={"cpus": 2})

    assert answer(cpu=1, gpu=4) == (True, "")
    assert answer(cpu=2) == (False, "project lab holds 2 of at most 3 CPUs, 2 wanted")
    assert answer(cpu=2)[1] == caller.get(f"/jobs/{waits}").json["reason"]
    assert answer(job_type="training") == (False, "project lab for training runs 1 of at most 1")
    refused = caller.post("/queues/quota/team/check", {"cpus": 1})
    assert (refused.status, "cpus" in refused.json["detail"]) == (400, True)


def test_jobs_are_listed_by_numbered_pages_and_found_by_status_type_and_a_part_of_the_name(
    caller: Caller,
) -> None:
    for number in range(25):
        kind = "training" if number % 5 == 0 else "inference"
        caller.submit(name=f"Run-{number}", project="p", type=kind, hold=True)

    first = caller.get("/jobs?page=1&project_id=p").json["items"]
    second = caller.get("/jobs?page=2&project_id=p").json["items"]
    third = caller.get("/jobs?page=3").json["items"]
    found = caller.get("/jobs?search=run-2&status=held&type=training").json["items"]

    assert [len(first), len(second), third] == [20, 5, []]
    assert [job["name"] for job in second] == [f"Run-{n}" for n in range(20, 25)]
    assert [job["name"] for job in found] == ["Run-20"]
    assert caller.get("/jobs?page=1&page_size=101").status == 400


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ("QUEUED", ["waits"]),
        ("pending", ["waits", "held"]),
        ("Running", ["runs"]),
        ("succeeded", ["done"]),
        ("killed,RUNNING", ["runs", "gone"]),
    ],
)
def test_jobs_are_listed_by_the_words_that_other_tools_have_for_states(
    caller: Caller, agent: PretendedAgent, status: str, found: list[str]
) -> None:
    done = caller.submit(name="done")
    agent.report_start(uid := agent.launched(done))
    agent.report_end(uid)
    caller.until(done, "completed")
    runs = caller.submit(name="runs", resources={"cpus": 4})
    agent.report_start(agent.launched(runs))
    caller.until(runs, "running")
    caller.submit(name="waits", resources={"cpus": 4})
    caller.submit(name="held", hold=True)
    caller.delete(f"/jobs/{caller.submit(name='gone', hold=True)}")

    items = caller.get(f"/jobs?status={status}").json["items"]

    assert [job["name"] for job in items] == found


def test_limits_are_on_record_and_hold_after_a_restart(server: Running, caller: Caller) -> None:
    caller.patch("/queues/quota/p", {"cpu_quota": 1, "job_types": {"training": 2}})

    server.restart()

    found = server.local().get("/queues/quota/p").json
    assert (found["provider"], found["cpu"]["limit"]) == ("local", 1)
    assert found["job_types"]["training"]["limit"] == 2
    refused = server.local().post(
        "/jobs", {"command": "true", "project": "p", "resources": {"cpus": 2}}
    )
    assert "project p may hold at most 1 CPU" in refused.json["detail"]


def test_a_job_is_shown_and_counted_under_the_paths_that_others_know(
    caller: Caller, agent: PretendedAgent
) -> None:
    job = caller.submit()
    agent.launched(1)

    details = caller.get(f"/jobs/{job}/details").json
    fresh = caller.post(f"/jobs/{job}/refresh-status").json

    assert details["id"] == fresh["id"] == job
    assert details == caller.get(f"/jobs/{job}").json
    assert caller.get("/jobs/stats").json["items"] == caller.get("/stats").json["items"]
    assert caller.get("/jobs/9999/details").status == 404


def test_a_queue_is_made_by_post_once(caller: Caller) -> None:
    made = caller.post("/queues", {"name": "night", "max_running": 10})
    again = caller.post("/queues", {"name": "night"})

    assert (made.status, made.json["name"], made.json["max_running"]) == (201, "night", 10)
    assert (again.status, again.json["detail"]) == (409, "there is a queue night already")
