"""A live host through trouble: a disk that is full, and messages and jobs that break a tick."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from rota.controller import loop as loop_module
from rota.controller.commands.commands import Cancel, Submission, Submit
from rota.controller.engine import FromLink
from rota.controller.launches.launch import encode_environment
from rota.controller.loop import Host
from rota.controller.outage import HELD_MAX
from rota.core.facts.array import Array
from rota.core.facts.errors import Unavailable
from rota.core.facts.indices import parse_indices
from rota.core.facts.job import JobSpec, Role
from rota.core.facts.node import NodeSpec
from rota.core.facts.parents import Dependency, DependencyKind
from rota.core.facts.states import JobState
from rota.rpc.messages import (
    PROTOCOL,
    Beat,
    BeatSeen,
    Desired,
    Hello,
    Observed,
    Seen,
    Sighting,
    Welcome,
    decode_to_agent,
)
from rota.scheduling.answers.explain import explain
from rota.store.api import Batch
from rota.store.memory import DiskFault, MemoryStore
from rota.store.writer import InlineWriter
from rota.testing.scene import ALICE

PATIENCE_S = 20.0


class Agent:
    """One end of a connection, as an agent on another machine has it."""

    def __init__(self, host: Host, name: str) -> None:
        self.host, self.name = host, name
        self.link = host.links.open("", "by a test")
        self.session = self.sent = 0

    def say(self, message: Any) -> None:
        self.host.links.heard(self.link, message)

    def hello(self) -> None:
        self.say(Hello(PROTOCOL, NodeSpec(self.name, 4000, 16384), "i1", "b1", "0"))

    async def join(self) -> Desired:
        self.hello()
        self.session = (await self.hear(Welcome)).session
        return await self.hear(Desired)

    def report(self, *seen: Seen) -> None:
        self.sent += 1
        self.say(Observed(self.session, self.sent, seen, full=self.sent == 1))

    async def hear(self, kind: type) -> Any:
        """The next message of a kind; that nobody hangs up before is part of the answer."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                frame = await self.link.outbox.get()
                assert frame is not None, "the controller hung up"
                if isinstance(message := decode_to_agent(frame), kind):
                    return message

    async def hung_up_on(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while await self.link.outbox.get() is not None:
                pass


def one_job(name: str = "x", *, held: bool = False, **fields: Any) -> Submit:
    spec = JobSpec(name=name, user="alice", command=("true",), **fields)
    return Submit(actor=ALICE, submissions=(Submission(spec=spec, held=held),))


async def until(condition: Callable[[], Any]) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while not (value := condition()):  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.005)
        return value


def play(
    story: Callable[[Host, MemoryStore], Coroutine[Any, Any, None]],
    store: MemoryStore | None = None,
) -> None:
    store = store or MemoryStore()

    async def run() -> None:
        host = Host(store, InlineWriter(store), lease_s=60, checked=True)
        running = asyncio.create_task(host.run())
        await story(host, store)
        host.stop()
        await running

    asyncio.run(run())


async def running_job(host: Host, agent: Agent) -> tuple[int, str]:
    """A job that runs on the agent's node: its id and the uid of its attempt."""
    await agent.join()
    agent.report()
    job = (await host.ask(one_job())).ids[0]
    uid = (await agent.hear(Desired)).attempts[0].uid
    agent.report(Seen(uid, Sighting.RUNNING, pid=7, started_s=host.clock.now_s()))
    await until(lambda: host.cluster.state_of(job) is JobState.RUNNING)
    return job, uid


def test_a_full_disk_keeps_sessions_renews_leases_and_loses_no_report():
    async def story(host: Host, store: MemoryStore) -> None:
        agent, late = Agent(host, "n1"), Agent(host, "n2")
        job, uid = await running_job(host, agent)
        store.disk.fault = DiskFault.FULL

        with pytest.raises(Unavailable, match="is full: nothing was changed"):
            await host.ask(one_job())
        agent.report(Seen(uid, Sighting.ENDED, started_s=1, ended_s=2, exit_code=7))
        late.hello()
        agent.say(Beat(agent.session, 1))
        seen = await agent.hear(BeatSeen)
        with pytest.raises(Unavailable, match="is full"):
            await host.ask(one_job())
        during = host.cluster.state_of(job), host.trouble
        store.disk.fault = None

        assert seen.number == 1
        assert during[0] is JobState.RUNNING, "nothing counts that is not on disk"
        assert "could not be written" in during[1]
        await late.hear(Welcome)
        await until(lambda: host.cluster.state_of(job) is JobState.FAILED)
        assert store.job(job).outcome.exit_code == 7
        assert host.sessions.by_node["n1"].id == agent.session, "it is the same session"

    play(story)


