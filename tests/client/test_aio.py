"""The twin for programs with an event loop."""

import asyncio

import pytest

import rota

pytestmark = pytest.mark.slow
WAIT_S = 60.0


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
            return isinstance(await job.exception(), rota.JobCancelled)

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
