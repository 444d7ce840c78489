"""Paths that clients of other schedulers know give the same answers as ours."""

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running


def test_the_jobs_of_a_user_are_submitted_listed_and_added_up_below_the_name(
    server: Running,
) -> None:
    ada, bob = server.as_user("ada"), server.as_user("bob")
    bob.submit()

    made = ada.post("/users/ada/jobs", {"command": "true", "priority": "low"})

    assert made.status == 201
    listed = bob.get("/users/ada/jobs?state=queued").json["items"]
    assert [(job["id"], job["user"], job["priority"]) for job in listed] == [
        (made.json["id"], "ada", 25)
    ]
    activity = bob.get("/users/ada/activity").json
    assert [(row["user"], row["states"]) for row in activity["items"]] == [("ada", {"queued": 1})]


def test_nobody_submits_below_the_name_of_another(server: Running, caller: Caller) -> None:
    answer = server.as_user("bob").post("/users/ada/jobs", {"command": "true"})

    assert (answer.status, answer.json["field"]) == (403, "name")
    assert "'ada' is not who asks" in answer.json["detail"]
    assert caller.get("/jobs").json["items"] == []


def test_a_post_cancels_as_a_delete_does(server: Running, caller: Caller) -> None:
    job = server.as_user("ada").submit()

    stranger = server.as_user("bob").post(f"/jobs/{job}/cancel")
    answer = server.as_user("ada").post(f"/jobs/{job}/cancel")

    assert stranger.status == 403
    assert (answer.status, answer.json) == (202, {"id": job, "state": "cancelled"})
    assert caller.job(job)["state"] == "cancelled"


def test_gpus_are_counted_as_they_are_and_a_running_job_takes_one_away(
    caller: Caller, make_agent
) -> None:
    before = caller.get("/gpu/availability").json
    agent: PretendedAgent = make_agent(gpus=3)

    caller.submit(resources={"gpus": 1})
    agent.launched(1)

    assert (before["total"], before["available"], before["items"]) == (0, 0, [])
    after = caller.get("/gpu/availability").json
    assert after["items"] == [{"type": "A100", "total": 3, "available": 2}]
    assert (after["total"], after["available"]) == (3, 2)


def test_the_status_of_the_queue_is_that_of_the_queue(caller: Caller) -> None:
    caller.submit(priority="high")

    status = caller.get("/queue/status").json

    assert status["bands"]["high"] == 1
    assert status == caller.get("/queue").json
