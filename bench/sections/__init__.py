"""The benchmarks by name, in the order in which they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.sections import (
    arrays,
    core,
    decide,
    depth,
    durable,
    engines,
    idle,
    latency,
    long,
    noop,
    page,
    pilots,
    python_api,
    restart,
    sim,
    slurm_commands,
    swarm,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.context import Context
    from bench.report import Row

SECTIONS: dict[str, Callable[[Context], list[Row]]] = {
    section.SECTION: section.measure
    for section in (
        *(core, noop, latency, durable, depth, idle, restart, arrays, long, sim, decide),
        *(slurm_commands, engines, pilots, python_api, swarm, page),
    )
}
