"""A service of its own for each test."""

from collections.abc import Iterator

import pytest

from tests.inventory.service import Service


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()
