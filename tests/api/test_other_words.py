"""What clients of other schedulers send and ask for, in their own words."""

import pytest

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller


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
