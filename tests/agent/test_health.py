"""Tasks that are asked whether they are well: who is asked, what counts, how the unwell end."""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable

from rota.agent.attempts.health import UNHEALTHY, HealthWatch
from rota.core.facts.health import Health
from rota.core.facts.states import Cause
from rota.session.instructions import Keep, KnownAttempt, Signal
from tests.agent.controllers import Scene, order, scene
from tests.agent.test_agent import Node, commands, ended, seen

#: Serves its port until it is told by a file, then goes on without answering.
SERVER = """
import os, signal, socket, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with socket.create_server(("127.0.0.1", int(os.environ["ROTA_PORT_WEB"]))) as door:
    door.settimeout(0.05)
    while not os.path.exists(sys.argv[1]):
        try:
            door.accept()[0].close()
            print("asked", flush=True)
        except TimeoutError:
            pass
while True:
    time.sleep(0.05)
"""


def tell(story: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await story

    asyncio.run(bounded())


async def served(status: str) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(status.encode())
        await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


async def unwell(watch: HealthWatch, awake: Callable[[], set[str]], for_s: float = 60) -> list[str]:
    """What is said of the first who is to end; nothing, if nobody is within the time."""
    said: list[str] = []
    heard = asyncio.Event()

    def hear(_: str, why: str) -> None:
        said.append(why)
        heard.set()

    running = asyncio.create_task(watch.run(awake, hear))
    try:
        async with asyncio.timeout(for_s):
            await heard.wait()
    except TimeoutError:
        pass
    finally:
        running.cancel()
    return said


def test_a_task_that_answers_badly_so_often_in_a_row_is_unwell_and_the_answer_is_told() -> None:
    async def story() -> None:
        async with await served("HTTP/1.1 500 Broken\r\n\r\n") as server:
            port = server.sockets[0].getsockname()[1]
            watch = HealthWatch()
            watch.add("u", Health("web", "/ok", every_s=0.1, failures=2, delay_s=0), {"web": port})

            said = await unwell(watch, lambda: {"u"})

            assert said == [f"{UNHEALTHY}/ok answered 500, 2 times in a row"]

    tell(story())


def test_a_task_that_answers_is_left_alone_and_a_refused_connection_is_no_answer() -> None:
    async def story() -> None:
        async with await served("HTTP/1.1 204 Fine\r\n\r\n") as server:
            port = server.sockets[0].getsockname()[1]
            watch = HealthWatch()
            health = Health("web", "/ok", every_s=0.1, failures=1, delay_s=0)
            watch.add("fine", health, {"web": port})
            well = await unwell(watch, lambda: {"fine"}, for_s=0.8)
            watch.add("gone", Health("web", failures=1, delay_s=0), {"web": 1})

            said = await unwell(watch, lambda: {"fine", "gone"})

            assert well == []
            assert said[0].startswith(f"{UNHEALTHY}port web (1): ")
            assert said[0].endswith(", 1 times in a row")

    tell(story())


def test_silence_does_not_count_before_the_first_answer_nor_while_it_cannot_answer() -> None:
    async def story() -> None:
        starting, asleep = HealthWatch(), HealthWatch()
        patient = Health("web", every_s=0.1, failures=1, delay_s=60)
        starting.add("u", patient, {"web": 1})
        asleep.add("u", Health("web", every_s=0.1, failures=1, delay_s=0), {"web": 1})

        quiet = await asyncio.gather(
            unwell(starting, lambda: {"u"}, for_s=0.8), unwell(asleep, set, for_s=0.8)
        )

        assert quiet == [[], []]

    tell(story())


def test_after_a_restart_of_the_agent_those_who_run_are_asked_as_before() -> None:
    async def story() -> None:
        watch = HealthWatch()
        keep = Keep(ports={"web": 1}, health=Health("web", every_s=0.1, failures=1, delay_s=0))
        watch.adopt([KnownAttempt("over", "ended", keep), KnownAttempt("u", "running", keep)])

        assert len(await unwell(watch, lambda: {"over", "u"})) == 1
        assert await unwell(watch, lambda: {"over", "u"}, for_s=0.6) == []

    tell(story())


def test_one_that_is_unwell_is_asked_to_end_once_and_its_end_says_why_whatever_its_code() -> None:
    node = Node()
    node.run("a")

    told = node.agent.on_must_end("a", f"{UNHEALTHY}no answer", 1e9, node.now_s)
    again = node.agent.on_must_end("a", f"{UNHEALTHY}no answer", 1e9, node.now_s)
    (end,) = seen(node.hears(ended("a", 0, note=f"{UNHEALTHY}no answer")))

    assert commands(told) == [Signal("a", 15, f"{UNHEALTHY}no answer")]
    assert again == []
    assert (end.cause, end.detail, end.exit_code) == (Cause.UNHEALTHY, "no answer", 0)


def test_a_real_job_that_falls_silent_is_ended_although_its_agent_was_killed_in_between() -> None:
    async def story() -> None:
        async with scene() as here:
            await _falls_silent(here)

    tell(story())


async def _asked(here: Scene, times: int) -> None:
    """Until the job was asked so often."""
    while len((await here.controller.log("u.0.1")).body.splitlines()) < times:
        pass


async def _falls_silent(here: Scene) -> None:
    silent = here.state / "silent"
    await here.start_agent()
    health = Health("web", every_s=0.1, failures=2, delay_s=60)
    wish = order("u.0.1", sys.executable, "-c", SERVER, str(silent), ports=("web",), health=health)
    await here.controller.want(wish)
    await here.controller.running("u.0.1")
    await _asked(here, 2)
    await here.kill_agent()
    await here.start_agent()
    before = len((await here.controller.log("u.0.1")).body.splitlines())
    await _asked(here, before + 2)
    silent.touch()

    end = await here.controller.ended("u.0.1")

    assert (end.cause, end.exit_code) == (Cause.UNHEALTHY, 0)
    assert re.fullmatch(r"port web \(3\d{4}\): .*, 2 times in a row", end.detail)
