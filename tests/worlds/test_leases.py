"""Worlds in which everything breaks that a lease depends on, and live hosts lead them.

``python -m rota.worlds leases SEED`` tells the tale of one, ``leases 0-999`` plays a thousand.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterable

import pytest

from rota.controller.agents import liveness, registering
from rota.controller.loop import Host
from rota.core.cluster import Cluster
from rota.core.facts.node import Node
from rota.sim.replay import verify
from rota.store.memory import ProcessDied
from rota.worlds.clock import OwnTime, WorldTimeline
from rota.worlds.judge import BrokenPromise
from rota.worlds.leases import LeaseWorld
from rota.worlds.virtual_loop import VirtualLoop
from rota.worlds.virtual_node import VirtualKeeper

#: Enough for every kind of cut to meet every kind of work.
WORLDS = int(os.environ.get("ROTA_LEASE_WORLDS", "150"))
CHUNK = 50
#: A fault that is planted shows within so many worlds.
PLANTED = 60
#: How the judge tells of it.
ALIVE = r"was given up with n\d and is alive"


#: What must really happen in every fifty worlds, by the log and by what broke.
ON_RECORD = (
    *("node-lost", "ended: node_lost", "node-silent", "attempt-placed", "ended: start_failed"),
    *("job-requeued", "job-updated", "policy-set", "clock-moved"),
)
BROKE = (
    *("is cut off", "sleeps", "is full", "stands still", "hangs up: nobody answers"),
    *("loses its database", "leads beside an old one", "sets another bound for graces"),
)


def play(seed: int) -> LeaseWorld:
    world = LeaseWorld(seed)
    try:
        world.play()
    except Exception as error:
        pytest.fail(f"lease seed {seed}: {type(error).__name__}: {error}")
    return world


def play_until_broken(seeds: Iterable[int] = range(PLANTED)) -> None:
    for seed in seeds:
        LeaseWorld(seed).play()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, WORLDS, CHUNK))
def test_no_attempt_ever_lives_twice_whatever_breaks_for_how_long(first: int):
    record, broke = Counter[str](), Counter[str]()
    for seed in range(first, first + CHUNK):
        world = play(seed)
        record += world.judge.books.counts
        broke += world.cuts.counts
        if seed % 10 == 0:
            found = verify(world.store.all_events())
            assert found.difference is None, f"lease seed {seed}: {found.difference}"

    assert [kind for kind in ON_RECORD if not record[kind]] == []
    assert [kind for kind in BROKE if not broke[kind]] == []


def test_a_clock_that_goes_back_while_nothing_can_be_written_hides_no_time():
    """The disk is full, the clock is set, and an end of before is told afterwards."""
    play(71236)


def test_what_was_said_to_another_node_starts_nothing():
    """A welcome and the set that follows come late, on a connection that another node has made."""
    play(285)


def test_nobody_asks_before_a_node_is_on_record_though_a_controller_knew_one():
    """A commit fails with the hello of the only node: what no node could run was accepted then."""
    play(1129)


@pytest.mark.parametrize("seed", [540, 600, 980])
def test_two_ticks_in_one_moment_are_decided_again_alike(seed: int):
    world = play(seed)

    assert verify(world.store.all_events()).difference is None


def test_a_controller_that_dies_while_a_thread_of_it_writes_is_dead_and_not_at_fault():
    timeline, died, failed = WorldTimeline(), [], []
    loop = VirtualLoop(OwnTime(timeline), failed.append, died.append)

    def write() -> None:
        raise ProcessDied("before it can say so")

    task = loop.start(asyncio.to_thread(write))
    while timeline.step():
        pass

    assert [str(death) for death in died] == ["before it can say so"]
    assert (failed, task.done()) == ([], False)
    loop.end()


def test_the_same_seed_gives_the_same_world():
    assert play(8).digest == play(8).digest


def test_a_controller_that_gives_up_too_early_is_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(liveness, "trusted_s", lambda node, grace_s: 3.5)

    with pytest.raises(BrokenPromise, match=ALIVE):
        play_until_broken()


def test_a_controller_that_forgets_the_grace_is_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(liveness, "trusted_s", lambda node, grace_s: node.lease_s)

    with pytest.raises(BrokenPromise, match=ALIVE):
        play_until_broken()


def test_a_controller_that_takes_a_later_grace_for_that_of_the_launch_is_caught(
    monkeypatch: pytest.MonkeyPatch,
):
    def of_the_job(cluster: Cluster, node: Node, uid: str) -> int:
        return cluster.jobs[cluster.live.where[uid][0]].spec.grace_s

    monkeypatch.setattr(liveness, "_grace_s", of_the_job)

    with pytest.raises(BrokenPromise, match=ALIVE):
        play_until_broken()


def test_a_controller_that_counts_on_a_shorter_lease_at_once_is_caught(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(registering, "_held_s", lambda node, hello, lease_s: lease_s)

    # Rare: a welcome has to be lost between two leases while a deaf job runs.
    with pytest.raises(BrokenPromise, match=ALIVE):
        play_until_broken(range(1000, 1010))


def test_a_keeper_that_ignores_its_lease_is_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(VirtualKeeper, "_expire", lambda keeper, until_s: None)

    with pytest.raises(BrokenPromise, match=ALIVE):
        play_until_broken()


def test_a_lease_on_a_clock_that_stands_still_while_the_machine_sleeps_is_caught(
    monkeypatch: pytest.MonkeyPatch,
):
    def as_if_it_had_not_slept(time: OwnTime) -> None:
        time.asleep = False
        missed, time._missed = time._missed, []
        for action in missed:
            time.after(5.0, action)

    monkeypatch.setattr(OwnTime, "wake", as_if_it_had_not_slept)

    with pytest.raises(BrokenPromise, match=ALIVE):
        play_until_broken()


def test_a_controller_that_answers_beats_without_proof_that_it_leads_is_caught(
    monkeypatch: pytest.MonkeyPatch,
):
    async def believes_it(host: Host) -> None:
        """As one that looks at its lock only when something has to be written."""

    monkeypatch.setattr(Host, "_prove", believes_it)

    with pytest.raises(BrokenPromise, match=ALIVE):
        play_until_broken(range(131, 151, 2))
