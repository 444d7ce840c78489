"""Suspended jobs, figures about jobs, and the choice of devices, over the API."""

import pytest

from rota.api.site.stats import gpu_hours
from rota.store.stats import Cohort
from rota.testing.scene import BOB, Scene
from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running


def run(caller: Caller, agent: PretendedAgent, **fields: object) -> tuple[int, str]:
    job = caller.submit(**fields)
    uid = agent.launched(job)
    agent.report_start(uid)
    caller.until(job, "running")
    return job, uid


def test_a_job_is_suspended_and_resumed(caller: Caller, agent: PretendedAgent) -> None:
    job, uid = run(caller, agent)

    stopped = caller.patch(f"/jobs/{job}", {"action": "suspend"}).json
    stood_still = agent.suspended(uid)
    resumed = caller.post("/jobs:resume", {"ids": [job]}).json

    assert (stopped["state"], stopped["reason"][:12]) == ("running", "suspended by")
    assert stopped["suspended_at"] is not None
    assert stood_still
    assert agent.suspended(uid, False)
    assert resumed == {"changed": [job], "refs": [str(job)], "refused": []}
    shown = caller.job(job)
    assert (shown["reason"], shown["suspended_at"]) == ("", None)


def test_a_waiting_job_or_one_of_somebody_else_is_not_suspended(
    caller: Caller, server: Running, agent: PretendedAgent
) -> None:
    running, _ = run(caller, agent)
    waiting = caller.submit(hold=True)

    conflict = caller.patch(f"/jobs/{waiting}", {"action": "suspend"})
    foreign = server.as_user("eve").patch(f"/jobs/{running}", {"action": "suspend"})

    assert (conflict.status, foreign.status) == (409, 403)
    assert "only a running job can be suspended" in conflict.json["detail"]


def test_stats_add_up_the_jobs_of_a_period_per_user(
    caller: Caller, server: Running, agent: PretendedAgent
) -> None:
    ada, bob = server.as_user("ada"), server.as_user("bob")
    for code in (0, 0, 3):
        job, uid = run(ada, agent, name="short")
        agent.report_end(uid, code)
        ada.until(job, "completed", "failed")
    run(ada, agent, name="long")
    bob.submit(array="0-2", hold=True)

    answer = caller.get("/stats?period_s=3600").json

    ada_row, bob_row = answer["items"]
    assert (ada_row["user"], ada_row["jobs"]) == ("ada", 4)
    assert ada_row["states"] == {"running": 1, "completed": 2, "failed": 1}
    assert ada_row["success_rate"] == pytest.approx(2 / 3, abs=1e-4)
    assert ada_row["mean_wait_s"] >= 0
    assert ada_row["mean_run_s"] >= 0
    assert (bob_row["user"], bob_row["states"]) == ("bob", {"held": 3})
    assert (bob_row["success_rate"], bob_row["mean_run_s"]) == (None, None)
    assert (answer["total"]["user"], answer["total"]["jobs"]) == ("", 7)
    assert answer["longest"][0].keys() == {
        *("id", "ref", "name", "user", "state", "started_at", "run_s")
    }
    assert len(answer["longest"]) == 4
    only = caller.get("/stats?user=bob&longest=0").json
    assert ([row["user"] for row in only["items"]], only["longest"]) == (["bob"], [])
    before = caller.get("/stats?since=1h&until=1m").json
    assert (before["total"]["jobs"], before["longest"]) == (0, [])
    assert caller.get("/stats?since=1h&project=vision").json["items"] == []
    assert caller.get("/stats?since=1h").json["total"]["jobs"] == 7


def test_gpu_hours_are_those_of_all_tries_and_of_what_still_runs() -> None:
    scene = Scene(cpus=8, gpus=4)
    scene.submit("twice", gpus=2, retries=1, backoff_s=0.0)
    scene.pass_time(3600)
    scene.finish("twice", 1)
    scene.pass_time(1800)
    scene.submit("other", gpus=1, project="vision")
    scene.submit("bobs", gpus=1, actor=BOB)
    scene.pass_time(1800)

    hours = gpu_hours(scene.cluster, Cohort(0.0), scene.now_s)

    assert hours == {"alice": pytest.approx(4.5), "bob": pytest.approx(0.5)}
    assert [*gpu_hours(scene.cluster, Cohort(0.0, user="bob"), scene.now_s)] == ["bob"]


@pytest.mark.parametrize(
    "query",
    [
        "period_s=0",
        "period_s=x",
        "longest=101",
        "user=" + "x" * 201,
        "since=soon",
        "since=1h&until=2h",
    ],
)
def test_stats_of_nonsense_are_refused(caller: Caller, query: str) -> None:
    assert caller.get(f"/stats?{query}").status == 400


def test_an_operator_chooses_the_devices_of_a_node(caller: Caller, make_agent) -> None:
    agent = make_agent(gpus=3)

    answer = caller.patch("/nodes/box", {"devices": [1]})
    job = caller.submit(resources={"gpus": 1})
    agent.launched(job)
    gpus = caller.get("/gpus").json["items"]
    opened = caller.patch("/nodes/box", {"devices": "all"}).json

    assert [gpu["closed"] for gpu in answer.json["devices"]] == [True, False, True]
    assert [gpu["state"] for gpu in gpus] == ["closed", "used", "closed"]
    assert [gpu["available"] for gpu in gpus] == [False, False, False]
    assert caller.job(job)["allocations"][0]["gpus"] == [1]
    assert [gpu["closed"] for gpu in opened["devices"]] == [False, False, False]


@pytest.mark.parametrize(
    "body",
    [
        {"devices": [7]},
        {"devices": []},
        {"devices": "some"},
        {"devices": [-1]},
        {"ignore": [4242]},
        {"unignore": [4242]},
        {"ignore": [0]},
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(caller: Caller, make_agent, body) -> None:
    make_agent(gpus=2)

    answer = caller.patch("/nodes/box", body)

    assert answer.status == 400
    assert answer.json["field"].startswith(next(iter(body)))


def test_users_may_not_choose_devices(server: Running, make_agent) -> None:
    make_agent(gpus=2)

    assert server.as_user("ada").patch("/nodes/box", {"devices": [0]}).status == 403
