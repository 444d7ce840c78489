"""Many short calls: workers that stay, behind the standard library's Executor.

Run it with ``python examples/pool_example.py``: it starts a Rota of its own and stops it.
"""

from __future__ import annotations

import time

import rota


def score(number: int) -> int:
    """Something that takes less time than the start of an interpreter."""
    return number * number % 97


def main() -> None:
    """Two workers, each an ordinary job, take a thousand calls between them."""
    with rota.local(cpus=2) as cluster, cluster.pool(2, cpus=1) as pool:
        pool.submit(score, 1).result(timeout=60)
        began = time.perf_counter()
        best = max(pool.map(score, range(1000)))
        took_s = time.perf_counter() - began
    print(f"the best of a thousand scores is {best}")
    print(f"that took {'less' if took_s < 5 else 'more'} than five seconds")


if __name__ == "__main__":
    main()
