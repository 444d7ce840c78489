"""A node that goes again: what it has, when it goes, and what it says before."""

from pathlib import Path

import pytest

from rota.agent.agent_config import AgentConfig
from rota.agent.leaving import as_guest
from rota.core.facts.node import Device, NodeSpec

DEVICES = tuple(Device(at, f"GPU-{at}") for at in range(4))
SPEC = NodeSpec("n", 1000, 1000, devices=DEVICES)
GUEST = AgentConfig(Path("/nowhere"), "http://x", ends_s=99.0, unlimited=True)


@pytest.mark.parametrize(
    ("visible", "kept"), [("", 4), ("1,3", 2), ("GPU-0", 1), (" 2 , GPU-3 ", 2)]
)
def test_a_guest_offers_the_gpus_of_its_allocation_and_no_others(visible: str, kept: int):
    found = as_guest(SPEC, GUEST, visible)

    assert len(found.devices) == kept
    assert (found.ends_s, found.unlimited) == (99.0, True)


def test_a_node_that_stays_offers_all_it_has():
    assert as_guest(SPEC, AgentConfig(Path("/nowhere"), "http://x"), "1") == SPEC
