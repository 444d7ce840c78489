"""Worlds whose networks break, for shorter and for longer than the lease of the agents.

``python -m rota.worlds cut SEED`` tells the tale of one.
"""

from __future__ import annotations

from collections import Counter

import pytest

from rota.controller.agents import liveness, registering
from rota.core.cluster import Cluster
from rota.core.facts.node import Node
from rota.sim.replay import verify
from rota.worlds.clock import OwnTime
from rota.worlds.judge import Broken
from rota.worlds.virtual_node import VirtualKeeper
from rota.worlds.world import World

#: Enough for every kind of cut to meet every kind of work.
WORLDS = 60
#: How the judge tells of it.
ALIVE = r"was given up with n\d and is alive"


def play(seed: int) -> World:
    world = World(seed, cuts=True)
    try:
        world.play()
    except Exception as error:
        pytest.fail(f"cut seed {seed}: {type(error).__name__}: {error}")
    return world


def play_until_broken(worlds: int = WORLDS) -> None:
    for seed in range(worlds):
        World(seed, cuts=True).play()


def test_no_attempt_ever_lives_twice_whatever_is_cut_off_for_how_long():
    counts = Counter[str]()
    for seed in range(WORLDS):
        world = play(seed)
        counts += world.judge.books.counts
        if seed % 10 == 0:
            found = verify(world.store.all_events())
            assert found.difference is None, f"cut seed {seed}: {found.difference}"

    happens = ("node-lost", "ended: node_lost", "node-silent", "attempt-placed")
    happens += ("ended: start_failed", "job-requeued", "job-updated")
    assert [kind for kind in happens if not counts[kind]] == []


def test_the_same_seed_gives_the_same_world():
    assert play(8).digest == play(8).digest


def test_a_controller_that_gives_up_too_early_is_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(liveness, "trusted_s", lambda node, grace_s: 3.5)

    with pytest.raises(Broken, match=ALIVE):
        play_until_broken()


def test_a_controller_that_forgets_the_grace_is_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(liveness, "trusted_s", lambda node, grace_s: node.lease_s)

    with pytest.raises(Broken, match=ALIVE):
        play_until_broken()


def test_a_controller_that_takes_a_later_grace_for_that_of_the_launch_is_caught(
    monkeypatch: pytest.MonkeyPatch,
):
    def of_the_job(cluster: Cluster, node: Node, uid: str) -> int:
        return cluster.jobs[cluster.live.where[uid][0]].spec.grace_s

    monkeypatch.setattr(liveness, "_grace_s", of_the_job)

    with pytest.raises(Broken, match=ALIVE):
        play_until_broken()


def test_a_controller_that_counts_on_a_shorter_lease_at_once_is_caught(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(registering, "_held_s", lambda node, hello, lease_s: lease_s)

    with pytest.raises(Broken, match=ALIVE):
        play_until_broken(2 * WORLDS)


def test_a_keeper_that_ignores_its_lease_is_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(VirtualKeeper, "_expire", lambda keeper, until_s: None)

    with pytest.raises(Broken, match=ALIVE):
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

    with pytest.raises(Broken, match=ALIVE):
        play_until_broken()
