"""Metrics that others add: what collectors are told, what becomes of their answers."""

import asyncio
import threading

import msgspec
import pytest

from rota.api.collectors import Collector, Sample, SiteFigures, collected, load_collectors
from rota.core.facts.errors import Rejected
from tests.api.running import Caller, Running

FIGURES = SiteFigures(0.0, {"running": 2}, {"up": 1}, {"queue": {}}, {"cpus": 4.0}, {"cpus": 2.0})


class Power:
    """As a site would write it."""

    def collect(self, figures):
        yield "site_watts", 40.0 * figures.held["cpus"]
        yield Sample("site_inlet_celsius", 21, {"room": 'a"b'})


def load(figures):
    return [("site_load", figures.held["cpus"] / figures.total["cpus"])]


def read(*collectors: Collector, budget_s: float = 5.0) -> list[str]:
    return asyncio.run(collected(collectors, FIGURES, budget_s)).splitlines()


def test_a_class_and_a_function_are_collectors_by_their_names():
    found = load_collectors([f"{__name__}:Power", f"{__name__}:load"])

    assert read(*found) == [
        "site_watts 80",
        'site_inlet_celsius{room="a\\"b"} 21',
        f'rota_collector_failed{{collector="{__name__}:Power"}} 0',
        "site_load 0.5",
        f'rota_collector_failed{{collector="{__name__}:load"}} 0',
    ]


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (lambda _: 1 / 0, "# bad: ZeroDivisionError: division by zero"),
        (lambda _: [("no name", 1)], "# bad: ValueError: 'no name' is no name of a metric"),
        (lambda _: [("site_x", "1")], "# bad: ValueError: site_x: '1' is no number"),
        (lambda _: [("site_x", 1, {"a-b": "c"})], "# bad: ValueError: site_x: 'a-b' is no name"),
        (lambda _: 5, "# bad: TypeError"),
    ],
)
def test_one_that_fails_is_left_out_and_the_others_are_not(answer, line):
    said = read(Collector("bad", answer), Collector("good", lambda _: [("site_y", 2)]))

    assert said[0].startswith(line)
    assert said[1:] == [
        'rota_collector_failed{collector="bad"} 1',
        "site_y 2",
        'rota_collector_failed{collector="good"} 0',
    ]


def test_one_that_is_late_is_not_waited_for_and_not_asked_again_before_it_has_answered():
    goes_on = threading.Event()

    def slow(_):
        goes_on.wait(30)
        return [("site_slow", 1)]

    async def story() -> list[str]:
        one = Collector("slow", slow)
        first = await collected((one,), FIGURES, 0.05)
        second = await collected((one,), FIGURES, 0.05)
        goes_on.set()
        third = second
        while "has not answered" in third:
            third = await collected((one,), FIGURES, 5.0)
        return [first, second, third]

    first, second, third = asyncio.run(story())

    assert first.startswith("# slow: took longer than 0.05 s")
    assert second.startswith("# slow: RuntimeError: has not answered the last time yet")
    assert third.startswith("site_slow 1")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("power", "expected package.module:Name"),
        ("no_such_module:Power", "it cannot be loaded: ModuleNotFoundError"),
        (f"{__name__}:FIGURES", "has no method collect"),
    ],
)
def test_what_cannot_be_had_is_refused_at_start(name, words):
    with pytest.raises(Rejected, match=words):
        load_collectors([name])


def test_metrics_hold_what_collectors_say_of_the_live_state(
    caller: Caller, server: Running, monkeypatch: pytest.MonkeyPatch
):
    def jobs(figures):
        return [("site_queued", figures.jobs["queued"])]

    caller.submit()
    settings = msgspec.structs.replace(
        server.context.settings, collectors=(Collector("jobs", jobs),)
    )
    # The server outlives this test.
    monkeypatch.setattr(server.context, "settings", settings)

    text = caller.get("/metrics").body.decode()

    assert "\nsite_queued 1\n" in text
    assert "rota_jobs{" in text
