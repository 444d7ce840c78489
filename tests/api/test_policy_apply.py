"""POST /policy:apply: rules are set with a guard, and go back when jobs wait too long."""

import asyncio
from typing import Any

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running

PROJECT = "vision"


def on_loop(server: Running, work: Any) -> None:
    asyncio.run_coroutine_threadsafe(work, server.loop).result(30)


def lived(caller: Caller, agent: PretendedAgent) -> None:
    """A job of the project has run, so that there is a past."""
    first = caller.submit(project=PROJECT)
    agent.report_start(agent.launched(first))
    agent.report_end(agent.launched(first))
    caller.until(first, "completed")


def test_rules_are_set_with_what_was_foretold_as_a_bar(
    caller: Caller, agent: PretendedAgent
) -> None:
    lived(caller, agent)

    found = caller.post("/policy:apply", {"policy": "sjf", "guard_s": 3600})

    assert found.status == 200, found.body
    assert found.json["policy"]["name"] == found.json["replay"]["name"] == "sjf"
    shown = caller.get("/policy").json
    assert (shown["name"], shown["guard"]["ended"]) == ("sjf", "")
    assert [bar["project"] for bar in shown["guard"]["bars"]] == [PROJECT, ""]


def test_rules_go_back_when_a_project_waits_longer_than_foretold(
    server: Running, caller: Caller, agent: PretendedAgent
) -> None:
    lived(caller, agent)
    caller.post("/policy:apply", {"policy": "sjf"})
    hog = caller.submit(resources={"cpus": 4}, project="other")
    agent.report_start(agent.launched(hog))
    for _ in range(10):
        caller.submit(resources={"cpus": 4}, project=PROJECT)
    guard = server.context.guard

    on_loop(server, guard.look())
    assert caller.get("/policy").json["name"] == "sjf"
    on_loop(server, guard.judge(server.host.clock.now_s() + 3600))

    shown = caller.get("/policy").json
    assert shown["changed"] == {}
    assert shown["guard"]["ended"].startswith("undone: 10 jobs of project vision waited 1h")


def test_a_guard_survives_a_restart_and_ends_when_the_rules_change_again(
    server: Running, caller: Caller, agent: PretendedAgent
) -> None:
    lived(caller, agent)
    caller.post("/policy:apply", {"policy": "sjf"})
    guard = server.context.guard
    guard.guard = None

    on_loop(server, guard.load())
    caller.patch("/policy", {"policy": "fifo"})
    on_loop(server, guard.look())

    shown = caller.get("/policy").json
    assert (shown["name"], shown["guard"]["ended"]) == ("fifo", "the rules were changed again")


def test_rules_without_a_past_and_rules_that_change_nothing_are_refused(caller: Caller) -> None:
    nothing = caller.post("/policy:apply", {"policy": "default"})
    no_past = caller.post("/policy:apply", {"policy": "sjf"})

    assert (nothing.status, nothing.json["detail"]) == (409, "nothing would change")
    assert no_past.status == 409
    assert "nothing to replay" in no_past.json["detail"]
    assert caller.get("/policy").json["changed"] == {}


def test_only_admins_apply_rules(server: Running) -> None:
    assert server.as_user("olga", "operator").post("/policy:apply", {"policy": "sjf"}).status == 403
