"""What waits inside an engine, and what of it comes back."""

import pytest
from msgspec.structs import replace

from rota.backends.api import EngineJob, EnginePhase
from rota.backends.journal import EngineEntry, Stance
from rota.backends.metering import MOMENT_S, PoolMeter

ENTRY = EngineEntry(uid="a", node="n1.lab", state=Stance.SUBMITTED, id="1", at_s=100.0)
WAITS = EngineJob(uid="a", id="1", phase=EnginePhase.WAITING, reason="Resources")
PLACED = replace(WAITS, node="n1")


def given_back(meter, job, now_s, pools=()):
    """Who comes back, by a clock of the day that is as far as the other one."""
    meter.note([job], now_s)
    return [*meter.given_back({"a": job}, {"a": ENTRY}, pools, now_s)]


def test_what_waits_for_room_comes_back_after_its_time():
    meter = PoolMeter(2, 60.0, 900.0)

    assert given_back(meter, WAITS, 159.0) == []
    assert given_back(meter, WAITS, 161.0) == [("a", "it waited")]


def test_what_has_its_machine_has_longer_to_begin():
    """A machine that boots, or an image that is fetched: to give that back begins it anew."""
    meter = PoolMeter(2, 60.0, 900.0)

    assert given_back(meter, WAITS, 150.0) == []
    assert given_back(meter, PLACED, 200.0) == []
    assert given_back(meter, PLACED, 1099.0) == []
    assert given_back(meter, PLACED, 1101.0) == [("a", "it did not begin")]


@pytest.mark.parametrize(("give_back_s", "job"), [(0.0, WAITS), (60.0, PLACED)])
def test_without_a_bound_it_waits_for_ever(give_back_s, job):
    meter = PoolMeter(2, give_back_s, 0.0)

    assert given_back(meter, job, 101.0) == []
    assert given_back(meter, job, 1e9) == []


def test_one_that_lost_its_machine_again_waits_for_room():
    meter = PoolMeter(2, 60.0, 900.0)
    given_back(meter, PLACED, 150.0)

    assert given_back(meter, WAITS, 161.0) == [("a", "it waited")]


def test_what_has_its_machine_is_none_too_many_of_a_pool():
    meter = PoolMeter(0, 0.0, 900.0)
    given_back(meter, PLACED, 100.0)

    assert given_back(meter, PLACED, 101.0 + MOMENT_S, {"n1.lab"}) == []
    meter = PoolMeter(0, 0.0, 900.0)
    given_back(meter, WAITS, 100.0)
    assert given_back(meter, WAITS, 101.0 + MOMENT_S, {"n1.lab"}) == [("a", "too many wait")]


def test_what_the_engine_has_not_looked_at_is_none_too_many_of_a_pool():
    """Slurm looks late where ``batch_sched_delay`` says so: it starts them all then."""
    meter, unseen = PoolMeter(0, 0.0), replace(WAITS, reason="")
    given_back(meter, unseen, 100.0)

    assert given_back(meter, unseen, 101.0 + MOMENT_S, {"n1.lab"}) == []
    assert meter.is_news("a")


def test_what_an_operator_of_the_engine_holds_stays_there():
    """Given back it would be handed in again, and no longer held."""
    meter = PoolMeter(0, 60.0, 900.0)

    assert given_back(meter, replace(WAITS, held=True), 1e6, {"n1.lab"}) == []
