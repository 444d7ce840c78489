"""A client made from the OpenAPI document and the Python client go through the same journeys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.journeys.contract import JOURNEYS
from tests.journeys.two_clients import Driver, Generated, Python, document_of, generate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.journeys.box import Box


@pytest.fixture(scope="module")
def drivers(_shared_box: Box, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict]:
    """Both clients of the shared box."""
    socket = _shared_box.state / "rota.sock"
    document = document_of(socket)
    package = generate(document, tmp_path_factory.mktemp("generated"))
    made = {"generated": Generated(package, socket), "python": Python(document, socket)}
    yield made
    for driver in made.values():
        driver.close()


@pytest.mark.parametrize("client", ["generated", "python"])
@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda told: told.__name__)
@pytest.mark.usefixtures("home")
def test_a_journey_ends_alike_whichever_client_makes_it(
    drivers: dict[str, Driver], client: str, journey: Callable[[Driver], None]
) -> None:
    drive = drivers[client]

    journey(drive)

    assert drive.jobs(state="active") == [], "a journey leaves nothing behind"


def test_there_are_journeys_enough() -> None:
    assert len(JOURNEYS) >= 30
