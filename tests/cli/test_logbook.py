"""What the processes of Rota write to their logs."""

import logging

import pytest

from rota import config
from rota.cli.service.logbook import open_logbook
from rota.core.facts.errors import Rejected


@pytest.fixture
def fresh_logging(monkeypatch):
    """The root logger without what others attached, put back afterwards."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    rota = logging.getLogger("rota")
    before = rota.level
    yield logging.getLogger("rota.test")
    for target in logging.getLogger().handlers:
        target.close()
    rota.setLevel(before)


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug", ["DEBUG", "INFO", "WARNING", "ERROR"]),
        ("info", ["INFO", "WARNING", "ERROR"]),
        ("warning", ["WARNING", "ERROR"]),
        ("error", ["ERROR"]),
    ],
)
def test_a_log_holds_what_is_at_least_as_important_as_its_level(
    tmp_path, fresh_logging, level, written
):
    open_logbook(tmp_path / "controller.log", level)

    for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        fresh_logging.log(number, "something happened")

    lines = (tmp_path / "controller.log").read_text().splitlines()
    assert [line.split()[2] for line in lines] == written


def test_in_the_foreground_only_what_matters_is_shown_as_well(tmp_path, fresh_logging, capsys):
    open_logbook(tmp_path / "agent.log", "info", detached=False)

    fresh_logging.info("a detail")
    fresh_logging.warning("mind this")

    assert "mind this" in capsys.readouterr().err
    assert "a detail" in (tmp_path / "agent.log").read_text()


def test_the_level_of_the_logs_is_a_setting():
    quiet = config.parse('[server]\nlog_level = "error"', "rota.toml", {})
    loud = config.parse("", "rota.toml", {"ROTA_SERVER_LOG_LEVEL": "debug"})

    assert (quiet.server.log_level, loud.server.log_level) == ("error", "debug")
    with pytest.raises(Rejected, match="'loud' is not known"):
        config.parse('[server]\nlog_level = "loud"', "rota.toml", {})
