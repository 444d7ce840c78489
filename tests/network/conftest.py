"""Servers of the API's tests, a recording of real traffic, and sites on networks of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.conftest import agent, caller, make_agent, server, session_server, socket_folder
from tests.api.running import Running
from tests.network.traffic import Recording, record

__all__ = ["agent", "caller", "make_agent", "server", "session_server", "socket_folder"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real processes and hundreds of cases: nothing of this belongs to the inner loop."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("slow")


@pytest.fixture(scope="session")
def recording(session_server: Running) -> Iterator[Recording]:
    """What a real agent and a real controller said to each other."""
    session_server.renew()
    with tempfile.TemporaryDirectory(prefix="rota-rec-") as name:
        yield record(session_server, Path(name))
