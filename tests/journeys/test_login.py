"""``rota login``: several Rotas by name, and which one a command speaks to."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.journeys.box import Box


@pytest.fixture
def laptop(home: Box, tmp_path: Path) -> dict[str, str]:
    """The environment of a person without a Rota of their own, and a token for the box."""
    (tmp_path / "token").write_text(home.rota("token", "create", "-q", "--user", "ann").stdout)
    return {"ROTA_STATE_DIR": "", "HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "ROTA_URL": ""}


def log_in(home: Box, laptop: dict[str, str], tmp_path: Path, name: str) -> str:
    url, token = home.status()["controller"]["url"], str(tmp_path / "token")
    words = ("login", url, "--name", name, "--token-file", token)
    return home.rota(*words, env=laptop).stdout


def test_commands_go_where_one_is_logged_in(
    home: Box, laptop: dict[str, str], tmp_path: Path
) -> None:
    said = log_in(home, laptop, tmp_path, "lab")

    status = json.loads(home.rota("status", "--json", env=laptop).stdout)

    assert (status["user"], status["access"]) == ("ann", "user")
    assert "lab" in said
    file = tmp_path / ".config/rota/sites.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listed = json.loads(home.rota("login", "--json", env=laptop).stdout)
    assert [(one["site"], one["current"]) for one in listed] == [("here", False), ("lab", True)]


def test_one_command_can_speak_to_another_one(
    home: Box, laptop: dict[str, str], tmp_path: Path
) -> None:
    log_in(home, laptop, tmp_path, "lab")
    home.rota("login", "--use", "here", env=laptop)

    by_option = home.rota("--site", "lab", "status", env=laptop).stdout
    by_variable = home.rota("status", env={**laptop, "ROTA_SITE": "lab"}).stdout
    nowhere = home.rota("--site", "lba", "status", env=laptop, check=False)

    url = home.status()["controller"]["url"]
    assert url in by_option
    assert url in by_variable
    assert "there is no login 'lba'; known: lab, here" in nowhere.stderr
    assert nowhere.returncode == 2


def test_logout_forgets_the_token(home: Box, laptop: dict[str, str], tmp_path: Path) -> None:
    log_in(home, laptop, tmp_path, "lab")

    said = home.rota("logout", env=laptop).stdout

    secret = (tmp_path / "token").read_text().strip()
    assert said == "forgot lab; commands speak to here\n"
    assert secret not in (tmp_path / ".config/rota/sites.json").read_text()


def test_a_token_that_is_not_valid_is_not_kept(
    home: Box, laptop: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("rota_00000000_nonsense")
    url = home.status()["controller"]["url"]

    words = ("login", url, "--token-file", str(tmp_path / "token"))
    refused = home.refusal(*words, env=laptop)

    assert "the token is not valid" in refused
    assert not (tmp_path / ".config/rota/sites.json").exists()


def test_a_folder_that_is_named_goes_before_a_login(
    home: Box, laptop: dict[str, str], tmp_path: Path
) -> None:
    log_in(home, laptop, tmp_path, "lab")

    here = {**laptop, "ROTA_STATE_DIR": str(home.state)}
    status = json.loads(home.rota("status", "--json", env=here).stdout)

    assert status["access"] == "admin"


def test_a_token_in_the_environment_that_is_not_taken_is_named(home: Box) -> None:
    line = home.refusal("queue", env={"ROTA_TOKEN": "rota_00000000_wrong"})

    assert line.endswith(
        "it is the one in ROTA_TOKEN: set another, or unset it on the server's machine"
    )
