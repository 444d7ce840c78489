"""How a job did, what it left, and trying it again."""

from typing import Any

import pytest

from rota.api.jobs.measures import measure
from rota.core.facts.faults import fault_of
from rota.core.facts.job import Outcome
from rota.core.facts.states import Cause, JobState
from rota.rpc.messages import Seen, Sighting
from rota.testing.scene import Scene
from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running


def end(scene: Scene, name: str, **figures: Any) -> None:
    uid = scene.job(name).live_attempts[0].uid
    del scene.alive[uid]
    scene.report(Seen(uid, Sighting.ENDED, ended_s=scene.now_s, **figures), node="box")


def test_a_job_is_measured_against_what_it_held() -> None:
    scene = Scene(cpus=4)
    scene.submit("first", cpus=4)
    scene.submit("job", cpus=2, mem=1024)
    scene.pass_time(30)
    scene.finish("first")
    scene.pass_time(100)
    end(scene, "job", exit_code=0, cpu_s=150.0, peak_memory_mib=256)

    figures = measure(scene.job("job"), scene.now_s)

    assert (figures.wait_s, figures.run_s, figures.tries) == (30.0, 100.0, 1)
    assert (figures.cpu_held_s, figures.cpu_efficiency) == (200.0, 0.75)
    assert (figures.peak_memory_mb, figures.memory_efficiency) == (256, 0.25)
    assert (figures.fault, figures.faults) == (None, {})


def test_of_a_job_that_was_over_at_once_nothing_is_said_of_what_it_used() -> None:
    scene = Scene(cpus=4)
    scene.submit("job")
    scene.pass_time(0.002)
    end(scene, "job", exit_code=0, cpu_s=0.03)

    assert measure(scene.job("job"), scene.now_s).cpu_efficiency is None


def test_what_it_takes_to_prepare_a_try_is_counted_apart_from_its_run() -> None:
    scene = Scene(cpus=4, starts=False)
    scene.submit("job")
    scene.pass_time(12)
    scene.start("job")
    scene.pass_time(5)

    figures = measure(scene.job("job"), scene.now_s)

    assert (figures.setup_s, figures.run_s) == (12.0, 5.0)


def test_a_running_job_has_run_so_long_and_its_use_is_not_known_yet() -> None:
    scene = Scene(cpus=4)
    scene.submit("job", cpus=2)
    scene.pass_time(60)

    figures = measure(scene.job("job"), scene.now_s)

    assert (figures.run_s, figures.cpu_held_s) == (60.0, 120.0)
    assert figures.cpu_efficiency is figures.memory_efficiency is None


def test_every_try_that_failed_is_put_down_to_something() -> None:
    scene = Scene(cpus=4)
    scene.submit("job", retries=2, backoff_s=0)
    scene.finish("job", code=3)
    end(scene, "job", cause=Cause.OUT_OF_MEMORY, signal=9)
    end(scene, "job", cause=Cause.NODE_LOST)

    figures = measure(scene.job("job"), scene.now_s)

    assert figures.faults == {"node": 1, "program": 1, "request": 1}
    assert (figures.fault, figures.tries, figures.retries_used) == ("node", 3, 2)


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_is_somebodys_doing_and_success_is_nobodys(cause: Cause) -> None:
    assert fault_of(Outcome(JobState.FAILED, cause, exit_code=1)) is not None
    assert fault_of(Outcome(JobState.COMPLETED, Cause.EXIT, exit_code=0)) is None


