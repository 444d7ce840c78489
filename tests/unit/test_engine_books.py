"""The journal of an engine's host, and an engine's list held against it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.backends.api import EngineJob, EnginePhase
from rota.backends.journal import EngineEntry, EngineJournal, Stance
from rota.backends.news import ended
from rota.backends.reconcile import Absences, look
from rota.core.facts.states import Cause

NODES = {"n1": "n1.lab"}
NOW_S = 1_790_000_000.0


@pytest.fixture
def journal(tmp_path: Path):
    made = EngineJournal(tmp_path / "journal.db")
    yield made
    made.close()


def job(
    phase: EnginePhase = EnginePhase.RUNNING,
    uid: str = "a",
    number: str = "1",
    restarts: int = 0,
    began_s: float = 0.0,
) -> EngineJob:
    return EngineJob(
        uid=uid, id=number, phase=phase, node="n1", restarts=restarts, started_s=began_s
    )


def entry(
    state: Stance = Stance.SUBMITTED, uid: str = "a", end: EngineJob | None = None
) -> EngineEntry:
    return EngineEntry(uid=uid, node="n1.lab", state=state, id="1", end=end)


def looked(listing: list[EngineJob], *entries: EngineEntry):
    known = {each.uid: each for each in entries}
    return look(known, listing, set(), Absences(10.0), 5.0, NODES, NOW_S)


def test_what_is_adopted_waits_from_now_on_as_the_calendar_counts():
    found = looked([job(EnginePhase.WAITING)])

    (adopted,) = found.changed
    assert (adopted.state, adopted.at_s) == (Stance.SUBMITTED, NOW_S)


def test_an_end_that_was_forgotten_is_no_news_for_as_long_as_the_engine_lists_it(
    journal: EngineJournal,
):
    ended = job(EnginePhase.ENDED)
    journal.put([entry(Stance.ENDED, end=ended)])
    journal.forget(["a"], 0.0)

    others = [job(EnginePhase.ENDED, "b"), job(EnginePhase.RUNNING, "a")]
    news, left = journal.without_past([ended, *others])

    assert (news, left) == (others, [ended])


def test_an_end_that_is_not_forgotten_yet_is_news(journal: EngineJournal):
    journal.put([entry()])

    assert journal.without_past([job(EnginePhase.ENDED)]) == ([job(EnginePhase.ENDED)], [])


@pytest.mark.parametrize("phase", [EnginePhase.WAITING, EnginePhase.RUNNING])
def test_what_the_engine_starts_over_is_over_and_is_stopped(phase: EnginePhase):
    again = job(phase, restarts=1)

    found = looked([again], entry())

    (changed,) = found.changed
    assert found.strays == [again]
    assert (changed.state, changed.end.cause) == (Stance.ENDED, Cause.PREEMPTED)
    assert found.seen == {}


def test_what_was_started_over_and_has_ended_ended_as_it_says():
    ended = job(EnginePhase.ENDED, restarts=1)

    found = looked([ended], entry())

    assert found.strays == []
    assert found.changed[0].end == ended


def test_what_is_over_and_lives_in_the_engine_is_stopped():
    found = looked([job()], entry(Stance.MISSING))

    assert found.strays == [job()]
    assert found.changed == []


def test_of_two_jobs_with_one_key_the_younger_is_stopped():
    found = looked([job(number="2"), job(number="1")], entry())

    assert [stray.id for stray in found.strays] == ["2"]
    assert found.seen["a"].id == "1"


@pytest.mark.parametrize("phase", [EnginePhase.RUNNING, EnginePhase.WAITING])
def test_a_job_that_never_began_does_not_end_the_attempt_of_its_living_twin(phase: EnginePhase):
    never, lives = job(EnginePhase.ENDED, number="1"), job(phase, number="2")

    found = looked([never, lives], entry())

    assert found.seen == {"a": lives}
    assert found.strays == []


def test_of_two_ends_the_one_that_had_begun_counts():
    never, ran = job(EnginePhase.ENDED, number="1"), job(EnginePhase.ENDED, number="2", began_s=5.0)

    found = looked([never, ran], entry())

    assert found.changed[0].end == ran


def test_a_job_that_waits_beside_the_end_of_its_twin_is_stopped():
    ran, waits = (
        job(EnginePhase.ENDED, number="2", began_s=5.0),
        job(EnginePhase.WAITING, number="1"),
    )

    found = looked([ran, waits], entry())

    assert found.changed[0].end == ran
    assert found.strays == [waits]


def given_back(began_s: float, cause: Cause | None = Cause.CANCELLED) -> EngineEntry:
    end = replace(job(EnginePhase.ENDED, began_s=began_s), cause=cause)
    return replace(entry(Stance.ENDED, end=end), given_back="too many wait inside hpc: Priority")


def test_a_job_that_is_taken_back_before_it_began_was_not_started():
    assert ended(given_back(0.0)).cause is Cause.START_FAILED


def test_a_job_that_began_just_as_it_was_taken_back_gives_way_and_is_not_cancelled():
    told = ended(given_back(5.0))

    assert told.cause is Cause.PREEMPTED
    assert told.error == "it began while it was taken back: too many wait inside hpc: Priority"


def test_a_job_that_ran_although_it_was_to_be_taken_back_ended_as_it_says():
    assert ended(given_back(5.0, Cause.OUT_OF_MEMORY)).cause is Cause.OUT_OF_MEMORY
