"""Functions as jobs on one small machine: room for two at a time, and a job that never fits.

Run it with ``python examples/cluster_example.py``: it starts a Rota of its own and stops it.
"""

from __future__ import annotations

import time

import rota


def work(number: int) -> tuple[int, float, float]:
    """Two seconds of something; tells when it ran."""
    start = time.time()
    time.sleep(2)
    return number, start, time.time()


def most_at_once(spans: list[tuple[int, float, float]]) -> int:
    """How many of the spans overlapped at the busiest moment."""
    return max(sum(a <= start < b for _, a, b in spans) for _, start, _ in spans)


def two_at_a_time(cluster: rota.ClusterContext) -> None:
    """Four jobs of two CPUs each on a worker with four CPUs: they run in pairs."""
    jobs = [
        cluster.submit(work, number, name=f"pair-{number}", resources={"cpu": 2})
        for number in range(4)
    ]
    spans = [job.result(timeout=60) for job in jobs]
    print(f"four jobs of 2 CPUs on 4 CPUs: at most {most_at_once(spans)} at once")


def never_fits(cluster: rota.ClusterContext) -> None:
    """A job for 100 CPUs that is willing to wait five seconds for them."""
    job = cluster.submit(
        work, 0, name="too-big", resources={"cpu": 100}, scheduling_timeout_seconds=5
    )
    status = cluster.wait(job)
    print(f"a job of 100 CPUs: {status.state.upper()} ({status.error})")


def main() -> None:
    """Both demonstrations."""
    with rota.local(cpus=4) as cluster:
        two_at_a_time(cluster)
        never_fits(cluster)


if __name__ == "__main__":
    main()
