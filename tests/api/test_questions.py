"""Questions that take trials: on a large site aside, in turns, and with the same answers."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rota.api import questions
from rota.api.questions import WAITING_MAX, Questions
from rota.client.http import ANSWER_TIMEOUT_S
from rota.core.facts.errors import Busy
from rota.core.facts.tenant import Access, Actor
from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running
from tests.api.test_pledged import by
from tests.journeys.box import until

ANN, BOB = Actor("ann", Access.USER), Actor("bob", Access.USER)
#: More kinds of jobs than are looked at in the loop.
KINDS = questions.SMALL + 50


def wait_in_line(caller: Caller, agent: PretendedAgent) -> list[int]:
    """Jobs of many kinds behind one that leaves too little of the node."""
    caller.submit(resources={"cpus": 3}, time_limit_s=3600)
    agent.report_start(agent.launched(1))
    caller.until(1, "running")
    jobs = [
        {"command": "true", "resources": {"cpus": 2}, "time_limit_s": 60 + n} for n in range(KINDS)
    ]
    made = caller.post("/jobs:batch", {"jobs": jobs})
    assert made.status == 201, made.body
    return list(made.json["ids"])


def told(caller: Caller, job: int) -> list[Any]:
    """Of a waiting job and of one that is not submitted, without the moments that go on."""
    plan = {"command": "true", "resources": {"cpus": 3}, "time_limit_s": 90}
    views = [
        caller.get(f"/jobs/{job}/why").json,
        caller.post("/plan", plan).json,
        caller.post("/plan", {**by(48), "time_limit_s": 30}).json["promise"] | {"by_at": ""},
    ]
    said = [(view.get("reason"), view.get("help"), view.get("answer")) for view in views]
    (queue,) = caller.get("/queues:stats").json["items"]
    return [*said, (queue["waiting"], queue["reasons"], queue["next_job"])]


def test_the_same_is_said_aside_and_in_the_loop(
    caller: Caller, agent: PretendedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = wait_in_line(caller, agent)[7]

    aside = told(caller, job)
    monkeypatch.setattr(questions, "SMALL", 10_000)
    in_loop = told(caller, job)

    assert aside == in_loop
    assert aside[0][1]
    assert aside[2][2] == "yes"


def test_why_is_answered_without_advice_where_no_trial_can_be_made(
    caller: Caller, agent: PretendedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = wait_in_line(caller, agent)[0]
    monkeypatch.setattr(questions, "WITHIN_S", 0.0)

    view = caller.get(f"/jobs/{job}/why").json
    plan = caller.post("/plan", {"command": "true", "resources": {"cpus": 3}})

    assert view["state"] == "queued"
    assert view["help"] == []
    assert "what would help was not tried" in view["lines"][-1]
    assert plan.status == 429
    assert float(plan.headers["Retry-After"]) > 0
    assert caller.get("/queues:stats").status == 429


def test_a_promise_on_a_large_site_is_kept_like_on_a_small_one(
    caller: Caller, agent: PretendedAgent
) -> None:
    wait_in_line(caller, agent)

    said = caller.post("/jobs", {**by(72), "time_limit_s": 30}).json
    refused = caller.post("/jobs", by(0.75))

    assert said["promise"]["answer"] == "yes"
    (kept,) = caller.get("/reservations").json["items"]
    assert kept["job_id"] == said["id"]
    assert (refused.status, refused.json["field"]) == (409, "deadline_at")


@contextmanager
def others_asking(server: Running) -> Iterator[Questions]:
    """Two questions of others that take long: nobody else's turn comes."""
    asked = server.context.questions

    async def hold(actor: Actor, begun: threading.Event, over: asyncio.Event) -> None:
        async with asked.turn(actor):
            begun.set()
            await over.wait()

    over, holding = asyncio.Event(), []
    for actor in (ANN, BOB):
        begun = threading.Event()
        coming = hold(actor, begun, over)
        holding.append(asyncio.run_coroutine_threadsafe(coming, server.loop))
        assert begun.wait(60)
    try:
        yield asked
    finally:
        server.loop.call_soon_threadsafe(over.set)
        for one in holding:
            one.result(60)


def plain(caller: Caller, method: str, path: str, body: Any = None) -> None:
    """Ask, and do not wait for the answer."""
    payload = None if body is None else json.dumps(body).encode()
    caller.connection.request(method, f"/api/v1{path}", payload)


def test_questions_of_callers_that_hung_up_are_dropped(
    server: Running, caller: Caller, agent: PretendedAgent
) -> None:
    """And a job that was to be promised something is not made: nobody heard of a promise."""
    job, *rest = wait_in_line(caller, agent)
    asking = {
        "why": ("GET", f"/jobs/{job}/why", None),
        "plan": ("POST", "/plan", {"command": "true", "resources": {"cpus": 3}}),
        "a promise": ("POST", "/jobs", {**by(72), "time_limit_s": 30}),
    }

    with others_asking(server) as asked:
        for method, path, body in asking.values():
            leaver = server.local()
            plain(leaver, method, path, body)
            until(lambda: asked.waiting == 3, "the question to stand in line")
            leaver.connection.close()
            until(lambda: asked.waiting == 2, "the question to be dropped")

    assert caller.submit() == rest[-1] + 1


def test_one_whose_turn_does_not_come_is_put_off_before_its_caller_gives_up(
    server: Running, caller: Caller, agent: PretendedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert questions.WITHIN_S < ANSWER_TIMEOUT_S
    job = wait_in_line(caller, agent)[0]
    monkeypatch.setattr(questions, "WITHIN_S", 0.1)

    with others_asking(server):
        view = caller.get(f"/jobs/{job}/why").json
        plan = caller.post("/plan", {"command": "true", "resources": {"cpus": 3}})

    assert "what would help was not tried" in view["lines"][-1]
    assert plan.status == 429
    assert "not answered just now: it takes longer than 0.1 s" in plan.json["detail"]


def test_users_take_turns_and_nobody_waits_for_the_many_questions_of_another(
    server: Running,
) -> None:
    """In the order in which they are answered."""
    log: list[str] = []

    async def ask() -> None:
        asked = Questions(server.host)
        many = [asked.ask(ANN, lambda: log.append("ann")) for _ in range(20)]
        await asyncio.gather(*many, asked.ask(BOB, lambda: log.append("bob")))

    asyncio.run_coroutine_threadsafe(ask(), server.loop).result(60)

    assert log.index("bob") <= 2
    assert len(log) == 21


def test_more_questions_at_once_than_anybody_needs_are_put_off(server: Running) -> None:
    admin = Actor("root", Access.ADMIN)

    async def ask(actor: Actor) -> list[Any]:
        asked = Questions(server.host)
        many = [asked.ask(actor, lambda: "told") for _ in range(WAITING_MAX + 5)]
        return await asyncio.gather(*many, return_exceptions=True)

    def answers(actor: Actor) -> list[Any]:
        return asyncio.run_coroutine_threadsafe(ask(actor), server.loop).result(60)

    refused = [one for one in answers(ANN) if isinstance(one, Busy)]

    assert len(refused) == 5
    assert "100 of ann wait for an answer already" in str(refused[0])
    assert set(answers(admin)) == {"told"}