def test_the_figures_of_a_job_are_served_and_those_of_an_array_are_not(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit()
    agent.report_end(agent.launched(1), code=2)
    caller.until(1, "failed")
    array = caller.submit(array="0-1", hold=True)

    figures = caller.get("/jobs/1/metrics").json

    assert (figures["state"], figures["fault"], figures["faults"]) == (
        "failed",
        "program",
        {"program": 1},
    )
    assert caller.get(f"/jobs/{array}_1/metrics").json["tries"] == 0
    assert caller.get(f"/jobs/{array}/metrics").json["field"] == "id"
    assert caller.get("/jobs/99/metrics").status == 404


def test_what_a_job_left_is_listed_with_the_way_to_it(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit(error="/data/%j.err", variables={"ROTA_RESULT_DIR": "/tmp/left"})
    uid = agent.launched(1)
    agent.write(uid, b"hello\n")
    agent.report_start(uid)
    caller.until(1, "running")
    caller.post("/jobs/1/checkpoint", {"step": 7, "path": "step-7", "size": 1024})
    agent.report_end(uid)
    caller.until(1, "completed")

    left = {item["kind"]: item for item in caller.get("/jobs/1/artifacts").json["items"]}

    assert set(left) == {"stdout", "stderr", "result", "checkpoint"}
    assert (left["stdout"]["node"], left["stdout"]["path"]) == ("box", None)
    assert caller.get(left["stdout"]["url"]).body == b"hello\n"
    assert left["stderr"]["path"] == "/data/1.err"
    assert left["result"]["url"] == "/api/v1/jobs/1/result?task=0"
    assert (left["checkpoint"]["name"], left["checkpoint"]["size"]) == ("step 7", 1024)


def test_what_a_job_left_is_its_owners(server: Running) -> None:
    job = server.as_user("ada").submit()

    assert server.as_user("ada").get(f"/jobs/{job}/artifacts").json["items"] == []
    assert server.as_user("bob").get(f"/jobs/{job}/artifacts").status == 403


def test_what_a_job_says_of_itself_is_its_owners_and_that_of_one_job(server: Running) -> None:
    ada = server.as_user("ada")
    job, array = ada.submit(), ada.submit(array="0-2")

    nothing = ada.get(f"/jobs/{job}/progress").json

    assert (nothing["attempt"], nothing["at"], nothing["figures"]) == (0, [], {})
    assert server.as_user("bob").get(f"/jobs/{job}/progress").status == 403
    assert ada.get(f"/jobs/{array}/progress").status == 400
    assert ada.get(f"/jobs/{job}/progress?points=1001").status == 400


def test_an_ended_job_that_is_retried_is_a_new_job_with_the_same_work(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit(["train", "--lr", "1"], name="fit", save_signal="USR2", save_every_s=60)
    agent.report_end(agent.launched(1), code=1)
    caller.until(1, "failed")

    again = caller.patch("/jobs/1", {"action": "retry"})

    assert (again.status, again.json["id"]) == (200, 2)
    assert agent.launched(2)
    assert (again.json["command"], again.json["name"]) == (["train", "--lr", "1"], "fit")
    assert (again.json["save_signal"], again.json["save_every_s"]) == ("USR2", 60)
    assert caller.job(1)["state"] == "failed"


def test_the_failed_elements_of_an_array_are_tried_again_once_as_one_array(
    caller: Caller, agent: PretendedAgent
) -> None:
    rows = [["a"], ["b"], ["c"], ["d"]]
    sweep = caller.submit(["train", "{X}"], parameters={"names": ["X"], "rows": rows})
    plain = caller.submit("true", array="3-9:2%1")
    ids = [sweep + 1 + n for n in range(4)] + [plain + 1 + n for n in range(4)]
    for number in ids:
        agent.report_end(
            agent.launched(number), code=int(number in (ids[1], ids[3], ids[4], ids[7]))
        )
        caller.until(number, "failed", "completed")
    asks = {"action": "retry-failed"}

    first = caller.call("PATCH", f"/jobs/{sweep}", asks, **{"Idempotency-Key": "again"})
    same = caller.call("PATCH", f"/jobs/{sweep}", asks, **{"Idempotency-Key": "again"})
    other = caller.patch(f"/jobs/{plain}", asks).json

    assert (first.status, same.status, same.json) == (200, 200, first.json)
    assert other["id"] == first.json["id"] + 3
    assert [caller.job(first.json["id"] + n)["parameters"] for n in (1, 2)] == [
        {"X": "b"},
        {"X": "d"},
    ]
    assert caller.get(f"/jobs/{other['id']}/request").json["array"] == "3,9%1"
    assert caller.patch(f"/jobs/{ids[0]}", asks).status == 409
    assert caller.patch(f"/jobs/{sweep}", {**asks, "priority": 60}).status == 409
    assert caller.patch(f"/jobs/{first.json['id']}", asks).status == 409


def test_a_running_job_that_is_retried_goes_back_into_the_queue(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit()
    uid = agent.launched(1)
    agent.report_start(uid)
    caller.until(1, "running")

    caller.patch("/jobs/1", {"action": "retry"})

    assert agent.stopping(uid).stop is Cause.REQUEUED


def test_only_its_owner_tries_an_ended_job_again_and_nothing_else_is_changed_of_it(
    server: Running, agent: PretendedAgent
) -> None:
    ada = server.as_user("ada")
    ada.submit()
    agent.report_end(agent.launched(1), code=1)
    ada.until(1, "failed")

    assert server.local().patch("/jobs/1", {"action": "retry"}).status == 403
    assert ada.patch("/jobs/1", {"action": "retry", "priority": 60}).status == 409
    assert ada.patch("/jobs/1", {"action": "cancel"}).status == 409
