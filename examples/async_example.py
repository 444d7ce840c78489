"""Jobs in a program with an event loop: take each result as soon as it is there.

Run it with ``python examples/async_example.py``: it starts a Rota of its own and stops it.
"""

from __future__ import annotations

import asyncio

import rota


def factor(number: int) -> int:
    """The smallest factor of a number above 1."""
    return next(n for n in range(2, number + 1) if number % n == 0)


async def main() -> None:
    """Three jobs at once; nothing blocks the loop meanwhile."""
    async with rota.local_async(cpus=2) as cluster:
        numbers = [91, 97, 1001]
        jobs = dict(zip(await cluster.map(factor, numbers), numbers, strict=True))
        found = {}
        async for job in cluster.as_completed(jobs):
            found[jobs[job]] = await job
        for number in numbers:
            print(f"the smallest factor of {number} is {found[number]}")


if __name__ == "__main__":
    asyncio.run(main())
