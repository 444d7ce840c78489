"""Submitting: whole batches or nothing, safe repeats, who may ask for what."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes.compare import dump
from rota.core.changes.events import BlobStored, JobSubmitted
from rota.core.facts.errors import Forbidden, Rejected
from rota.core.facts.tenant import Access, Actor, Token
from rota.testing.scene import ALICE, BOB, OPERATOR, VIEWER, Scene

ADMIN = Actor("ada", Access.ADMIN)


def batch(scene: Scene, *wishes: dict, key: str = "", actor: Actor = ALICE) -> cmd.Submitted:
    submissions = tuple(scene.submission(user=actor.user, **wish) for wish in wishes)
    return scene.ask(cmd.Submit(actor=actor, submissions=submissions, key=key))


def test_a_batch_gets_consecutive_ids_in_its_order():
    scene = Scene(cpus=1)

    answer = batch(scene, {"name": "a"}, {"name": "b", "array": "0-9"}, {"name": "c"})

    assert answer.ids == (1, 2, 13)
    assert len(set(answer.uids)) == 3
    assert scene.job(13).spec.name == "c"


def test_one_bad_submission_refuses_the_whole_batch_and_changes_nothing():
    scene = Scene(cpus=4)
    before = dump(scene.cluster)
    events = len(scene.log)

    with pytest.raises(Rejected) as refusal:
        batch(scene, {}, {"group": "new"}, {"cpus": 99}, {})

    assert refusal.value.field == "jobs[2].resources.cpus"
    assert refusal.value.detail.startswith("jobs[2].resources.cpus: 99 asked for")
    assert dump(scene.cluster) == before
    assert len(scene.log) == events


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"queue": "nowhere"}, "jobs[1].queue"),
        ({"after": {"77": "after-ok"}}, "jobs[1].depends_on"),
        ({"priority": 99}, "jobs[1].priority"),
    ],
)
def test_a_refused_batch_names_the_position_and_the_field(bad, field):
    scene = Scene()

    with pytest.raises(Rejected) as refusal:
        batch(scene, {}, bad)

    assert refusal.value.field == field


def test_a_single_submission_names_the_field_without_a_position():
    with pytest.raises(Rejected) as refusal:
        batch(Scene(), {"queue": "nowhere"})

    assert refusal.value.field == "queue"


def test_a_repeated_key_gives_the_first_answer_and_makes_nothing_new():
    scene = Scene(cpus=1)
    first = batch(scene, {"array": "0-4"}, {}, key="k1")
    events = len(scene.log)

    again = batch(scene, {"array": "0-4"}, {}, key="k1")

    assert again == cmd.Submitted(first.ids, repeated=True)
    assert len(scene.log) == events


def test_a_key_is_remembered_over_a_restart_and_after_the_job_has_ended():
    scene = Scene()
    job = scene.submit("job", key="k1")
    scene.finish("job")

    scene.restart()

    assert scene.submit("job", key="k1") == job


def test_a_key_belongs_to_its_user():
    scene = Scene()

    mine = scene.submit("mine", key="k1")
    theirs = scene.submit("theirs", key="k1", actor=BOB)

    assert mine != theirs


def test_another_key_makes_another_job():
    scene = Scene()

    assert scene.submit("a", key="k1") != scene.submit("b", key="k2")


def test_a_refused_submit_does_not_use_up_its_key():
    scene = Scene(cpus=4)
    with pytest.raises(Rejected):
        scene.submit("bad", cpus=9, key="k1")

    scene.submit("good", cpus=1, key="k1")

    assert scene.is_running("good")


def test_ids_are_never_used_again_after_a_restart():
    scene = Scene()
    last = scene.submit("job", array="0-9")
    scene.cancel("job")

    scene.restart()

    assert scene.submit("next") == last + 11


def test_a_viewer_may_not_submit():
    with pytest.raises(Forbidden, match="viewer"):
        Scene().submit("job", actor=VIEWER)


@pytest.mark.parametrize(
    ("actor", "priority", "allowed"),
    [(ALICE, 75, True), (ALICE, 76, False), (OPERATOR, 100, True), (ADMIN, 100, True)],
)
def test_the_top_priorities_are_for_operators(actor, priority, allowed):
    scene = Scene()

    if allowed:
        scene.submit("job", actor=actor, priority=priority)
        assert scene.is_running("job")
    else:
        with pytest.raises(Forbidden, match="0 to 75"):
            scene.submit("job", actor=actor, priority=priority)


def test_a_priority_cannot_be_raised_by_an_update_either():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("job")

    with pytest.raises(Forbidden, match="0 to 75"):
        scene.update("job", priority=100)
    scene.update("job", priority=100, actor=OPERATOR)
    scene.update("job", name="renamed")

    assert scene.job("job").spec.priority == 100


def test_nobody_updates_the_job_of_another():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("array", array="0-3")

    for job in ("runs", "array"):
        with pytest.raises(Forbidden, match="belongs to alice"):
            scene.update(job, priority=1, actor=BOB)


def test_what_a_job_needs_to_start_is_stored_before_the_job():
    scene = Scene()

    scene.submit("job", script="d1", blobs={"d1": b"#!/bin/sh\nexit 0\n"})

    kinds = [type(event) for event in scene.log if isinstance(event, BlobStored | JobSubmitted)]
    assert kinds == [BlobStored, JobSubmitted]
    assert scene.store.blob("d1") == b"#!/bin/sh\nexit 0\n"
    assert scene.launch("job").script == b"#!/bin/sh\nexit 0\n"


def token(user: str, access: Access) -> Token:
    return Token(id=f"t-{user}", digest="d", user=user, access=access, created_s=1.0)


def test_a_user_makes_tokens_for_himself_and_not_with_more_rights_than_he_has():
    scene = Scene()
    scene.ask(cmd.MakeToken(actor=ALICE, token=token("alice", Access.VIEWER)))

    with pytest.raises(Forbidden, match="admin"):
        scene.ask(cmd.MakeToken(actor=ALICE, token=token("alice", Access.OPERATOR)))
    with pytest.raises(Forbidden, match="admin"):
        scene.ask(cmd.MakeToken(actor=ALICE, token=token("bob", Access.USER)))
    scene.ask(cmd.MakeToken(actor=ADMIN, token=token("bob", Access.USER)))

    assert list(scene.cluster.accounts.tokens) == ["t-alice", "t-bob"]


def test_tokens_of_others_are_invisible_to_users_and_revoked_by_admins():
    scene = Scene()
    scene.ask(cmd.MakeToken(actor=ALICE, token=token("alice", Access.USER)))

    with pytest.raises(Rejected, match="there is no token"):
        scene.ask(cmd.RevokeToken(actor=BOB, token="t-alice"))
    scene.ask(cmd.RevokeToken(actor=ADMIN, token="t-alice"))
    scene.restart()

    assert scene.cluster.accounts.tokens == {}
