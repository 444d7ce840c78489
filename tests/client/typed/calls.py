"""What a type checker must know about calls: each ignored line is one that it must refuse."""

from __future__ import annotations

import rota


def train(rate: float, epochs: int = 1) -> float:
    return rate * epochs


@rota.job(gpus=1, time="2h")
def tuned(rate: float, *, deep: bool = False) -> str:
    return f"{rate} {deep}"


def right(cluster: rota.ClusterContext) -> None:
    job = cluster.submit(train, 0.1, epochs=3)
    loss: float = job.result()
    named: rota.JobHandle[float] = cluster.submit(train, 0.1, name="x", resources={"cpu": 2})
    chained: rota.JobHandle[float] = cluster.submit(train, job)
    large: rota.JobHandle[float] = cluster.options(gpus=1, time="2h").submit(train, job, 3)
    many: list[rota.JobHandle[float]] = cluster.map(train, [0.1, 0.2], [1, 2], retries=2)
    total: float = cluster.submit(sum, many).result()
    losses: list[float] = rota.gather(many, timeout=60)
    words: str = tuned.submit(0.1, deep=True).result()
    there: str = cluster.submit(tuned, 0.1).result()
    here: str = tuned(0.1)
    text: str = job.logs()
    pieces: list[str] = list(job.logs(follow=True))
    print(loss, total, named.id, chained, large, losses, words, there, here, text, pieces)


def wrong(cluster: rota.ClusterContext) -> None:
    cluster.submit(train, "fast")  # type: ignore[arg-type]
    cluster.submit(train, 0.1, nonsense=3)  # type: ignore[call-arg]
    cluster.options(gpuss=1)  # type: ignore[call-arg]
    cluster.options(gpus="many")  # type: ignore[arg-type]
    cluster.options(gpus=1).submit(train, "fast")  # type: ignore[arg-type]
    tuned.submit("fast")  # type: ignore[arg-type]
    number: str = cluster.submit(train, 0.1).result()  # type: ignore[assignment]
    print(number)


async def awaited(cluster: rota.AsyncCluster) -> None:
    job = await cluster.options(cpus=2).submit(train, 0.1)
    loss: float = await job
    async for done in cluster.as_completed([job]):
        print(done.id, loss, await done)
    after: float = await (await cluster.submit(train, job))
    await cluster.submit(train, after, nonsense=3)  # type: ignore[call-arg]
    await cluster.options(cpus=2).submit(train, "fast")  # type: ignore[arg-type]
