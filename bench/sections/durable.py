"""Durable submits against the disk's own sync rate.

The yardstick appends 4 KiB and calls fdatasync, in a loop, on the file system of the state folder.
Rota's jobs wait in a queue behind one that holds a CPU, so nothing else is measured.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING

from bench import machine, scene
from bench.report import Row, against, ratio_at_least, value_at_least
from bench.wire import Refused, parse_head, request

if TYPE_CHECKING:
    from pathlib import Path

    from bench.context import Context
    from bench.rota import Rota

SECTION = "durable"
SYNC_RATIO_MIN = 0.8
BATCH = 1_000
BATCH_RATE_MIN = 5_000
IN_FLIGHT = 16


def measure(context: Context) -> list[Row]:
    syncs, single, flying, single_ratio, flying_ratio, batches = [], [], [], [], [], []
    count = context.pick(500, 200)
    with context.rota(SECTION) as rota:
        scene.block(rota)
        scene.fill(rota, 100)
        for _ in range(context.pick(7, 3)):
            sync = machine.sync_rate(rota.state)
            single.append(one_after_another(rota, count))
            flying.append(asyncio.run(in_flight(rota, count)))
            sync = (sync + machine.sync_rate(rota.state)) / 2
            syncs.append(sync)
            single_ratio.append(single[-1] / sync)
            flying_ratio.append(flying[-1] / sync)
            batches.append(batch_rate(rota))
    yardstick, sync = "append 4 KiB + fdatasync /s", statistics.median(syncs)
    return [
        against(
            SECTION, "submits of one client, one at a time", "/s", statistics.median(single),
            yardstick, sync, ratio_at_least(SYNC_RATIO_MIN),
            ratio=statistics.median(single_ratio), samples={"rates": single, "sync": syncs},
        ),
        against(
            SECTION, f"submits of one client, {IN_FLIGHT} in flight", "/s",
            statistics.median(flying), yardstick, sync, ratio_at_least(SYNC_RATIO_MIN),
            ratio=statistics.median(flying_ratio), samples={"rates": flying},
        ),
        against(
            SECTION, f"one batch of {BATCH:,}", "jobs/s", statistics.median(batches),
            "bar of the issue, jobs/s", BATCH_RATE_MIN, value_at_least(BATCH_RATE_MIN),
            samples={"rates": batches},
        ),
    ]  # fmt: skip


def one_after_another(rota: Rota, count: int) -> float:
    message = request("POST", "/jobs", scene.waiting_job(rota))
    began = time.perf_counter()
    for _ in range(count):
        rota.wire.send(message)
    return count / (time.perf_counter() - began)


async def in_flight(rota: Rota, count: int) -> float:
    """The same client with several connections: group commit shares one sync among them."""
    message = request("POST", "/jobs", scene.waiting_job(rota))
    path = rota.state / "rota.sock"
    began = time.perf_counter()
    await asyncio.gather(*(_stream(path, message, count // IN_FLIGHT) for _ in range(IN_FLIGHT)))
    return count // IN_FLIGHT * IN_FLIGHT / (time.perf_counter() - began)


async def _stream(path: Path, message: bytes, count: int) -> None:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        for _ in range(count):
            writer.write(message)
            status, length = parse_head((await reader.readuntil(b"\r\n\r\n"))[:-4])
            body = await reader.readexactly(length)
            if status != 201:
                raise Refused(status, body)
    finally:
        writer.close()
        await writer.wait_closed()


def batch_rate(rota: Rota) -> float:
    message = request(
        "POST", "/jobs:batch", {"jobs": [scene.waiting_job(rota, k) for k in range(BATCH)]}
    )
    return BATCH / machine.timed(lambda: rota.wire.send(message))
