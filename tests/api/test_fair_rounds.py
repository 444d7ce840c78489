"""Users take turns at the loop of the server: the steps of one do not come all at once."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from rota.api.rounds import LONG_S, TURN_S, InRounds, Rounds


def work_for(seconds: float) -> None:
    """Of the processor's time, whatever else the machine does."""
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


async def steps(name: str, log: list[str], count: int, each_s: float) -> str:
    for _ in range(count):
        await asyncio.sleep(0)
        work_for(each_s)
        log.append(name)
    return name


def played(*work: tuple[str, Coroutine[Any, Any, Any]]) -> list[Any]:
    async def play() -> list[Any]:
        rounds = Rounds()
        tasks = [asyncio.ensure_future(_awaited(rounds, user, one)) for user, one in work]
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(play())


async def _awaited(rounds: Rounds, user: str, work: Coroutine[Any, Any, Any]) -> Any:
    return await InRounds(rounds, work, user)


@pytest.mark.parametrize("each_s", [TURN_S, 2 * LONG_S])
def test_short_steps_of_one_user_come_between_the_long_ones_of_another(each_s: float) -> None:
    log: list[str] = []
    flood = [("mallory", steps("mallory", log, 2, each_s)) for _ in range(10)]

    answers = played(*flood, ("alice", steps("alice", log, 3, 0.0)))

    last = max(at for at, name in enumerate(log) if name == "alice")
    assert log[: last + 1].count("mallory") <= 4
    assert answers == ["mallory"] * 10 + ["alice"]


def test_a_user_who_is_alone_waits_for_nobody() -> None:
    """Short steps are sat out in rounds that are over at once."""
    log: list[str] = []
    began_s = time.thread_time()

    played(*(("ann", steps("ann", log, 10, TURN_S / 10)) for _ in range(20)))

    assert len(log) == 200
    assert time.thread_time() - began_s < 2 * 200 * TURN_S / 10


def test_what_ends_a_request_reaches_its_work_while_it_sits_out() -> None:
    log: list[str] = []

    async def cleaning(entered: asyncio.Event) -> None:
        entered.set()
        try:
            await asyncio.sleep(0)
            log.append("worked")
        except asyncio.CancelledError:
            log.append("cleaned")
            raise

    async def play() -> None:
        rounds, entered = Rounds(), asyncio.Event()
        task = asyncio.ensure_future(_awaited(rounds, "ann", cleaning(entered)))
        await entered.wait()
        rounds.take("ann", 3600.0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())

    assert log == ["cleaned"]


def test_an_error_of_the_work_is_that_of_the_request() -> None:
    async def broken() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    (found,) = played(("ann", broken()))

    assert isinstance(found, ValueError)


def test_a_request_that_is_dropped_is_closed_at_once_even_while_its_user_sits_out() -> None:
    """Nobody waits for a turn to clean up: what is left of a request at the end is closed."""
    log: list[str] = []

    async def cleaning() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            log.append("cleaned")

    async def play() -> Coroutine[Any, Any, Any]:
        rounds = Rounds()
        request = _awaited(rounds, "ann", cleaning())
        request.send(None)
        rounds.take("ann", 3600.0)
        return request

    asyncio.run(play()).close()

    assert log == ["cleaned"]


def test_what_ends_a_request_does_not_wait_for_a_turn() -> None:
    async def play() -> float:
        rounds, never = Rounds(), asyncio.Event()
        task = asyncio.ensure_future(_awaited(rounds, "ann", never.wait()))
        await asyncio.sleep(0)
        rounds.take("ann", 3600.0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=5)
        return len(done)

    assert asyncio.run(play()) == 1
