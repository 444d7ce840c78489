"""The cap of a group concerns its own jobs, and no others that wait."""

from rota.controller.commands import commands as cmd
from rota.core.facts.tenant import Group
from rota.testing.scene import ALICE, Scene


def test_a_cap_that_is_raised_starts_the_jobs_that_it_held_back():
    scene = Scene(cpus=4)
    for name in ("first", "second", "third"):
        scene.submit(name, group="g", group_cap=1)

    waiting = [scene.state(name) for name in ("first", "second", "third")]
    scene.ask(cmd.SetGroup(actor=ALICE, group=Group("g", "alice", 2)))

    assert waiting == ["running", "queued", "queued"]
    assert [scene.state(name) for name in ("first", "second", "third")] == [
        "running", "running", "queued",
    ]  # fmt: skip


def test_a_group_that_somebody_makes_or_changes_is_no_new_rule_for_all_others():
    """Else every such submit would cost a pass over all that waits."""
    scene = Scene(cpus=1)
    scene.submit("hog")
    scene.submit("other", cpus=1, time_limit_s=60)
    before, looked = scene.cluster.agenda.rules_version, scene.controller.scheduler.looks

    for cap in (1, 2, 1, 0):
        scene.submit("mine", group="g", group_cap=cap, hold=True)

    assert scene.cluster.agenda.rules_version == before
    assert scene.controller.scheduler.looks == looked
