"""Jobs that need the results of others: a sweep, the best of it, and a report.

Run it with ``python examples/graph_example.py``: it starts a Rota of its own and stops it.
"""

from __future__ import annotations

import rota


@rota.job(cpus=1, time="5m")
def train(rate: float, steps: int = 20) -> tuple[float, float]:
    """A training of sorts: the rate, and the loss after some steps downhill with it."""
    place = 1.0
    for _ in range(steps):
        place -= rate * 2 * place
    return place**2, rate


def best(runs: list[tuple[float, float]]) -> tuple[float, float]:
    """The run with the smallest loss."""
    return min(runs)


def report(run: tuple[float, float]) -> str:
    """A line about one run."""
    loss, rate = run
    return f"the best rate is {rate} with a loss of {loss:.2g}"


def main() -> None:
    """Nothing waits in this program before the last line: each job starts when it can."""
    with rota.local(cpus=2) as cluster:
        runs = train.map([0.01, 0.1, 0.3, 0.9])
        winner = cluster.submit(best, runs)
        print(cluster.submit(report, winner).result(timeout=60))


if __name__ == "__main__":
    main()
