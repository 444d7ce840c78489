"""Secrets: what stays behind, what only a job sees, what the database holds."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.journeys.box import Box

SHOW = ("--", "sh", "-c", 'echo "[$HF_TOKEN] [$TOKENIZERS_PARALLELISM]"')


def key() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


def test_what_looks_like_a_secret_stays_behind_and_one_line_says_so(home: Box) -> None:
    env = {"HF_TOKEN": "hush", "TOKENIZERS_PARALLELISM": "false"}

    done = home.rota("submit", *SHOW, env=env)

    job = int(done.stdout)
    home.ended(job)
    assert home.output(job) == "[] [false]\n"
    (line,) = [line for line in done.stderr.splitlines() if "HF_TOKEN" in line]
    assert "looks like a secret" in line
    assert "hush" not in done.stderr


def test_a_secret_that_is_asked_for_by_its_name_goes_along_without_a_word(home: Box) -> None:
    done = home.rota("submit", "--env", "HF_TOKEN", *SHOW, env={"HF_TOKEN": "hush"})

    job = int(done.stdout)
    home.ended(job)
    assert home.output(job) == "[hush] []\n"
    assert "HF_TOKEN" not in done.stderr


def test_a_secret_is_seen_by_the_job_and_by_nobody_else(home: Box) -> None:
    home.rota("secret", "set", "HF_TOKEN", stdin="hu5h-hu5h\n")

    job = home.submit("--secret", "HF_TOKEN", "--output", "out.txt", *SHOW)

    home.ended(job)
    assert home.read("out.txt") == "[hu5h-hu5h] []\n"
    shown = [home.rota(*words).stdout for words in (("show", str(job)), ("secret", "list"))]
    shown += [str(home.api("GET", path)) for path in (f"/jobs/{job}", f"/jobs/{job}/request")]
    assert not [text for text in shown if "hu5h" in text]
    assert "HF_TOKEN" in shown[1]


def test_a_secret_that_does_not_exist_is_refused_in_one_line(home: Box) -> None:
    line = home.refusal("submit", "--secret", "NOT_THERE", "--", "true")

    assert "no secret NOT_THERE" in line
    assert "rota secret set NOT_THERE" in line


@pytest.mark.parametrize("name", ["1BAD", "WITH-DASH", "ROTA_URL"])
def test_a_name_that_no_secret_may_have_is_refused_in_one_line(home: Box, name: str) -> None:
    line = home.refusal("secret", "set", name, stdin="x")

    assert name in line
    assert "letters, digits and _" in line


def test_a_secret_is_not_removed_while_an_unfinished_job_asks_for_it(home: Box) -> None:
    home.rota("secret", "set", "KEPT", stdin="x")
    job = home.submit("--hold", "--secret", "KEPT", "--", "true")

    line = home.refusal("secret", "remove", "KEPT")

    assert f"such as {job}" in line
    home.rota("cancel", str(job))
    assert home.rota("secret", "remove", "KEPT").stdout == "removed KEPT\n"
    assert "KEPT" not in home.rota("secret", "list", "-q").stdout


def test_with_a_key_nothing_readable_of_them_is_in_the_database(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    pytest.importorskip("cryptography")
    box = new_box()
    keys = tmp_path / "keys"
    keys.write_text(key() + "\n")
    keys.chmod(0o600)
    box.env["ROTA_SERVER_SECRETS_KEY_FILE"] = str(keys)
    box.up()
    box.rota("secret", "set", "HF_TOKEN", stdin="first-hu5h")

    kept = box.submit("--secret", "HF_TOKEN", *SHOW, env={"PLAIN": "second-hu5h"})
    given = box.submit("--env", "HF_TOKEN=third-hu5h", *SHOW)
    asked = box.submit("--", "sh", "-c", "echo $PLAIN", env={"PLAIN": "second-hu5h"})

    for job in (kept, given, asked):
        box.ended(job)
    assert box.output(kept) == "[first-hu5h] []\n"
    assert box.output(given) == "[third-hu5h] []\n"
    assert box.output(asked) == "second-hu5h\n"
    files = [path for path in box.state.glob("rota.db*") if path.is_file()]
    assert files
    assert b"hu5h" not in b"".join(path.read_bytes() for path in files)
    again = int(box.rota("redo", str(given)).stdout.split()[-1])
    box.ended(again)
    assert box.output(again) == "[third-hu5h] []\n"


def test_a_database_that_was_sealed_is_not_opened_without_its_key(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    pytest.importorskip("cryptography")
    box = new_box()
    keys = tmp_path / "keys"
    keys.write_text(key())
    keys.chmod(0o600)
    box.env["ROTA_SERVER_SECRETS_KEY_FILE"] = str(keys)
    box.up()
    box.down()

    keys.write_text(key())
    refused = box.rota("up", "--detach", check=False)

    assert refused.returncode != 0
    assert "sealed with a key that is not there" in refused.stderr


def test_a_key_file_that_others_may_read_is_refused_in_one_line(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    box = new_box()
    keys = tmp_path / "keys"
    keys.write_text(key())
    keys.chmod(0o644)
    box.env["ROTA_SERVER_SECRETS_KEY_FILE"] = str(keys)

    refused = box.rota("up", "--detach", check=False)

    assert refused.returncode != 0
    assert "server.secrets_key_file" in refused.stderr
    assert "chmod 600" in refused.stderr
