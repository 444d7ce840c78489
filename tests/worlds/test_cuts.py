"""Worlds whose networks break, for shorter and for longer than the lease of the agents.

``python -m rota.worlds cut SEED`` tells the tale of one.
"""

from __future__ import annotations

from collections import Counter

import pytest

from rota.controller.agents import liveness
from rota.sim.replay import verify
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


def play_until_broken() -> None:
    for seed in range(WORLDS):
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
    assert [kind for kind in happens if not counts[kind]] == []


def test_the_same_seed_gives_the_same_world():
    assert play(8).digest == play(8).digest


def test_a_controller_that_gives_up_too_early_is_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(liveness, "trusted_s", lambda cluster, node: 3.5)

    with pytest.raises(Broken, match=ALIVE):
        play_until_broken()


def test_a_controller_that_forgets_the_grace_is_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(liveness, "trusted_s", lambda cluster, node: node.lease_s)

    with pytest.raises(Broken, match=ALIVE):
        play_until_broken()


def test_a_keeper_that_ignores_its_lease_is_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(VirtualKeeper, "_expire", lambda keeper, until_s: None)

    with pytest.raises(Broken, match=ALIVE):
        play_until_broken()
