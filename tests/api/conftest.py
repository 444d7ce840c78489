"""Servers and callers for the tests of the API."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.running import Caller, PretendedAgent, Running, running


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket, and open to every user."""
    with tempfile.TemporaryDirectory(prefix="rota-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def server(socket_folder: Path) -> Iterator[Running]:
    with running(socket_folder) as started:
        yield started


@pytest.fixture(scope="module")
def shared_caller() -> Iterator[Caller]:
    """A caller of a server that all tests of a module share: for tests that leave no trace."""
    with tempfile.TemporaryDirectory(prefix="rota-") as name, running(Path(name)) as started:
        yield started.local()


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
