"""What a job waits for (a claim, a part of a quota, a neighbour) helps it once it is there."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes import events as ev
from rota.core.facts.placing import Affinity, Placement
from rota.core.facts.states import QueueState
from rota.core.facts.tenant import Limits, Queue, Quota, User
from rota.core.words.presets import PRESETS
from rota.testing.scene import OPERATOR, Scene
from rota.testing.stage import Stage, node, spec


def test_an_overdue_promise_to_a_job_of_a_paused_queue_keeps_no_node_empty():
    stage = Stage([node("a", cpus=4)], PRESETS["conservative"])
    stage.tell(ev.QueueSet(queue=Queue("side")))
    stage.submit(spec(cpus=4, time_limit_s=100))
    paused = stage.submit(spec(cpus=4, time_limit_s=1000, queue="side"))
    other = stage.submit(spec(cpus=2, time_limit_s=500, user="bob"))
    stage.run()
    stage.tell(ev.QueueSet(queue=Queue("side", state=QueueState.PAUSED)))

    stage.play()

    assert stage.promised_s[paused] == stage.begin_s + 100
    assert stage.started_s[other] == stage.begin_s + 100
    assert paused not in stage.started_s


def test_a_task_that_ends_gives_its_part_of_the_quota_back_while_its_gang_runs_on():
    scene = Scene(nodes=0)
    for name, cpus in (("a", 1), ("b", 1), ("wide", 3)):
        scene.add_node(node(name, cpus=cpus))
    limits = Quota(hard=Limits(cpu_milli=4000))
    scene.ask(cmd.SetUser(actor=OPERATOR, user=User("alice", quota=limits)))
    gang = scene.submit("gang", cpus=1, tasks=2, placement=Placement(nodes=("a", "b")))
    # Only where no task of the gang is: its end does not touch that node.
    other = scene.submit("other", cpus=3)
    waited = scene.state(other)

    scene.finish(gang, task=0)

    assert waited == "queued"
    assert scene.state(other) == "running"
    assert scene.state(gang) == "running"


# Where nothing passes the first, a neighbour behind it never comes.
@pytest.mark.parametrize("name", sorted(PRESETS.keys() - {"fcfs"}))
def test_a_job_that_waits_for_a_neighbour_starts_with_it_under_every_policy(name: str):
    stage = Stage([node("a", cpus=4)], PRESETS[name])
    beside = Placement(affinities=(Affinity("app", "web"),))
    friend = stage.submit(spec(cpus=1, time_limit_s=100, placement=beside))
    stage.run()
    stage.submit(spec(cpus=1, time_limit_s=100, labels={"app": "web"}))

    stage.run()

    assert friend in stage.started_s
