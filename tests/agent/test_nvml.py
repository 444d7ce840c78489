"""What is read from NVIDIA's library: cards, MIG instances, links, errors in memory, health.

A stand-in for the library answers as the real one does, with the same names and tuples, because
the machines that run these tests have no cards.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rota.agent.machine.gpus import discover_devices


class NVMLError(Exception):
    """As the library raises it for what a card does not know."""


class Card:
    """One card, or an instance of one in MIG mode."""

    def __init__(self, uuid: str, **facts: Any) -> None:
        self.uuid = uuid
        self.name = facts.get("name", "NVIDIA A100-SXM4-40GB")
        self.gib = facts.get("gib", 40)
        self.ecc = facts.get("ecc")
        self.pending = facts.get("pending", 0)
        self.rows = facts.get("rows", (0, 0, 0, 0))
        self.parts: list[Card] = facts.get("parts", [])
        self.peers: tuple[str, ...] = facts.get("peers", ())


def library(cards: list[Card]) -> ModuleType:
    def errors(card: Card, kind: int, counter: int) -> int:
        if card.ecc is None or (kind, counter) != (1, 0):
            raise NVMLError
        return int(card.ecc)

    def known(fact: Any) -> Any:
        if fact is None:
            raise NVMLError
        return fact

    module = ModuleType("pynvml")
    facts: dict[str, Any] = {
        "NVMLError": NVMLError,
        "NVML_P2P_CAPS_INDEX_NVLINK": 2,
        "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": 1,
        "NVML_VOLATILE_ECC": 0,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: len(cards),
        "nvmlDeviceGetHandleByIndex": lambda index: cards[index],
        "nvmlDeviceGetMigMode": lambda card: (int(bool(card.parts)), 0),
        "nvmlDeviceGetMaxMigDeviceCount": lambda card: len(card.parts),
        "nvmlDeviceGetMigDeviceHandleByIndex": lambda card, at: card.parts[at],
        "nvmlDeviceGetMemoryInfo": lambda card: SimpleNamespace(total=card.gib << 30),
        "nvmlDeviceGetUUID": lambda card: card.uuid,
        "nvmlDeviceGetName": lambda card: card.name,
        "nvmlDeviceGetNumaNodeId": lambda card: 0,
        "nvmlDeviceGetP2PStatus": lambda card, peer, _: 0 if peer.uuid in card.peers else 5,
        "nvmlDeviceGetTotalEccErrors": errors,
        "nvmlDeviceGetRetiredPagesPendingStatus": lambda card: known(card.pending),
        "nvmlDeviceGetRemappedRows": lambda card: known(card.rows),
    }
    for name, value in facts.items():
        setattr(module, name, value)
    return module


def devices_of(monkeypatch: pytest.MonkeyPatch, root: Path, *cards: Card) -> tuple[Any, ...]:
    monkeypatch.setitem(sys.modules, "pynvml", library(list(cards)))
    return discover_devices("", ((0, 1),), root)


def test_errors_in_memory_are_counted_and_a_card_that_cannot_mend_itself_is_broken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = devices_of(
        monkeypatch,
        tmp_path,
        Card("GPU-fine", ecc=0),
        Card("GPU-mended", ecc=3, rows=(0, 3, 0, 0)),
        Card("GPU-row", ecc=9, rows=(0, 8, 0, 1)),
        Card("GPU-page", ecc=1, pending=1, rows=None),
        Card("GPU-plain", ecc=None, pending=None, rows=None),
    )

    assert [(d.ecc_errors, d.healthy, d.usable) for d in found] == [
        (0, True, True),
        (3, True, True),
        (9, False, False),
        (1, False, False),
        (0, True, True),
    ]


def test_a_card_in_mig_mode_is_its_instances_and_links_join_cards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    parts = [Card(f"MIG-{n}", name="NVIDIA A100-SXM4-40GB MIG 1g.5gb", gib=5) for n in (0, 1)]
    found = devices_of(
        monkeypatch,
        tmp_path,
        Card("GPU-0", peers=("GPU-1",)),
        Card("GPU-1", peers=("GPU-0",)),
        Card("GPU-2", parts=parts, ecc=2),
    )

    assert [d.uuid for d in found] == ["GPU-0", "GPU-1", "MIG-0", "MIG-1"]
    assert [d.links for d in found] == [(1,), (0,), (), ()]
    assert [d.memory_mib for d in found] == [40960, 40960, 5120, 5120]
    assert [d.ecc_errors for d in found] == [0, 0, 2, 2], "errors are those of the whole card"


def test_without_the_library_there_are_no_cards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)

    assert discover_devices("", ((0, 1),), tmp_path) == ()
