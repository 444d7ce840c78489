"""What keeps a gang off a node when it starts keeps it off that node when it grows, too."""

import pytest

from rota.core.changes import events as ev
from rota.core.facts.placing import Placement
from rota.core.facts.tenant import Reservation
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


@pytest.mark.parametrize(("paused_s", "grown"), [(0, ["a", "b"]), (150, ["a"])])
def test_a_gang_grows_onto_a_node_that_is_reserved_from_its_end_on_and_not_before(
    paused_s: int, grown: list[str]
):
    """It began at 0 and may run for 1000 s and what it was suspended for; the reservation begins
    at 1100."""
    stage = Stage([node("a", cpus=1), node("b", cpus=1)])
    begin_s = stage.begin_s
    stage.reserve(Reservation(1, "bob", begin_s + 1100, begin_s + 2000, nodes=("b",)))
    there = Placement(nodes=("b",))
    stage.submit(spec(cpus=1, time_limit_s=300, placement=there), runs_s=300)
    gang = stage.submit(spec(tasks=2, at_least=1, cpus=1, time_limit_s=1000))
    stage.run()
    if paused_s:
        stage.look_later(100)
        stage.look_later(100 + paused_s)
        stage.step()
        stage.tell(ev.JobSuspended(job=gang, by="alice"))
        stage.step()
        stage.tell(ev.JobResumed(job=gang))

    stage.step()

    assert stage.now_s == begin_s + 300
    assert stage.nodes_of(gang) == grown
