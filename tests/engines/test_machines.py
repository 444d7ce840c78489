"""How often an engine is asked for its machines."""

from __future__ import annotations

import pytest

from rota.backends.machines import next_look_s, out_of_service
from rota.core.facts.node import Machine, NodeSpec

ALONE = NodeSpec(name="n1", cpu_milli=4000, memory_mib=8000)
#: Others use half of it.
SHARED = NodeSpec(name="n2", cpu_milli=2000, memory_mib=8000, largest=Machine(4000, 8000))


@pytest.mark.parametrize(
    ("specs", "took_s", "expected_s"),
    [
        ([ALONE], 0.1, 30.0),
        ([ALONE, out_of_service(ALONE, "drained")], 0.1, 5.0),
        ([ALONE, SHARED], 0.1, 1.0),
        ([ALONE, SHARED], 2.0, 10.0),
    ],
)
def test_machines_that_others_use_too_are_looked_at_as_often_as_jobs(
    specs: list[NodeSpec], took_s: float, expected_s: float
):
    assert next_look_s(specs, 0.5, took_s) == expected_s
