"""A gang whose nodes must have a label in common keeps to that when it grows, too."""

import pytest

from rota.core.facts.placing import Placement
from rota.testing.stage import Stage, node, spec


@pytest.mark.parametrize(("rack", "grown"), [("r1", ["a", "b"]), ("r2", ["a"])])
def test_an_elastic_gang_grows_only_within_the_rack_that_it_started_in(rack: str, grown: list[str]):
    stage = Stage([node("a", cpus=1, rack="r1"), node("b", cpus=1, rack=rack)])
    there = Placement(nodes=("b",))
    stage.submit(spec(cpus=1, time_limit_s=100, placement=there), runs_s=100)
    together = Placement(topology="rack")
    gang = stage.submit(spec(tasks=2, at_least=1, cpus=1, time_limit_s=1000, placement=together))
    stage.run()

    stage.step()

    assert stage.now_s == stage.begin_s + 100
    assert stage.nodes_of(gang) == grown
