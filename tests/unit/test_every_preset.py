"""What no choice of rules may change: an exclusive node stays exclusive, a taint keeps jobs off."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.facts.placing import Placement, Taint
from rota.core.words.presets import PRESETS
from rota.testing.scene import OPERATOR, Scene
from rota.testing.stage import Stage, node, role, spec


@pytest.mark.parametrize("preset", PRESETS)
def test_a_node_that_one_job_has_to_itself_takes_no_other(preset):
    scene = Scene(cpus=4)
    scene.set_policy(preset)

    scene.submit("alone", cpus=1, time_limit_s=600, placement=Placement(exclusive=True))
    scene.submit("other", cpus=1, time_limit_s=600)

    assert scene.states("alone", "other") == ["running", "queued"]
    assert "has the node to itself" in scene.why("other")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_job_that_asks_for_the_whole_node_waits_for_the_jobs_on_it(preset):
    scene = Scene(cpus=4)
    scene.set_policy(preset)
    scene.submit("first", cpus=1, time_limit_s=600)

    scene.submit("alone", cpus=1, time_limit_s=600, placement=Placement(exclusive=True))

    assert scene.states("first", "alone") == ["running", "queued"]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_node_that_is_tainted_while_jobs_wait_takes_none_of_them(preset):
    scene = Scene(cpus=4)
    scene.set_policy(preset)
    scene.submit("hog", cpus=4, time_limit_s=600)
    scene.submit("waits", cpus=1, time_limit_s=600)
    scene.ask(cmd.MarkNode(actor=OPERATOR, node="box", taints=(Taint("broken", ""),)))

    scene.finish("hog")
    scene.submit("later", cpus=1, time_limit_s=600)

    assert scene.states("waits", "later") == ["queued", "queued"]
    assert "taint broken" in scene.why("later")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_gang_that_grows_passes_no_job_that_waits_for_room(preset):
    stage = Stage([node("a", cpus=5)], PRESETS[preset])
    for end_s in (100, 200, 300):
        stage.submit(spec(cpus=1, time_limit_s=end_s))
    stage.run()
    stage.submit(spec(role(cpus=1, tasks=5, at_least=2), time_limit_s=100_000))
    stage.run()
    waits = stage.submit(spec(cpus=3, time_limit_s=60))

    while waits not in stage.started_s and stage.step():
        pass

    assert stage.started_s[waits] == stage.begin_s + 300
