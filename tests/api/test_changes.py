"""Changing jobs: cancel, hold, release, requeue, update; and what is refused."""

import pytest

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running


def test_a_waiting_job_is_cancelled_at_once(caller: Caller) -> None:
    caller.submit()

    answer = caller.delete("/jobs/1")

    assert answer.status == 202
    assert answer.json == {"id": 1, "state": "cancelled"}


def test_a_running_job_is_cancelled_when_its_processes_have_ended(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit()
    uid = agent.launched(1)
    agent.report_start(uid)
    caller.until(1, "running")

    answer = caller.delete("/jobs/1")

    assert answer.json["state"] == "running"
    assert agent.stopping(uid).stop == "cancelled"
    agent.report_end(uid, code=143)
    assert caller.until(1, "cancelled")["cause"].startswith("cancelled: by ")


def test_cancelling_twice_is_a_conflict_and_an_unknown_job_is_not_found(caller: Caller) -> None:
    caller.submit()
    caller.delete("/jobs/1")

    assert caller.delete("/jobs/1").status == 409
    assert caller.delete("/jobs/77").status == 404


def test_many_are_changed_each_by_itself(caller: Caller) -> None:
    caller.submit()
    caller.submit(array="0-3")

    answer = caller.post("/jobs:cancel", {"ids": [1, "2_1", 99, "2_77"]})

    assert answer.status == 200
    assert answer.json["changed"] == [1, 4]
    assert [refusal["id"] for refusal in answer.json["refused"]] == ["2_77", 99]
    assert caller.job("2_1")["state"] == "cancelled"
    assert caller.job("2_2")["state"] == "queued"


def test_hold_and_release_by_user(server: Running) -> None:
    ada = server.as_user("ada")
    ada.submit()
    server.as_user("bob").submit()

    held = ada.post("/jobs:hold", {"user": "ada"}).json
    released = ada.post("/jobs:release", {"all": True}).json

    assert held["changed"] == released["changed"] == [1]
    assert ada.job(1)["state"] == "queued"


def test_all_means_what_the_caller_may_change(server: Running) -> None:
    ada, bob = server.as_user("ada"), server.as_user("bob")
    ada.submit()
    bob.submit()

    mine = ada.post("/jobs:cancel", {"all": True})

    assert mine.json["changed"] == [1]
    assert bob.job(2)["state"] == "queued"
    assert server.local().post("/jobs:cancel", {"all": True}).json["changed"] == [2]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "ids"),
        ({"ids": [1], "all": True}, "ids"),
        ({"ids": "1"}, "ids"),
        ({"id": [1]}, "id"),
        ({"ids": [1], "hold": True}, "hold"),
    ],
)
def test_an_unclear_selection_is_refused(caller: Caller, body: dict, field: str) -> None:
    answer = caller.post("/jobs:cancel", body)

    assert answer.status == 400
    assert answer.json["field"] == field


def test_a_running_job_is_requeued_and_held(caller: Caller, agent: PretendedAgent) -> None:
    caller.submit()
    uid = agent.launched(1)
    agent.report_start(uid)
    caller.until(1, "running")

    caller.post("/jobs:requeue", {"ids": [1], "hold": True})
    agent.stopping(uid)
    agent.report_end(uid, code=143)

    assert caller.until(1, "held")["attempts"][0]["cause_code"] == "requeued"


def test_a_waiting_job_is_changed_in_place(caller: Caller) -> None:
    caller.submit(["a"], hold=True, resources={"cpus": 2, "memory_mb": 10})
    caller.submit(hold=True)

    answer = caller.patch(
        "/jobs/1",
        {
            "name": "new",
            "priority": "high",
            "time_limit_s": 60,
            "command": "echo hi",
            "resources": {"cpus": 1},
            "labels": {"x": "y"},
            "depends_on": [{"kind": "after-ok", "job": 2}],
        },
    )

    job = answer.json
    assert answer.status == 200
    assert (job["name"], job["priority"], job["time_limit_s"]) == ("new", 75, 60)
    assert job["command"] == ["/bin/sh", "-c", "echo hi"]
    assert (job["resources"]["cpus"], job["resources"]["memory_mb"]) == (1, 10)
    assert job["depends_on"] == [{"kind": "after-ok", "job": 2, "element": False}]


def test_a_patch_can_hold_release_and_cancel(caller: Caller) -> None:
    caller.submit()

    states = [
        caller.patch("/jobs/1", body).json["state"]
        for body in ({"hold": True}, {"hold": False}, {"action": "hold"}, {"action": "cancel"})
    ]

    assert states == ["held", "queued", "held", "cancelled"]


def test_the_cap_of_an_array_and_of_a_group_can_be_changed(caller: Caller) -> None:
    caller.submit(array="0-9%2")
    job_id = caller.submit(group="g", max_concurrent=1)

    caller.patch("/jobs/1", {"max_concurrent": 5})
    caller.patch(f"/jobs/{job_id}", {"max_concurrent": 3})

    assert caller.list(arrays="collapse")["items"][0]["array_waiting"] == "0-9%5"
    assert caller.get("/groups/g").json["max_concurrent"] == 3
    assert caller.put("/groups/g", {"max_concurrent": 0}).json["max_concurrent"] == 0


