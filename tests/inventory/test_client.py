"""The inventory's client against a real server: what it asks, and how it bears with faults."""

import pytest

from rota.inventory.breaker import Breaker
from rota.inventory.client import InventoryClient, InventoryRefused, InventorySilent
from tests.inventory.service import Service
from tests.support.ports import quiet_port


class Rests:
    """Keeps pauses instead of making them."""

    def __init__(self) -> None:
        self.pauses_s: list[float] = []

    def __call__(self, pause_s: float) -> None:
        self.pauses_s.append(pause_s)


def client_of(service: Service, rests: Rests | None = None, **options: object) -> InventoryClient:
    usual: dict[str, object] = {"timeout_s": 60.0, "chance": lambda: 1.0}
    return InventoryClient(service.url, "secret", sleep=rests or Rests(), **{**usual, **options})


def test_gpus_are_asked_for_with_filters_and_read_whatever_else_is_said(service: Service):
    service.gpus = [{"uuid": "GPU-1", "node": "a", "index": 0, "available": False, "colour": "red"}]

    found = client_of(service).gpus(available=True, kind="A100", limit=5)

    assert [(gpu.uuid, gpu.available) for gpu in found] == [("GPU-1", False)]
    assert service.asked == ["GET /api/v1/gpus?available=true&type=A100&limit=5"]
    assert service.tokens == ["Bearer secret"]


def test_reservations_are_made_and_released_and_an_unknown_one_is_released_already(
    service: Service,
):
    client = client_of(service)

    client.reserve(12, ["GPU-1", "GPU-2"])
    kept = dict(service.reserved)
    client.release(12)
    client.release(12)

    assert kept == {12: ["GPU-1", "GPU-2"]}
    assert service.reserved == {}
    assert client.topology() == {"nodes": []}


@pytest.mark.parametrize("fault", ["500", "503", "reset", "short"])
def test_two_faults_are_borne_with_growing_pauses(service: Service, fault: str):
    service.faults = [fault, fault]
    rests = Rests()

    found = client_of(service, rests, pause_s=0.5).gpus()

    assert found == []
    assert rests.pauses_s == [0.5, 1.0]
    assert len(service.asked) == 3


def test_pauses_are_spread_by_chance_and_as_long_as_the_service_asks(service: Service):
    service.faults = ["500", "429"]
    rests = Rests()

    client_of(service, rests, pause_s=1.0, chance=lambda: 0.0).gpus()

    assert rests.pauses_s == [0.5, 7.0]


def test_after_three_tries_the_last_problem_is_told(service: Service):
    service.faults = ["500"] * 3

    with pytest.raises(InventorySilent, match="answers 500"):
        client_of(service).gpus()

    assert len(service.asked) == 3


def test_a_service_that_hangs_is_given_up_in_its_time(service: Service):
    service.faults = ["hang"]

    with pytest.raises(InventorySilent, match=r"no answer within 0\.2 s"):
        client_of(service, timeout_s=0.2, tries=1).gpus()


def test_an_answer_that_makes_no_sense_is_no_answer(service: Service):
    service.faults = ["nonsense"]

    with pytest.raises(InventorySilent, match="makes no sense"):
        client_of(service).gpus()


def test_a_refusal_is_not_asked_again(service: Service):
    service.refuses_reservations = True

    with pytest.raises(InventoryRefused, match="answers 403"):
        client_of(service).reserve(1, ["GPU-1"])

    assert len(service.asked) == 1


def test_nobody_at_the_address_is_one_line():
    port = quiet_port()

    with pytest.raises(InventorySilent, match=f"127.0.0.1:{port}: connection refused"):
        InventoryClient(f"http://127.0.0.1:{port}", sleep=Rests()).gpus()


@pytest.mark.parametrize("url", ["inventory", "ftp://x", "http://", "http://x:notaport"])
def test_an_address_that_is_none_is_refused(url: str):
    with pytest.raises(ValueError, match="expected a URL"):
        InventoryClient(url)


def test_one_that_keeps_failing_is_left_alone_then_tried_once(service: Service):
    breaker = Breaker(failures=3, pause_s=0.0)
    patient = Breaker(failures=3, pause_s=60.0)
    service.faults = ["500"] * 3
    client = client_of(service, breaker=patient)

    with pytest.raises(InventorySilent):
        client.gpus()
    with pytest.raises(InventorySilent, match="not asked again for"):
        client.gpus()
    service.faults = ["500"] * 3
    quick = client_of(service, breaker=breaker)
    with pytest.raises(InventorySilent):
        quick.gpus()

    assert quick.gpus() == []
    assert len(service.asked) == 7


def test_a_breaker_opens_after_failures_in_a_row_and_lets_one_try_after_its_pause():
    breaker = Breaker(failures=2, pause_s=10.0)
    breaker.failed(0.0)
    breaker.succeeded()
    breaker.failed(1.0)
    assert breaker.wait_s(1.0) == 0.0

    breaker.failed(2.0)
    assert breaker.wait_s(5.0) == 7.0
    assert breaker.wait_s(12.0) == 0.0
    assert breaker.wait_s(12.0) > 0.0

    breaker.failed(12.5)
    assert breaker.wait_s(13.0) == 9.5
    assert breaker.wait_s(22.5) == 0.0
    breaker.succeeded()
    assert (breaker.wait_s(22.5), breaker.is_open) == (0.0, False)
