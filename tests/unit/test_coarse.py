"""Strategies that find many nodes equally good, live: the first of them by name is taken."""

import random

import pytest

from rota.core.changes import events as ev
from rota.core.facts.policy import PlaceRules, Policy
from rota.scheduling.place.coming import Coming
from rota.scheduling.place.fragments import Typical
from rota.scheduling.place.node_room import is_variant
from rota.scheduling.place.ranks import Ranks
from rota.testing.stage import Stage, node, role, spec

COARSE = ["best-fit", "fgd", "dotprod", "gpu-packing"]


def stage_of(strategy: str, *nodes) -> Stage:
    return Stage(nodes, Policy(place=PlaceRules(strategy=strategy)))


def placed(stage: Stage, **wishes) -> str:
    job = stage.submit(spec(**wishes))
    stage.run()
    return ",".join(stage.nodes_of(job))


@pytest.mark.parametrize("strategy", COARSE)
def test_of_equal_nodes_the_first_by_name_is_taken_whoever_came_first(strategy):
    stage = stage_of(strategy, node("c", gpus=1), node("a", gpus=1), node("b", gpus=1))

    assert [placed(stage, gpus=1) for _ in range(3)] == ["a", "b", "c"]


@pytest.mark.parametrize("strategy", COARSE)
def test_a_node_that_comes_later_is_taken_first_if_its_name_is_the_first(strategy):
    stage = stage_of(strategy, node("b", gpus=1), node("d", gpus=1))
    stage.run()

    for name in ("c", "a"):
        registered = ev.NodeRegistered(spec=node(name, gpus=1), incarnation="i", boot_id="b")
        stage.tell(registered)

    assert [placed(stage, gpus=1) for _ in range(4)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("strategy", COARSE)
def test_a_node_that_is_free_again_is_first_again(strategy):
    stage = stage_of(strategy, *(node(name, gpus=1) for name in "abc"))
    first, second = (stage.submit(spec(gpus=1)) for _ in range(2))
    stage.run()

    stage.end(first)

    assert stage.nodes_of(second) == ["b"]
    assert [placed(stage, gpus=1) for _ in range(2)] == ["a", "c"]


def test_best_fit_measures_against_the_largest_node_that_is_there():
    # Against a thousand CPUs two more or less make no hundredth; against five they do.
    stage = stage_of(
        "best-fit", node("a", cpus=5), node("b", cpus=3), node("huge", cpus=1000, gpus=8)
    )
    assert placed(stage, cpus=1) == "a"

    stage.tell(ev.NodeRemoved(node="huge"))

    assert placed(stage, cpus=1) == "b"


def test_fgd_goes_by_what_waits_unless_the_host_knows_what_usually_comes():
    # A job that wants one GPU breaks up the pair on a if only single ones come, else it goes to b.
    def where(expected) -> str:
        stage = stage_of("fgd", node("a", gpus=2), node("b", gpus=3))
        stage.scheduler.coming = Coming(expected)
        return placed(stage, gpus=1)

    pairs = (Typical(1.0, role(gpus=2).request),)

    assert where(None) == "a"
    assert where(pairs) == "b"


def test_fgd_puts_a_share_where_it_spoils_no_whole_device():
    stage = stage_of("fgd", node("a", gpus=2))
    stage.scheduler.coming = Coming((Typical(1.0, role(gpus=1).request),))
    jobs = [stage.submit(spec(gpus=1, gpu_part=0.25)) for _ in range(4)]
    stage.run()

    held = {a.allocation.devices for job in jobs for a in stage.cluster.jobs[job].live_attempts}

    assert len(held) == 1


def test_another_scheduler_expects_the_same():
    stage = stage_of("fgd", node("a", gpus=2), node("b", gpus=3))
    stage.scheduler.coming = Coming((Typical(1.0, role(gpus=2).request),))

    stage.scheduler = stage.scheduler.another()

    assert placed(stage, gpus=1) == "b"


@pytest.mark.parametrize("names", ["abcdefgh", "hgfedcba", "aebfcgdh"])
def test_ranks_follow_the_names_in_whatever_order_these_come(names):
    ranks = Ranks()

    for name in names:
        assert not ranks.add(name)

    assert sorted(ranks.of, key=ranks.of.__getitem__) == sorted(names)


def test_ranks_are_given_out_anew_when_there_is_none_left_between_two():
    ranks = Ranks()
    ranks.add("a")
    ranks.add("b")

    # Each one goes right behind a, into a gap that halves.
    anew = [ranks.add("a" + "a" * (60 - n) + "b") for n in range(40)]

    assert any(anew)
    assert sorted(ranks.of, key=ranks.of.__getitem__) == sorted(ranks.of)
    assert len(set(ranks.of.values())) == 42


def test_ranks_of_many_names_in_a_random_order_follow_them():
    names = [f"node-{number}" for number in range(2000)]
    random.Random(7).shuffle(names)
    ranks = Ranks()

    for name in names:
        ranks.add(name)

    assert sorted(ranks.of, key=ranks.of.__getitem__) == sorted(names)


def test_one_of_several_models_may_be_asked_for():
    assert is_variant("NVIDIA A100-SXM4-80GB", "H100|A100")
    assert is_variant("V100M16", "V100M32|V100M16|")
    assert not is_variant("V100M16", "V100M32|T4")
    assert is_variant("T4", "|")
