"""Lines of the audit that were changed, left out or put in are found."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from rota.audit_chain import Chain, last_of, look_through
from rota.controller.chores.audit_shipping import open_shipping
from rota.core.facts.errors import Rejected
from rota.core.facts.site.audit import Audited
from rota.settings.audit import AuditSettings

if TYPE_CHECKING:
    from pathlib import Path

KEY = b"of the admin of another machine"


def written(key: bytes = b"", count: int = 4) -> list[str]:
    chain = Chain(key)
    return [chain.line(f'{{"user":"ada","action":"{number}"}}') for number in range(count)]


def ship(settings: AuditSettings, *actions: str) -> None:
    """One run of the controller."""
    shipping = open_shipping(settings)
    assert shipping is not None
    for action in actions:
        shipping(Audited(1.0, "ada", "local", "", action))
    shipping.close()


@pytest.mark.parametrize("key", [b"", KEY])
def test_what_was_not_touched_is_whole(key: bytes):
    lines = written(key)

    found = look_through(lines, key)

    assert (found.lines, found.begins, found.trouble) == (4, (1,), ())
    assert found.last in lines[-1]


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda lines: [*lines[:1], lines[1].replace("ada", "bob"), *lines[2:]], "2: was changed"),
        (lambda lines: [*lines[:1], *lines[2:]], "2: what was written before it is missing"),
        (lambda lines: [lines[0], lines[2], lines[1], lines[3]], "2: what was written before it"),
        (lambda lines: [*lines[:2], '{"user":"bob"}', *lines[2:]], "3: is no record"),
        (lambda lines: [*lines[:2], *written(b"another one's", 1)], "3: was changed, or written"),
    ],
)
def test_whatever_is_done_to_a_line_is_found_where_it_was_done(harm, said: str):
    found = look_through(harm(written(KEY)), KEY)

    assert found.trouble[0].startswith(f"line {said}")


def test_without_the_key_nobody_makes_a_chain_that_holds():
    forged = written(b"")

    assert len(look_through(forged, KEY).trouble) == len(forged)


def test_a_chain_goes_on_over_restarts_torn_lines_and_files_that_are_moved_away(tmp_path: Path):
    lines, key = tmp_path / "audit.jsonl", tmp_path / "key"
    key.write_bytes(KEY + b"\n")
    settings = AuditSettings(file=str(lines), key_file=str(key))

    ship(settings, "submit", "cancel")
    ship(settings, "logs")
    whole = lines.read_text()
    with lines.open("a") as file:
        file.write('{"torn":')
    ship(settings, "attach")

    assert look_through(whole.splitlines(), KEY).trouble == ()
    found = look_through(lines.read_text().splitlines(), KEY)
    assert found.lines == 5
    assert found.trouble == ("line 4: is no record with a chain",)
    assert last_of(str(lines)) == found.last
    assert stat.S_IMODE(lines.stat().st_mode) == 0o600


@pytest.mark.parametrize("body", [b"", b"short"])
def test_a_key_that_is_none_is_refused_in_one_line(tmp_path: Path, body: bytes):
    key = tmp_path / "key"
    if body:
        key.write_bytes(body)

    with pytest.raises(Rejected, match=r"audit\.key_file"):
        open_shipping(AuditSettings(file=str(tmp_path / "lines"), key_file=str(key)))


def test_a_file_without_its_beginning_says_what_it_goes_on_from():
    chain = Chain()
    lines = [chain.line(f'{{"n":{n}}}') for n in range(3)]

    found = look_through(lines[1:])

    assert (found.begins, found.trouble) == ((), ())
    assert found.before == look_through(lines[:1]).last


def test_a_chain_goes_on_behind_a_record_with_odd_ends_of_lines(tmp_path):
    path, chain = tmp_path / "audit.jsonl", Chain()
    path.write_text(chain.line('{"object":"x\u2028y\x85z"}') + "\n", encoding="utf-8")

    assert last_of(str(path)) == chain.last


def test_what_only_grows_or_has_no_end_can_be_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    assert last_of(str(tmp_path / "pipe")) == ""
    assert last_of("/dev/stdout") == ""
