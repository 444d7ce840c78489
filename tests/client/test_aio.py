"""The twin for programs with an event loop."""

import asyncio
import inspect
import os
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

import rota
from rota.api.door.certificate import server_context
from rota.client.aio.line import AsyncLine
from rota.client.cluster import ClusterContext
from rota.client.errors import Refused
from rota.client.http import Client
from tests.api.running import Running
from tests.cli.fake_server import Answer as FakeAnswer
from tests.cli.fake_server import FakeRota

pytestmark = pytest.mark.slow
WAIT_S = 60.0


def add(first: int, second: int = 0) -> int:
    return first + second


def test_jobs_are_awaited_and_raise_what_they_raised(cluster: rota.ClusterContext):
    async def story() -> tuple[object, object]:
        async with rota.connect_async(cluster.url) as twin:
            good = await twin.submit(abs, -7)
            bad = await twin.submit(divmod, 1, 0)
            with pytest.raises(ZeroDivisionError):
                await bad
            assert (await twin.wait(good, timeout=WAIT_S)).state == "completed"
            return await good, await good.logs()

    assert asyncio.run(story()) == (7, "")


def test_a_family_is_taken_as_it_ends(cluster: rota.ClusterContext):
    async def story() -> list[int]:
        async with rota.connect_async(cluster.url) as twin:
            jobs = await twin.map(abs, [-1, -2, -3], max_concurrent=2)
            return sorted([await job async for job in twin.as_completed(jobs)])

    assert asyncio.run(story()) == [1, 2, 3]


def test_waiting_for_one_job_lets_the_loop_go_on_and_can_end_early(cluster: rota.ClusterContext):
    async def story() -> bool:
        async with rota.connect_async(cluster.url) as twin:
            job = await twin.submit(abs, -1, hold=True)
            with pytest.raises(TimeoutError, match=f"job {job.id} has not ended"):
                await job.result(timeout=0.05)
            assert not job.done()
            await job.cancel()
            return isinstance(await job.exception(), rota.JobCancelled) and job.cancelled()

    assert asyncio.run(story())


def test_a_gang_and_a_command_have_their_twins(cluster: rota.ClusterContext):
    def rank() -> int:
        me = rota.context()
        me.progress(1.0, "there")
        return me.rank

    async def story() -> tuple[list[int], object, object]:
        async with rota.connect_async(cluster.url) as twin:
            gang = await twin.submit(rank, tasks=2)
            command = await twin.launch(rota.Job().shell("echo hello").cpus(1))
            again = await twin.job(command.id)
            assert await again is None
            progress = await gang.progress(1) if await gang.results() else None
            return await gang.results(), progress["message"], await twin.logs(command)

    assert asyncio.run(story()) == ([0, 1], "there", "hello\n")


def test_a_cluster_that_was_not_opened_says_how_to():
    with pytest.raises(RuntimeError, match=r"async with rota\.connect_async"):
        rota.connect_async("unix:///nowhere").plain.status(1)


def test_every_verb_has_its_twin_of_the_same_name():
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    # Files on this machine, executors and connections of threads: for ``plain``.
    apart = {"client", "close", "executor", "home", "labels", "maker", "map_calls", "open_listener"}
    apart |= {"outcome", "pool"}
    missing = public(ClusterContext) - public(rota.AsyncCluster) - apart

    assert missing == set()
    for name in ("hold", "why", "jobs", "nodes", "plan", "gather", "update"):
        assert inspect.iscoroutinefunction(getattr(rota.AsyncCluster, name))


def test_a_server_that_asks_for_more_patience_than_there_is_gets_no_further_call(tmp_path: Path):
    fake = FakeRota(tmp_path / "rota.sock")
    busy = FakeAnswer({"detail": "this takes too long"}, 429, {"Retry-After": "50"})
    fake.routes["GET /queues"] = busy

    async def story() -> None:
        line = AsyncLine(Client([f"unix://{fake.path}"]))
        try:
            await line.call("GET", "/queues")
        finally:
            await line.close()

    with closing(fake), pytest.raises(Refused, match="this takes too long"):
        asyncio.run(story())

    assert len(fake.asked) == 1


def test_many_calls_at_once_take_one_connection_and_no_thread(server: Running):
    url = f"unix://{server.socket_path}"
    command = rota.Job().shell("exit 0").cpus(1)

    async def story() -> tuple[int, int, int]:
        async with rota.connect_async(url) as twin:
            await twin.launch(command)
            threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
            jobs = await asyncio.gather(*[twin.launch(command) for _ in range(40)])
            more = threading.active_count() - threads, len(os.listdir("/proc/self/fd")) - files
            return len({job.id for job in jobs}), *more

    # The server runs in a thread of this process: a connection would be two files.
    assert asyncio.run(story()) == (40, 0, 0)