def test_an_ended_job_cannot_be_changed(caller: Caller) -> None:
    caller.submit()
    caller.delete("/jobs/1")

    assert caller.patch("/jobs/1", {"priority": 10}).status == 409


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"priority": 500}, "priority"),
        ({"priorty": 5}, "priorty"),
        ({"resources": {"cpus": -1}}, "resources.cpus"),
        ({"resources": {"cpu": 1}}, "resources.cpu"),
        ({"workdir": "x"}, "workdir"),
        ({"command": []}, "command"),
        ({"queue": "nowhere"}, "queue"),
        ({"action": "explode"}, "action"),
        ({"hold": True, "action": "cancel"}, "action"),
        ({"max_concurrent": 1}, "max_concurrent"),
        ({"depends_on": [{"kind": "after-ok", "job": 1}]}, "depends_on"),
    ],
)
def test_a_bad_change_is_refused_and_names_the_field(
    caller: Caller, body: dict, field: str
) -> None:
    caller.submit(hold=True)

    answer = caller.patch("/jobs/1", body)

    assert answer.status == 400
    assert answer.json["field"] == field
    assert caller.job(1)["state"] == "held"


def test_another_type_of_gpu_says_nothing_about_how_many(caller: Caller) -> None:
    caller.submit(resources={"gpus": 3, "gpu_type": "A100"})
    caller.submit(resources={"cpus": 1})

    caller.patch("/jobs/1", {"resources": {"gpu_type": "H100"}})
    caller.patch("/jobs/2", {"resources": {"gpu_type": "H100"}})

    wanted = [caller.job(job)["resources"] for job in (1, 2)]
    assert [(r["gpus"], r["gpu_type"]) for r in wanted] == [(3, "H100"), (1, "H100")]


def test_a_patch_can_suspend_and_resume_a_running_job_and_change_how_often_it_comes_back(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit()
    uid = agent.launched(1)
    agent.report_start(uid)
    caller.until(1, "running")

    stopped = caller.patch("/jobs/1", {"action": "suspend", "preempt_retries": 3}).json
    stands = agent.suspended(uid)
    caller.patch("/jobs/1", {"action": "resume"})

    assert stopped["suspended_at"]
    assert stopped["preempt_retries"] == 3
    assert stands
    assert agent.suspended(uid, wanted=False)


#: Job 1 is held, 2 runs, 3 was cancelled, 4 is a held array of four.
CHANGES = [
    ("POST", "/jobs:cancel", {"ids": [1, 2, 3, "4_1", 4, 99]}),
    ("POST", "/jobs:hold", {"ids": [1, 2, 3, "4_1"]}),
    ("POST", "/jobs:release", {"ids": [1, 2, 3, "4_1"]}),
    ("POST", "/jobs:requeue", {"ids": [1, 2, 3, 4]}),
    ("POST", "/jobs:suspend", {"all": True}),
    ("PATCH", "/jobs/1", {"priority": 75, "time_limit_s": 60, "resources": {"cpus": 2}}),
    ("PATCH", "/jobs/1", {"queue": "nowhere"}),
    ("PATCH", "/jobs/1", {"action": "hold"}),
    ("PATCH", "/jobs/1", {"max_concurrent": 3}),
    ("PATCH", "/jobs/1", {"depends_on": [{"kind": "after-ok", "job": 99}]}),
    ("PATCH", "/jobs/2", {"resources": {"cpus": 2}}),
    ("PATCH", "/jobs/2", {"priority": 10}),
    ("PATCH", "/jobs/2", {"action": "release"}),
    ("PATCH", "/jobs/3", {"action": "hold"}),
    ("PATCH", "/jobs/4", {"resources": {"memory_mb": 64}, "name": "wide"}),
    ("PATCH", "/jobs/4_1", {"name": "second"}),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES, ids=str)
def test_a_preview_changes_nothing_and_answers_what_the_change_then_does(
    caller: Caller, agent: PretendedAgent, method: str, path: str, body: dict
) -> None:
    caller.submit(hold=True)
    caller.submit()
    agent.report_start(agent.launched(2))
    caller.until(2, "running")
    caller.submit(hold=True)
    caller.delete("/jobs/3")
    caller.submit(array="0-3", hold=True)
    jobs = caller.get("/jobs?limit=100").json["items"]
    events = caller.get("/jobs/4/events").json["items"]

    told = caller.call(method, f"{path}?preview=true", body)

    assert caller.get("/jobs?limit=100").json["items"] == jobs
    assert caller.get("/jobs/4/events").json["items"] == events
    done = caller.call(method, path, body)
    assert (told.status, comparable(told.json)) == (done.status, comparable(done.json))


def comparable(answer: dict) -> dict:
    """Without what only a change that is made brings with it."""
    passing = {"reason", "state", "held", "states"}
    return {name: value for name, value in answer.items() if name not in passing}
