"""What an agent shows to the controller, whatever was cut short before."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from rota.node_keys import PREFIX, digest_of
from rota.session.keyring import BadKeyFile, Keyring

TOKEN = "rota_ab12_secret.FINGER"


def shown(ring: Keyring) -> list[str]:
    return ring.to_show()


def joined(folder: Path, token: str = TOKEN) -> str:
    """The key of a node that has joined."""
    ring = Keyring(folder, token)
    ring._says_hello(token)
    ring.welcomed()
    return Keyring(folder, "").to_show()[0]


def test_before_its_first_hello_an_agent_shows_its_token_only(tmp_path: Path):
    assert shown(Keyring(tmp_path, TOKEN)) == [TOKEN]
    assert shown(Keyring(tmp_path, "")) == []


def test_a_key_that_the_controller_may_know_is_shown_first_and_then_the_token(tmp_path: Path):
    ring = Keyring(tmp_path, TOKEN)
    digest = ring.digest
    ring._says_hello(TOKEN)

    key, token = shown(Keyring(tmp_path, TOKEN))

    assert key.startswith(PREFIX)
    assert key.endswith(".FINGER")
    assert digest_of(key.partition(".")[0]) == digest
    assert token == TOKEN


def test_the_token_that_a_node_joined_with_is_not_shown_again_and_a_new_one_is(tmp_path: Path):
    key = joined(tmp_path)

    assert shown(Keyring(tmp_path, TOKEN)) == [key]
    assert shown(Keyring(tmp_path, "rota_new_one.FINGER")) == [key, "rota_new_one.FINGER"]


def test_a_renewal_that_was_cut_short_leaves_the_key_before_it(tmp_path: Path):
    key = joined(tmp_path)
    Keyring(tmp_path, "").renew()
    again = Keyring(tmp_path, "")

    tried = shown(again)
    again._says_hello(key)
    again.welcomed()

    assert tried[1:] == [key]
    assert tried[0] != key
    assert shown(Keyring(tmp_path, "")) == [key]


def test_a_new_key_that_was_taken_stays_alone(tmp_path: Path):
    joined(tmp_path)
    ring = Keyring(tmp_path, "")
    digest = ring.renew()
    ring._says_hello(shown(ring)[0])
    ring.welcomed()

    (left,) = shown(Keyring(tmp_path, ""))

    assert digest_of(left.partition(".")[0]) == digest


def test_the_file_is_the_agents_alone(tmp_path: Path):
    joined(tmp_path)

    assert stat.S_IMODE((tmp_path / "node.key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["node.key"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    (tmp_path / "node.key").write_text("{")

    with pytest.raises(BadKeyFile, match=r"node\.key cannot be read .* remove the file"):
        Keyring(tmp_path, TOKEN)