def test_a_job_to_await_is_an_argument_like_a_handle(cluster: rota.ClusterContext):
    async def story() -> tuple[int, list[int]]:
        async with rota.connect_async(cluster.url) as twin:
            first = await twin.options(name="first").submit(add, 1, second=2)
            second = await twin.submit(add, first, 10)
            family = await twin.map(add, [1, 2], [10, 20])
            return await second, await twin.gather(await twin.map(add, family), second)

    assert asyncio.run(story()) == (13, [11, 22, 13])


def test_questions_and_orders_have_their_twins(cluster: rota.ClusterContext):
    async def story() -> list[object]:
        async with rota.connect_async(cluster.url) as twin:
            job = await twin.options(hold=True, name="twin").submit(abs, -1)
            changed = await twin.update(job, priority="high")
            listed = await twin.jobs(name="twin", state="held")
            story = await job.why()
            plan = await twin.options(cpus=1).plan(abs, -1)
            nodes = await twin.nodes()
            await twin.release(job)
            kinds = {event["kind"] for event in await twin.events(job)}
            return [
                changed.record["priority"], [each.id for each in listed] == [job.id], story.state,
                plan.starts, nodes[0].state, await job, "job-settled" in kinds or bool(kinds),
            ]  # fmt: skip

    assert asyncio.run(story()) == [75, True, "held", True, "up", 1, True]


def test_output_is_followed_without_blocking(cluster: rota.ClusterContext, tmp_path: Path):
    go = tmp_path / "go"

    def speak() -> None:
        print("first")
        end_s = time.monotonic() + 60
        while not go.exists() and time.monotonic() < end_s:
            time.sleep(0.005)
        print("last")

    async def story() -> str:
        heard = ""
        async with rota.connect_async(cluster.url) as twin:
            job = await twin.submit(speak)
            async for piece in await twin.logs(job, follow=True):
                heard += piece
                if "first" in heard:
                    go.touch()
        return heard

    assert asyncio.run(story()) == "first\nlast\n"


def test_a_failure_brings_the_end_of_standard_error_and_a_lost_result_its_name(
    cluster: rota.ClusterContext,
):
    async def story() -> tuple[str, type]:
        async with rota.connect_async(cluster.url) as twin:
            bad = await twin.launch(rota.Job().shell("echo oh dear >&2; exit 3").cpus(1))
            error = await bad.exception()
            assert isinstance(error, rota.JobFailed)
            gone = await twin.options(env={"ROTA_RESULT_DIR": "/proc/none"}).submit(abs, -1)
            return error.stderr_tail, type(await gone.exception())

    assert asyncio.run(story()) == ("oh dear\n", rota.JobFailed)


def test_whoever_waits_when_the_connection_is_closed_is_told(server: Running):
    async def story() -> BaseException | None:
        async with rota.connect_async(f"unix://{server.socket_path}") as twin:
            job = await twin.launch(rota.Job().shell("exit 0").cpus(1))
        return await job.exception()

    error = asyncio.run(story())

    assert isinstance(error, rota.Disconnected)
    assert "closed before job 1 ended" in str(error)


def test_over_the_network_a_token_is_shown_and_an_empty_port_is_named(network: tuple[str, str]):
    url, token = network

    async def story() -> int:
        async with rota.connect_async(url, token) as twin:
            return await (await twin.submit(abs, -3))

    async def nobody() -> None:
        async with rota.connect_async("http://127.0.0.1:9", token) as twin:
            await twin.nodes()

    assert asyncio.run(story()) == 3
    with pytest.raises(rota.Unreachable, match=r"nothing answers at http://127\.0\.0\.1:9"):
        asyncio.run(nobody())


def test_a_server_with_another_certificate_is_told_nothing(tmp_path: Path):
    secure, fingerprint = server_context(tmp_path, ["127.0.0.1"])
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(4096))
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"items":[]}')
        await writer.drain()
        writer.close()

    async def nodes(named: str) -> list[rota.Node]:
        async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=secure) as listening:
            port = listening.sockets[0].getsockname()[1]
            address = f"https://127.0.0.1:{port}"
            async with rota.connect_async(address, f"rota_secret.{named}") as twin:
                return await twin.nodes()

    with pytest.raises(rota.Unreachable, match="the certificate is not the one"):
        asyncio.run(nodes("A" * 43))
    with pytest.raises(rota.Unreachable, match="use a token that names the certificate"):
        asyncio.run(nodes(""))
    assert b"".join(heard) == b""
    assert asyncio.run(nodes(fingerprint)) == []
    assert b"Bearer rota_secret\r\n" in b"".join(heard)