def test_an_agent_that_reports_without_end_during_an_outage_is_hung_up_on_and_others_are_not():
    async def story(host: Host, store: MemoryStore) -> None:
        agent, other = Agent(host, "n1"), Agent(host, "n2")
        job, uid = await running_job(host, other)
        await agent.join()
        store.disk.fault = DiskFault.FULL
        with pytest.raises(Unavailable):
            await host.ask(one_job())

        for _ in range(HELD_MAX + 1):
            agent.report(Seen("unknown", Sighting.RUNNING, pid=7, started_s=1))
        other.report(Seen(uid, Sighting.ENDED, started_s=1, ended_s=2, exit_code=7))
        await agent.hung_up_on()
        assert host._outage is not None
        held = [item.link for item in host._outage.held if isinstance(item, FromLink)]
        store.disk.fault = None

        assert agent.link.number not in held
        await until(lambda: host.cluster.state_of(job) is JobState.FAILED)
        assert host.sessions.by_node["n2"].id == other.session

    play(story)


def test_an_agent_that_left_during_an_outage_is_down_after_it():
    async def story(host: Host, store: MemoryStore) -> None:
        agent = Agent(host, "n1")
        await agent.join()
        store.disk.fault = DiskFault.FULL
        with pytest.raises(Unavailable):
            await host.ask(one_job())

        host.links.closed(agent.link)
        store.disk.fault = None

        await until(lambda: host.cluster.nodes["n1"].state == "down")

    play(story)


def test_how_jobs_ended_is_kept_when_the_state_is_read_back():
    async def story(host: Host, store: MemoryStore) -> None:
        agent = Agent(host, "n1")
        job, uid = await running_job(host, agent)
        agent.report(Seen(uid, Sighting.ENDED, started_s=1, ended_s=2, exit_code=0))
        await until(lambda: host.cluster.state_of(job) is JobState.COMPLETED)
        waiting = (await host.ask(one_job(held=True))).ids[0]
        store.disk.fault = DiskFault.FULL

        with pytest.raises(Unavailable):
            await host.ask(Cancel(actor=ALICE, ids=(waiting,)))
        store.disk.fault = None
        await host.ask(one_job(held=True))

        counts = host.cluster.count_states()
        assert host.cluster.state_of(job) is JobState.COMPLETED
        assert host.cluster.state_of(waiting) is JobState.HELD
        assert (counts[JobState.COMPLETED], counts[JobState.CANCELLED]) == (1, 0)

    play(story)


def test_a_state_that_cannot_be_read_back_is_read_again_whatever_the_trouble_was(monkeypatch):
    def broken(*_: object) -> None:
        troubles.append("once")
        raise LookupError("what the disk says makes no sense")

    troubles: list[str] = []

    async def story(host: Host, store: MemoryStore) -> None:
        async with asyncio.timeout(PATIENCE_S):
            with monkeypatch.context() as patch:
                patch.setattr(loop_module, "read_state", broken)
                store.disk.fault = DiskFault.FULL
                with pytest.raises(Unavailable):
                    await host.ask(one_job())
                store.disk.fault = None
                await until(lambda: troubles)
                with pytest.raises(Unavailable, match="makes no sense"):
                    await host.ask(one_job())
            await until(lambda: host._outage is None)
            taken = await host.ask(one_job())

            assert store.job(taken.ids[0]).spec.name == "x"

    play(story)


def test_a_message_that_breaks_a_tick_is_put_aside_and_the_others_go_on(caplog):
    async def story(host: Host, store: MemoryStore) -> None:
        bad, good = Agent(host, "n1"), Agent(host, "n2")
        job, uid = await running_job(host, good)
        await bad.join()

        # All in one tick: a report of no form, an honest one, and a submit.
        bad.say(Observed(bad.session, 1, attempts=None))  # type: ignore[arg-type]
        good.report(Seen(uid, Sighting.ENDED, started_s=1, ended_s=2, exit_code=0))
        submitted = await host.ask(one_job("beside"))

        await until(lambda: host.cluster.state_of(job) is JobState.COMPLETED)
        assert store.job(submitted.ids[0]).spec.name == "beside"
        await bad.hung_up_on()
        assert host.sessions.by_node["n2"].id == good.session

    play(story)
    assert "was put aside" in caplog.text


