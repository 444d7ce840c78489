"""A question that is worked out aside: by a copy of the process, of which nothing stays."""

import asyncio
import os
import pickle
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rota.controller.aside import Unanswered, aside
from rota.core.facts.errors import Conflict
from tests.journeys.box import until

LONG_S = 60.0


def asked(work: Callable[[], Any], within_s: float = LONG_S) -> Any:
    async def ask() -> Any:
        return await aside(work, within_s)

    return asyncio.run(ask())


def test_the_answer_is_of_this_moment_and_what_was_tried_leaves_no_trace() -> None:
    facts = {"jobs": 3}

    def trial() -> int:
        facts["jobs"] += 1
        return facts["jobs"]

    assert asked(trial) == 4
    assert facts == {"jobs": 3}


def test_an_answer_of_any_length_comes_whole() -> None:
    assert len(asked(lambda: b"x" * 5_000_000)) == 5_000_000


def test_it_has_nothing_open_but_the_way_back(tmp_path: Path) -> None:
    """What the parent locked is the parent's alone: it is free the moment that the parent dies."""
    with (tmp_path / "lock").open("w"):
        names = asked(lambda: len(os.listdir("/proc/self/fd")))

    # The pipe, and the folder that is being looked at.
    assert names == 2


def _broken() -> None:
    raise ValueError("no")


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def endless() -> None:
        note.write_text(str(os.getpid()))
        signal.pause()

    with pytest.raises(Unanswered, match=r"longer than 0\.5 s"):
        asked(endless, 0.5)

    # It may have ended before it came so far.
    if note.exists() and note.read_text():
        gone = Path("/proc", note.read_text())
        until(lambda: not gone.exists(), "the child to be gone")


def _refused() -> None:
    raise Conflict("queue: it is closed", field="queue", value="night")


def test_a_refusal_is_the_same_as_it_would_be_here() -> None:
    with pytest.raises(Conflict, match="queue: it is closed") as caught:
        asked(_refused)

    assert (caught.value.field, caught.value.value) == ("queue", "night")


def test_a_bug_is_a_bug_and_tells_where_it_is() -> None:
    """Nobody is asked to come back later for it, and the log has the line."""
    with pytest.raises(ValueError, match="no") as caught:
        asked(_broken)

    assert "in _broken" in "".join(caught.value.__notes__)


class _Knotty(Exception):
    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("it stays where it is")


def _knotty() -> None:
    raise _Knotty("no way")


@pytest.mark.parametrize(
    ("work", "words"),
    [
        pytest.param(_knotty, "_Knotty: no way", id="an error that cannot travel"),
        pytest.param(lambda: lambda: 0, "pickle", id="an answer that cannot travel"),
        pytest.param(_killed, "it broke off", id="a child that was killed"),
    ],
)
def test_what_does_not_come_back_whole_is_told_of(work: Callable[[], Any], words: str) -> None:
    with pytest.raises((Unanswered, AttributeError, pickle.PicklingError), match=words):
        asked(work)


def test_where_nothing_more_can_be_opened_nothing_is_answered() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def ask() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            await aside(lambda: 0, LONG_S)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    with pytest.raises(Unanswered, match="no process can be started: Too many open files"):
        asyncio.run(ask())


def test_of_the_two_the_child_goes_first_where_memory_ends() -> None:
    assert asked(lambda: Path("/proc/self/oom_score_adj").read_text().strip()) == "1000"


def test_no_signal_to_the_group_makes_the_child_do_the_work_of_its_parent() -> None:
    """It ends with its parent, by a signal that nothing holds back."""

    def told() -> str:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        return "still there"

    assert asked(told) == "still there"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def test_an_asker_who_goes_away_ends_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def endless() -> None:
        note.write_text(str(os.getpid()))
        signal.pause()

    async def ask() -> None:
        asking = asyncio.ensure_future(aside(endless, LONG_S))
        await asyncio.to_thread(until, lambda: note.exists() and note.read_text(), "the child")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    opened = os.listdir("/proc/self/fd")
    asyncio.run(ask())

    until(lambda: not Path("/proc", note.read_text()).exists(), "the child to be gone")
    assert os.listdir("/proc/self/fd") == opened
