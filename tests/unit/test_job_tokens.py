"""Tokens of jobs: made from a key, good while the attempt lives, impossible to forge."""

from pathlib import Path

from rota.controller.agents.job_tokens import KEY_FILE, JobTokens, read_key
from rota.core.facts.tenant import Access, Actor
from rota.rpc.messages import Desired, Launch, Wanted
from rota.testing.scene import Scene


def test_a_token_is_good_for_the_job_of_its_attempt_while_that_lives():
    scene = Scene()
    scene.submit("train")
    (uid,) = scene.cluster.live.where
    job = scene.cluster.live.where[uid][0]
    tokens = JobTokens(b"k" * 32)
    token = tokens.make(uid)

    alive = tokens.actor_of(token, scene.cluster)
    scene.finish("train")

    assert alive == Actor("alice", Access.USER, f"job {job}", job)
    assert tokens.actor_of(token, scene.cluster) is None


def test_a_token_that_was_changed_or_made_with_another_key_is_nobodys():
    scene = Scene()
    scene.submit("one")
    scene.submit("two")
    first, second = scene.cluster.live.where
    tokens = JobTokens(b"k" * 32)
    proof = tokens.make(first).rpartition("_")[2]

    for forged in (
        f"rotajob_{second.replace('.', '-')}_{proof}",
        JobTokens(b"x" * 32).make(first),
        tokens.make(first)[:-1],
        "rotajob__",
        "rotajob_",
    ):
        assert tokens.actor_of(forged, scene.cluster) is None


def test_the_key_is_made_once_for_the_eyes_of_its_owner_only(tmp_path: Path):
    first = read_key(tmp_path)

    assert len(first) == 32
    assert read_key(tmp_path) == first
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600

    (tmp_path / KEY_FILE).write_bytes(b"half")
    assert len(read_key(tmp_path)) == 32


def test_only_launches_are_given_tokens():
    tokens = JobTokens(b"k" * 32)
    launch = Launch("a.0.1", 1, "ann", ("true",), "/", {})
    plain = Wanted("b.0.1", started=True)

    sealed = tokens.sealed(Desired(1, 1, (Wanted("a.0.1", launch), plain)))
    quiet = Desired(1, 2, (plain,))

    assert isinstance(sealed, Desired)
    assert sealed.attempts[0].launch is not None
    assert sealed.attempts[0].launch.token == tokens.make("a.0.1")
    assert sealed.attempts[1] == plain
    assert tokens.sealed(quiet) is quiet
