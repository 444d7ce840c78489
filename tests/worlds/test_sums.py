"""The judge adds up for itself: what it takes an account to keep from others and to have used."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.facts.placing import Placement
from rota.testing.scene import ADMIN, BOB, Scene
from rota.worlds.sums import LoggedSums

ALONE = Placement(exclusive=True)
ALICE = ("alice", "")


def sums_of(scene: Scene) -> LoggedSums:
    """Read from the log as a world reads it."""
    sums = LoggedSums()
    for record in scene.store.all_events():
        sums.read(record)
        if type(record.event).__name__ == "AttemptPlaced":
            sums.placed(record.event, scene.job(record.event.job).spec)
    return sums


def test_a_node_of_its_own_counts_whole_and_once_for_all_tasks_of_a_job():
    scene = Scene(cpus=8, memory_mib=4096, gpus=2, nodes=2)
    scene.submit("gang", cpus=2, tasks=3, placement=ALONE)
    scene.submit("shared", cpus=2, mem=512, gpus=1, actor=BOB)

    kept = sums_of(scene).kept(scene.cluster.live.where)

    assert kept == (8000 + 2000, 4096 + 512, 2000 + 1000)


def test_who_is_charged_for_less_than_a_whole_node_is_noticed():
    scene = Scene(cpus=8)
    scene.submit("alone", cpus=1, placement=ALONE)
    scene.pass_time(10)
    scene.finish("alone")

    sums, memory_s = sums_of(scene), 16.0 * 10

    assert sums.wrong_charge(ALICE, [80.0, memory_s, 0.0]) == ""
    assert sums.wrong_charge(ALICE, [10.0, memory_s, 0.0]).startswith("10.000 s of CPUs")


@pytest.mark.parametrize(("charged_s", "right"), [(30 * 4 - 20 * 2, True), (30 * 4, False)])
def test_what_a_lender_lent_is_not_its_own_to_pay_for(charged_s, right):
    scene = Scene(cpus=4)
    rules = {"preempt.min_runtime_s": 0, "preempt.only_willing": False, "preempt.mode": "suspend"}
    scene.ask(cmd.SetPolicy(actor=ADMIN, preset="preemptive", rules=rules))
    scene.submit("low", cpus=4, priority=10)
    scene.submit("vip", cpus=2, priority=75, actor=BOB)
    scene.pass_time(20)
    scene.finish("vip")
    scene.pass_time(10)
    scene.finish("low")

    wrong = sums_of(scene).wrong_charge(ALICE, [charged_s, 0.0, 0.0])

    assert (wrong == "") is right
