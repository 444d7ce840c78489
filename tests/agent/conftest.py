"""One keeper for all tests that leave it as it was; tests that kill it take their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent import support


@pytest.fixture(scope="module")
def shared_keeper() -> Iterator[support.Keeper]:
    with support.keeper() as keeper:
        yield keeper


@pytest.fixture
def keeper(shared_keeper: support.Keeper) -> support.Keeper:
    return shared_keeper.connect()


@pytest.fixture
def own_keeper() -> Iterator[support.Keeper]:
    with support.keeper() as keeper:
        yield keeper


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter."""
    with support.folder() as path:
        yield path
