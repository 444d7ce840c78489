"""Worlds that have only some of all features each: ``python -m rota.worlds swarm SEED`` plays one.

Where everything is switched on, a shortcut that needs a plain site is never taken. Here it meets
exclusive jobs, taints and reservations, under every preset.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import combinations

import pytest

from rota.core.facts.resources import Request
from rota.core.words.presets import PRESETS
from rota.scheduling.place.node_room import Room
from rota.sim.replay import verify
from rota.worlds.swarm import FEATURES, SwarmSite, features_of, preset_of, swarm_world
from rota.worlds.world import World

WORLDS = int(os.environ.get("ROTA_WORLDS", "2000")) // 4
CHUNK = 250
#: The log of every so many worlds is replayed.
REPLAYED = 10

#: Seeds that once broke a promise, and what was wrong then.
ONCE_BROKEN = {
    694: "a shortcut for plain sites put a job onto a node that another one had to itself",
}

#: What must really happen in each chunk of worlds.
HAPPENS = (
    *("policy-set", "reservation-set", "node-marked", "job-preempted", "job-suspended"),
    *("group-set", "queue-set", "user-set", "placed alone", "placed on lent CPUs"),
    *("placed after others", "ended: preempted", "ended: time_limit"),
    *("reservation with preemption", "taint while jobs wait"),
    *(f"alone under {name}" for name in PRESETS),
)


def play(seed: int) -> World:
    world = swarm_world(seed)
    try:
        world.play()
    except Exception as error:
        pytest.fail(f"swarm seed {seed}: {type(error).__name__}: {error}")
    return world


def counted(world: World) -> Counter[str]:
    """What happened in a world, and together with what."""
    assert isinstance(world.site, SwarmSite)
    counts = world.judge.books.counts + world.site.met
    counts[f"alone under {world.site.preset}"] += counts["placed alone"]
    return counts


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(0, WORLDS, CHUNK))
def test_every_world_of_the_swarm_keeps_all_promises(first: int) -> None:
    counts = Counter[str]()
    for seed in range(first, first + CHUNK):
        world = play(seed)
        counts += counted(world)
        if seed % REPLAYED == 0:
            found = verify(world.store.all_events())
            assert found.difference is None, f"swarm seed {seed}: {found.difference}"

    assert [kind for kind in HAPPENS if not counts[kind]] == []


@pytest.mark.parametrize("seed", ONCE_BROKEN)
def test_a_world_of_the_swarm_that_once_broke_a_promise_keeps_it_now(seed: int) -> None:
    assert play(seed).digest


def test_the_same_seed_gives_the_same_world_of_the_swarm():
    assert play(5).digest == play(5).digest


def test_any_two_features_meet_and_miss_each_other_under_some_seed_of_a_chunk():
    worlds = [features_of(seed) for seed in range(CHUNK)]

    met = {
        (one, other, one in has, other in has)
        for has in worlds
        for one, other in combinations(FEATURES, 2)
    }

    assert len(met) == 4 * len(FEATURES) * (len(FEATURES) - 1) // 2
    assert {preset_of(seed) for seed in range(CHUNK)} == set(PRESETS)


def test_a_pass_that_lets_others_onto_an_exclusive_node_is_caught(monkeypatch: pytest.MonkeyPatch):
    asked = Room.shortage

    def shortage(room: Room, request: Request, *, firm: bool = False, **about: bool) -> object:
        return asked(room, request, firm=firm, exclusive=False, own=True)

    monkeypatch.setattr(Room, "shortage", shortage)

    with pytest.raises(AssertionError):
        play_until_broken()


def play_until_broken() -> None:
    for seed in range(CHUNK):
        swarm_world(seed).play()
