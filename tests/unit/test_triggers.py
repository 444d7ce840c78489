"""Having everything looked at again: what it costs is bounded, whoever asks."""

from __future__ import annotations

from rota.controller.commands import commands as cmd
from rota.controller.commands.site import TRIGGER_S
from rota.testing.scene import ALICE, BOB, OPERATOR, Scene


def test_users_share_a_look_at_everything_and_operators_get_one_each_time():
    scene = Scene()
    agenda = scene.cluster.agenda
    before = agenda.rules_version

    for actor in (ALICE, BOB) * 50:
        scene.ask(cmd.Trigger(actor=actor))
    shared = agenda.rules_version
    for _ in range(3):
        scene.ask(cmd.Trigger(actor=OPERATOR))
    operated = agenda.rules_version
    scene.pass_time(TRIGGER_S + 1)
    scene.ask(cmd.Trigger(actor=BOB))

    assert shared == before + 1
    assert operated == shared + 3
    assert agenda.rules_version == operated + 1
