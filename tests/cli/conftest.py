"""The command line, run in this process against a scripted server."""

import io
from typing import NamedTuple

import pytest

from rota.cli import main
from tests.cli.fake_server import FakeRota


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A scripted server that the environment points to."""
    server = FakeRota(tmp_path / "rota.sock")
    monkeypatch.setenv("ROTA_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("ROTA_URL", raising=False)
    monkeypatch.delenv("ROTA_TOKEN", raising=False)
    yield server
    server.close()
    assert server.untrue == []


@pytest.fixture
def rota(capfd, monkeypatch):
    """``rota("queue", "-a")`` gives exit code, stdout and stderr."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        code = main._run(list(arguments))
        out, err = capfd.readouterr()
        return Ended(code, out, err)

    return run
