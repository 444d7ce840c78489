"""Servers and callers for the tests of the API."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running, running


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket, and open to every user."""
    with tempfile.TemporaryDirectory(prefix="rota-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="session")
def session_server() -> Iterator[Running]:
    """One server per test process; ``server`` gives each test a fresh state behind it."""
    with tempfile.TemporaryDirectory(prefix="rota-") as name:
        Path(name).chmod(0o755)
        with running(Path(name)) as started:
            yield started


@pytest.fixture
def server(session_server: Running) -> Running:
    session_server.renew()
    return session_server


@pytest.fixture
def caller(server: Running) -> Caller:
    """We ourselves, over the local socket: an admin."""
    return server.local()


@pytest.fixture
def agent(server: Running) -> Iterator[PretendedAgent]:
    pretended = PretendedAgent(server.socket_path)
    yield pretended
    pretended.close()


@pytest.fixture
def make_agent(server: Running) -> Iterator[Callable[..., PretendedAgent]]:
    made: list[PretendedAgent] = []

    def make(**settings: object) -> PretendedAgent:
        made.append(PretendedAgent(server.socket_path, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for pretended in made:
        pretended.close()
