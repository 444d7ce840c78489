"""When jobs that wait will probably start: told at every door, learned from starts, and kept."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from rota.api.views.foretold import foretold_view
from rota.cli.jobs.plan import plan_lines
from rota.cli.jobs.show import why_lines
from rota.scheduling.answers.bands import Bands, Word
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
        assert (one["nine_in_ten_at"], one["starts"], one["runs"]) == (None, 0, 0)
        assert [band["share"] for band in one["bands"]] == [0.5, 0.8, 0.9]
        assert all(b["from_at"] <= one["expected_at"] <= b["to_at"] for b in one["bands"])


def test_bands_of_short_waits_are_told_to_the_millisecond():
    """Rounded to whole seconds, a band of a second would miss most of what it holds."""
    bands_s = ((1.3, 1.9), (0.8, 2.6), (0.0, 4.0))
    word = Word(1.5, 1.6, 3.2, bands_s, (1.0, 1.0, 1.0))

    view = foretold_view(Said(100.0, word), 100.5, Bands())

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
        assert told.endswith("(from time limits; 0 starts so far, too few to say how sure)")


def test_nine_in_ten_is_said_with_its_basis_once_ten_jobs_have_started(
    server: Running, caller: Caller, agent: PretendedAgent
) -> None:
    three_behind_one(caller, agent)
    bands = server.context.foretelling.bands
    word = bands.say(60.0)
    for _ in range(9):
        bands.learn(word, 60.0)
    nine = why_lines(caller.get("/jobs/4/why").json)
    bands.learn(word, 60.0)
    ten = caller.get("/jobs/4/why").json

    assert any("9 starts so far, too few to say how sure" in line for line in nine)
    assert ten["foretold"]["expected_at"] < ten["foretold"]["nine_in_ten_at"]
    (told,) = [line for line in why_lines(ten) if "nine in ten before" in line]
    assert told.endswith("(from time limits and 10 starts)")


@pytest.mark.parametrize(("ran", "runs"), [(9, 0), (10, 10)])
def test_fewer_than_ten_runs_of_jobs_of_other_names_say_nothing_of_a_job(
    server: Running, caller: Caller, agent: PretendedAgent, ran: int, runs: int
) -> None:
    three_behind_one(caller, agent)
    me = caller.job(1)["user"]
    for number in range(ran):
        server.host.forecast.predictor.learn(me, f"other{number}", 1, 600.0, 1.0)
    caller.submit(resources={"cpus": 4}, time_limit_s=1800)

    foretold = caller.get("/jobs/2/why").json["foretold"]
    wait_s = seconds(foretold["expected_at"]) - server.host.clock.now_s()

    assert foretold["runs"] == runs
    assert wait_s < 60 if runs else wait_s > 3500


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


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


def test_nothing_is_foretold_that_rests_on_a_drained_node(
    caller: Caller, agent: PretendedAgent
) -> None:
    three_behind_one(caller, agent)
    assert caller.post("/nodes/box:drain", {"note": "bad disk"}).status == 200

    plan = caller.post("/plan", {"command": "true", "resources": {"cpus": 1}}).json
    why = caller.get("/jobs/2/why").json

    assert (plan["start_at"], plan["foretold"]) == (None, None)
    assert (why["tree"]["expected"], why["foretold"]) == (None, None)
    assert plan["reason"] == why["reason"] == "node box is drained (bad disk)"
    assert caller.get("/jobs/starts").json["items"] == []


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
