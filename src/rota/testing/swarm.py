"""Many agents in one process, for load on a real controller: all of an agent but its processes.

    (cat token; cat) | python -m rota.testing.swarm --url https://127.0.0.1:7340 --agents 500

It prints ``ready`` when all are connected, and when its input ends what it did, as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from typing import TYPE_CHECKING

import uvloop

from rota.agent.simulated import SimulatedAgent
from rota.core.facts.node import Device, NodeSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The most that dial at a time: a crowd at the door would run into the time-out of the last.
DIALLING_MAX = 25


async def swarm(url: str, token: str, specs: Sequence[NodeSpec]) -> Counter[str]:
    """Connect an agent for each of these nodes and keep them until our input ends."""
    tally: Counter[str] = Counter()
    door = asyncio.Semaphore(DIALLING_MAX)
    agents = [SimulatedAgent(spec, url, token, tally) for spec in specs]
    tasks = [asyncio.create_task(agent.hold(door)) for agent in agents]
    for agent in agents:
        await agent.ready.wait()
    _say("ready")
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return tally


def specs_of(count: int, cpus: int, first: int = 0, gpus: int = 0) -> list[NodeSpec]:
    """Equal nodes, numbered from ``first``."""
    names = [f"sim{number:04}" for number in range(first, first + count)]
    return [
        NodeSpec(
            name=name,
            cpu_milli=cpus * 1000,
            memory_mib=cpus * 4096,
            devices=tuple(
                Device(index=i, uuid=f"{name}-{i}", model="H100", memory_mib=81920, fake=True)
                for i in range(gpus)
            ),
        )
        for name in names
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="swarm", description=__doc__)
    parser.add_argument("--url", required=True, help="unix:///path/rota.sock or http(s)://host")
    parser.add_argument("--agents", type=int, default=500)
    parser.add_argument("--cpus", type=int, default=4, help="of each node")
    parser.add_argument("--gpus", type=int, default=0, help="of each node")
    parser.add_argument("--first", type=int, default=0, help="the number of the first node")
    options = parser.parse_args()
    # On the command line everybody could read it.
    token = sys.stdin.readline().strip()
    specs = specs_of(options.agents, options.cpus, options.first, options.gpus)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        tally = runner.run(swarm(options.url, token, specs))
    _say(json.dumps(tally))
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
