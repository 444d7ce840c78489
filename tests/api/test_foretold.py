"""When jobs that wait will probably start: told at every door, learned from starts, and kept."""

import asyncio
from typing import Any

from rota.api.views.foretold import foretold_view
from rota.cli.jobs.plan import plan_lines
from rota.cli.jobs.show import why_lines
from rota.scheduling.answers.bands import Word
from rota.scheduling.answers.words import Said
from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running
from tests.journeys.box import until


def on_loop(server: Running, work: Any) -> None:
    asyncio.run_coroutine_threadsafe(work, server.loop).result(30)


def three_behind_one(caller: Caller, agent: PretendedAgent) -> str:
    """One job holds the node for an hour; three wait behind it."""
    caller.submit(resources={"cpus": 4}, time_limit_s=3600)
    first = agent.launched(1)
    agent.report_start(first)
    caller.until(1, "running")
    for _ in range(3):
        caller.submit(resources={"cpus": 4}, time_limit_s=1800)
    return first


def test_every_job_that_waits_has_an_expected_start_and_bands_around_it(
    caller: Caller, agent: PretendedAgent
) -> None:
    three_behind_one(caller, agent)

    starts = caller.get("/jobs/starts").json["items"]

    assert [one["id"] for one in starts] == [2, 3, 4]
    expected = [one["expected_at"] for one in starts]
    assert expected == sorted(set(expected))
    for one in starts:
        assert one["expected_at"] < one["nine_in_ten_at"]
        assert [band["share"] for band in one["bands"]] == [0.5, 0.8, 0.9]
        assert all(b["from_at"] <= one["expected_at"] <= b["to_at"] for b in one["bands"])


def test_bands_of_short_waits_are_told_to_the_millisecond():
    """Rounded to whole seconds, a band of a second would miss most of what it holds."""
    bands_s = ((1.3, 1.9), (0.8, 2.6), (0.0, 4.0))
    word = Word(1.5, 1.6, 3.2, bands_s, (1.0, 1.0, 1.0))

    view = foretold_view(Said(100.0, word), 100.5)

    assert view is not None
    assert (view.bands[0].from_at, view.bands[0].to_at) == (
        "1970-01-01T00:01:41.300Z",
        "1970-01-01T00:01:41.900Z",
    )
    assert view.bands[2].from_at == "1970-01-01T00:01:40.500Z"


def test_why_and_plan_say_it_in_words(caller: Caller, agent: PretendedAgent) -> None:
    three_behind_one(caller, agent)

    why = caller.get("/jobs/4/why").json
    asked = {"command": "true", "resources": {"cpus": 4}, "time_limit_s": 3600}
    plan = caller.post("/plan", asked).json

    assert plan["foretold"]["expected_at"] > why["foretold"]["expected_at"]
    for lines in (why_lines(why), plan_lines(plan)):
        (told,) = [line for line in lines if "probably start about" in line]
        assert "nine in ten before" in told


def test_nothing_is_foretold_of_a_job_that_waits_for_no_room(
    caller: Caller, agent: PretendedAgent
) -> None:
    three_behind_one(caller, agent)
    caller.submit(hold=True)
    caller.submit(constraints=["rack=nowhere"])

    assert caller.get("/jobs/6/why").json["foretold"] is None
    assert caller.get("/jobs/5/why").json["foretold"] is None
    assert caller.get("/jobs/1/why").json["foretold"] is None
    assert [one["id"] for one in caller.get("/jobs/starts").json["items"]] == [2, 3, 4]


def test_a_start_teaches_and_what_was_learned_outlives_a_restart(
    server: Running, caller: Caller, agent: PretendedAgent
) -> None:
    first = three_behind_one(caller, agent)
    caller.get("/jobs/starts")
    agent.report_end(first)
    agent.report_start(agent.launched(2))
    caller.until(2, "running")

    taught = server.context.foretelling.bands
    until(lambda: taught.told == 1, "the start to be learned from")
    on_loop(server, server.context.foretelling.save())
    server.restart()
    on_loop(server, server.context.foretelling.load())

    again = server.context.foretelling.bands
    assert again is not taught
    assert again.record == taught.record