def test_a_command_that_breaks_a_tick_is_refused_and_the_others_are_answered():
    class Poison:
        actor = ALICE

    async def story(host: Host, store: MemoryStore) -> None:
        poison = asyncio.create_task(host.ask(Poison()))  # type: ignore[arg-type]
        taken = await asyncio.gather(host.ask(one_job("a")), host.ask(one_job("b")))

        with pytest.raises(Unavailable, match="internal error, nothing was changed"):
            await poison
        assert [store.job(one.ids[0]).spec.name for one in taken] == ["a", "b"]

    play(story)


def test_a_job_whose_launch_cannot_be_made_ends_with_the_reason_and_others_start():
    async def story(host: Host, store: MemoryStore) -> None:
        digest = "0" * 64
        store.commit(Batch(blobs={digest: b"\xc1 no environment"}))
        agent = Agent(host, "n1")
        await agent.join()

        broken = (await host.ask(one_job(environment=digest))).ids[0]
        sound = (await host.ask(one_job())).ids[0]

        order = await agent.hear(Desired)
        while not order.attempts:
            order = await agent.hear(Desired)
        assert order.attempts[0].launch.job == sound
        await until(lambda: host.cluster.state_of(broken) is JobState.FAILED)
        assert "environment cannot be used" in store.job(broken).outcome.detail
        assert not host.cluster.nodes["n1"].drained

    play(story)


def test_a_job_that_breaks_a_pass_is_held_with_the_reason_and_others_start(caplog):
    async def story(host: Host, store: MemoryStore) -> None:
        broken = (await host.ask(one_job("bad"))).ids[0]
        sound = (await host.ask(one_job("good"))).ids[0]
        # A row that no submit would have made; it is read back after a commit that fails.
        row = store.job(broken)
        row.spec = msgspec.structs.replace(row.spec, roles=(Role(count=-2),))
        store.commit(Batch(jobs=[row]))
        store.disk.fault = DiskFault.FULL
        with pytest.raises(Unavailable):
            await host.ask(one_job())
        store.disk.fault = None
        agent = Agent(host, "n1")

        order = await agent.join()
        while not order.attempts:
            order = await agent.hear(Desired)

        assert [one.launch.job for one in order.attempts] == [sound]
        assert host.cluster.jobs[broken].held
        why = explain(host.scheduler, broken, host.clock.now_s())
        assert "broke" in str(why)

    play(story)
    assert "is held: " in caplog.text


class SlowReads(MemoryStore):
    """A database that takes its time to answer, from which no tick may ask anything."""

    def array(self, array_id: int) -> Array | None:
        assert threading.current_thread() is not threading.main_thread()
        return super().array(array_id)

    def blob(self, digest: str) -> bytes | None:
        assert threading.current_thread() is not threading.main_thread()
        return super().blob(digest)


def test_what_a_tick_needs_of_the_store_is_read_outside_of_the_loop():
    digest = "1" * 64

    async def story(host: Host, store: MemoryStore) -> None:
        store.commit(Batch(blobs={digest: encode_environment({"COLOUR": "red"})}))
        array = Submission(
            spec=JobSpec(name="family", user="alice", command=("true",)),
            runs=parse_indices("0-3")[0],
        )
        family = (await host.ask(Submit(actor=ALICE, submissions=(array,)))).ids[0]
        await host.ask(Cancel(actor=ALICE, ids=(family,)))
        tie = Dependency(DependencyKind.AFTER_ANY, family, element=True)
        agent = Agent(host, "n1")
        await agent.join()

        await host.ask(one_job("child", dependencies=(tie,)))
        await host.ask(one_job("coloured", environment=digest))

        launches = [(await agent.hear(Desired)).attempts[0].launch for _ in range(2)]
        assert "red" in [launch.environment.get("COLOUR") for launch in launches]

    play(story, SlowReads())
