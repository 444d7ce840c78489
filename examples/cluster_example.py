"""Functions as jobs on one small machine: pairs, a giant, a gang, a sweep, a job that resumes.

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
        cluster.options(name=f"pair-{number}", cpus=2).submit(work, number) for number in range(4)
    ]
    spans = [job.result(timeout=60) for job in jobs]
    print(f"four jobs of 2 CPUs on 4 CPUs: at most {most_at_once(spans)} at once")


def never_fits(cluster: rota.ClusterContext) -> None:
    """A job for 100 CPUs that is willing to wait five seconds for them."""
    job = cluster.options(name="too-big", cpus=100, scheduling_timeout_s=5).submit(work, 0)
    status = cluster.wait(job)
    print(f"a job of 100 CPUs: {status.state.upper()} ({status.error})")


def share_of_the_sum(numbers: range) -> int:
    """One task of a gang: each takes its share, by its rank among all."""
    me = rota.context()
    return sum(numbers[me.rank :: me.world_size])


def gang(cluster: rota.ClusterContext) -> None:
    """Four tasks that start together; each returns its part."""
    job = cluster.options(tasks=4, name="gang").submit(share_of_the_sum, range(1001))
    parts = job.results(timeout=60)
    print(f"a gang of {len(parts)}: {' + '.join(map(str, parts))} = {sum(parts)}")


def train(rate: float) -> float:
    """A training of sorts: the loss after twenty steps downhill with this rate."""
    place = 1.0
    for _ in range(20):
        place -= rate * 2 * place
    return place**2


def sweep(cluster: rota.ClusterContext) -> None:
    """One job per rate, two at once; the best one wins."""
    rates = [0.01, 0.1, 0.3, 0.9]
    jobs = cluster.map(train, rates, max_concurrent=2, name="sweep")
    losses = rota.gather(jobs, timeout=60)
    best = losses.index(min(losses))
    print(f"a sweep over {len(rates)} rates: {rates[best]} is best, loss {losses[best]:.2g}")


def count_to(goal: int) -> tuple[int, int]:
    """Counts and saves as it goes. Its first attempt breaks half-way."""
    me = rota.context()
    file = me.checkpoint_dir / "count"
    count = began = int(file.read_text()) if file.exists() else 0
    while count < goal:
        count += 1
        file.write_text(str(count))
        me.checkpoint()
        me.progress(count / goal)
        if count == goal // 2 and not me.resumed:
            raise RuntimeError("the power went out")
    return began, count


def resume(cluster: rota.ClusterContext) -> None:
    """A job that breaks is tried again, and goes on where it had saved its work."""
    job = cluster.options(name="resume", retries=1, backoff_s=0).submit(count_to, 10)
    began, count = job.result(timeout=60)
    print(f"a job that broke: took up at {began}, came to {count}")


def main() -> None:
    """All of them."""
    with rota.local(cpus=4) as cluster:
        two_at_a_time(cluster)
        never_fits(cluster)
        gang(cluster)
        sweep(cluster)
        resume(cluster)


if __name__ == "__main__":
    main()
