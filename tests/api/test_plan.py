"""Questions about scheduling: why, why then, what if, and what waits in which queue."""

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running


def test_why_has_the_reasons_as_data_and_advice_with_a_command(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit(resources={"cpus": 3})
    agent.launched(1)
    caller.submit(resources={"cpus": 4})

    why = caller.get("/jobs/2/why").json

    assert why["tree"]["decision"] == "queued"
    assert why["tree"]["reason"]["code"] == "room"
    assert (why["tree"]["reason"]["needed"], why["tree"]["reason"]["free"]) == (4, 1)
    assert "quota" in why["tree"]["satisfied"]
    assert why["help"] == ["ask for 1 CPU instead of 4: rota update 2 --cpus 1"]


def test_advice_that_needs_an_operator_is_marked_for_others(
    server: Running, caller: Caller, agent: PretendedAgent
) -> None:
    caller.put("/queues/night", {"state": "paused"})
    caller.patch("/queues/default", {"state": "paused"})
    ada = server.as_user("ada")
    ada.submit(queue="night")

    mine, operators = ada.get("/jobs/1/why").json, caller.get("/jobs/1/why").json

    command = "rota queue-admin set night --state active"
    assert mine["help"] == [f"activate queue night (an operator can): {command}"]
    assert operators["help"] == [f"activate queue night: {command}"]


def test_why_then_tells_what_was_true_at_that_moment(
    server: Running, caller: Caller, agent: PretendedAgent
) -> None:
    clock = server.host.clock
    before_s = clock.now_s()
    caller.submit(resources={"cpus": 4})
    first = agent.launched(1)
    caller.submit(resources={"cpus": 2})
    waited_s = clock.now_s()
    agent.report_end(first)
    caller.until(1, "completed")
    agent.launched(2)

    then = caller.get(f"/jobs/2/why?at={waited_s:.6f}").json
    before = caller.get(f"/jobs/2/why?at={before_s - 5:.3f}").json
    now = caller.get("/jobs/2/why").json

    assert (then["state"], then["reason"]) == ("queued", "not enough free cpus")
    assert then["tree"]["reason"]["free"] == 0
    assert before["reason"] == "it had not been submitted then"
    assert now["state"] == "scheduled"


def test_why_then_does_not_tell_others_what_a_cause_names(
    server: Running, agent: PretendedAgent
) -> None:
    ada, bob, clock = server.as_user("ada"), server.as_user("bob"), server.host.clock
    ada.submit(retries=1, backoff_s=600, retry_on=["start_failed"])
    agent.report_failed_start(agent.launched(1))
    ada.until(1, "queued", "failed")
    waits_s = clock.now_s()
    ada.post("/jobs/1/cancel")
    ada.until(1, "failed", "cancelled")
    over_s = clock.now_s()

    told = [bob.get(f"/jobs/1/why?at={at_s:.6f}") for at_s in (waits_s, over_s)]

    assert [answer.status for answer in told] == [200, 200]
    assert not [answer.json for answer in told if "/x" in str(answer.json)]


def test_a_moment_to_come_and_nonsense_are_refused(caller: Caller) -> None:
    caller.submit()

    assert caller.get("/jobs/1/why?at=9999999999").status == 400
    assert caller.get("/jobs/1/why?at=someday").status == 400
    assert caller.get("/jobs/1/why?at=nan").status == 400


def test_a_plan_names_node_and_devices_or_what_would_help_and_submits_nothing(
    caller: Caller, make_agent
) -> None:
    make_agent(gpus=2)

    fits = caller.post("/plan", {"command": "true", "resources": {"gpus": 1}})
    caller.submit(resources={"gpus": 1})
    waits = caller.post("/plan", {"command": "true", "resources": {"gpus": 2}}).json

    assert fits.status == 200
    assert fits.json["starts"] is True
    assert fits.json["allocations"][0]["node"] == "box"
    assert fits.json["allocations"][0]["gpus"] == [0]
    assert fits.json["score"] == 150
    assert (waits["starts"], waits["decision"]) == (False, "queued")
    assert waits["help"] == ["ask for 1 GPU instead of 2: --gpus 1"]
    assert waits["start_at"] is not None
    assert caller.list()["items"][-1]["id"] == 1


def test_a_plan_refuses_what_a_submit_refuses(
    server: Running, caller: Caller, agent: PretendedAgent
) -> None:
    impossible = caller.post("/plan", {"command": "true", "resources": {"cpus": 99}})
    typo = caller.post("/plan", {"command": "true", "qeue": "x"})
    viewer = server.as_user("vera", "viewer").post("/plan", {"command": "true"})

    assert impossible.status == 400
    assert impossible.json["field"] == "resources.cpus"
    assert typo.status == 400
    assert viewer.status == 403


def test_queue_statistics_count_jobs_waits_and_reasons(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.put("/queues/night", {"state": "paused"})
    caller.submit(resources={"cpus": 3})
    agent.launched(1)
    caller.submit(resources={"cpus": 2})
    caller.submit(array="0-4", resources={"cpus": 4})
    caller.submit(hold=True)
    caller.submit(queue="night")

    default, night = caller.get("/queues:stats").json["items"]

    assert (default["name"], default["waiting"], default["running"]) == ("default", 7, 1)
    assert default["reasons"] == {"room": 6, "held": 1}
    assert (default["waiting_cpus"], default["running_cpus"]) == (2 + 5 * 4 + 1, 3)
    assert 0 <= default["mean_wait_s"] <= default["oldest_wait_s"] < 60
    assert (night["state"], night["reasons"]) == ("paused", {"queue": 1})


def test_queue_statistics_name_who_comes_next_by_the_rules(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.put("/queues/night", {"state": "paused"})
    caller.submit(resources={"cpus": 4})
    agent.launched(1)
    caller.submit(resources={"cpus": 2}, priority=50)
    urgent = caller.submit(array="3-5", resources={"cpus": 3}, priority=70)
    caller.submit(hold=True, priority=75)
    caller.submit(queue="night")

    default, night = caller.get("/queues:stats").json["items"]
    first = caller.job(default["next_job"])
    assert caller.patch("/policy", {"policy": "fifo"}).status == 200
    by_age, _ = caller.get("/queues:stats").json["items"]

    assert (first["array_id"], first["array_index"]) == (urgent, 3)
    assert by_age["next_job"] == 2
    assert night["next_job"] is None, "a queue that starts nothing has nobody next"
