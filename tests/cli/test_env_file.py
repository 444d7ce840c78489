"""``--env-file``: settings in a file of variables, where one is named."""

from __future__ import annotations

import pytest

from rota import config
from rota.core.facts.errors import Rejected
from rota.env_file import parse_env, read_env

TEXT = """
# a comment
ROTA_SERVER_LISTEN=127.0.0.1:9999
export SCHEDULING_POLICY = fifo   # behind a value
ROTA_AGENT_NAME='box # one'
EMPTY=
"""


def test_variables_of_a_file_count_as_settings_unless_the_environment_says_otherwise(tmp_path):
    path = tmp_path / ".env"
    path.write_text(TEXT)
    environment = {"ROTA_SERVER_LISTEN": "127.0.0.1:1", "ROTA_STATE_DIR": str(tmp_path)}

    read_env(str(path), environment)
    settings = config.load(environment)

    assert settings.server.listen == "127.0.0.1:1"
    assert settings.scheduling.policy == "fifo"
    assert settings.agent.name == "box # one"
    assert environment["EMPTY"] == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A=1\nnonsense\n", r"\.env: line 2: 'nonsense' is not valid; NAME=VALUE"),
        ("1A=2", "line 1: '1A=2' is not valid"),
        ("A='x", "line 1: the quote of A is not closed"),
    ],
)
def test_a_line_that_is_no_variable_is_refused_by_its_number(text, words):
    with pytest.raises(Rejected, match=words):
        parse_env(text, ".env")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(Rejected, match=r"--env-file: .*none: No such file"):
        read_env(str(tmp_path / "none"), {})
