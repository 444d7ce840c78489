"""Plan: past hours and what is planned ahead, node by node, and what a job would wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.api.views.views import ref_of
from rota.core.facts.states import FINAL, JobState
from rota.core.words.presets import PRESETS
from rota.hostlist import natural
from rota.store.api import JobFilter
from rota.web.views.now import promised, reservations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.facts.job import Job
    from rota.store.api import Store
    from rota.web.views.asked import PageRequest

TEMPLATE, RIGHT = "plan", "read"
#: The most jobs that ended that are drawn, the newest; the page says when there are more.
PAST = 1000
HOURS_MAX = 168
NODES_MAX = 60


async def words(asked: PageRequest) -> dict[str, Any]:
    return {"queues": sorted(asked.cluster.queues), "policies": list(PRESETS)}


async def gantt(asked: PageRequest) -> dict[str, Any]:
    """Bars of what ran, runs, is promised and reserved, and the nodes that they are on.

    With ``find`` only nodes with this text in their names.
    """
    host, cluster = asked.host, asked.cluster
    now_s = host.clock.now_s()
    hours = max(1, asked.number("hours", 6, HOURS_MAX))
    since_s = now_s - hours * 3600.0

    def look(store: Store) -> list[Job]:
        states = tuple(state for state in JobState if state in FINAL)
        wanted = JobFilter(states=states, ended_since_s=since_s)
        return store.list_jobs(wanted, limit=PAST + 1, newest_first=True)

    ended = await host.read(look)
    bars = [bar for job in ended[:PAST] for bar in _bars(job, now_s, since_s)]
    bars += [bar for job in cluster.jobs.values() for bar in _bars(job, now_s, since_s)]
    bars += [bar for bar in promised(asked) if bar["start_s"] < now_s + hours * 3600]
    bars += [
        bar
        for bar in reservations(cluster, now_s)
        if bar["end_s"] > since_s and bar["start_s"] < now_s + hours * 3600
    ]
    known = {*cluster.nodes} | {node for bar in bars for node in bar["nodes"]}
    text = asked.query.get("find", "").strip().lower()
    names = sorted((name for name in known if text in name.lower()), key=natural)
    shown = set(names[:NODES_MAX])
    return {
        "now_s": now_s,
        "since_s": since_s,
        "until_s": now_s + hours * 3600.0,
        "nodes": names[:NODES_MAX],
        "more": max(0, len(names) - NODES_MAX),
        "past": PAST if len(ended) > PAST else 0,
        # One without nodes is for all of them.
        "items": [bar for bar in bars if not bar["nodes"] or shown.intersection(bar["nodes"])],
    }


def _bars(job: Job, now_s: float, since_s: float) -> Iterator[dict[str, Any]]:
    """Each try of each task that ran in the time shown."""
    for task in job.tasks:
        for attempt in task.attempts:
            if not attempt.started_s or (attempt.ended_s or now_s) < since_s:
                continue
            limit_s = job.spec.time_limit_s
            yield {
                "kind": "past" if attempt.ended_s else "running",
                "id": job.id,
                "ref": ref_of(job),
                "name": job.spec.name,
                "user": job.spec.user,
                "state": str(job.state),
                "start_s": attempt.started_s,
                "end_s": attempt.ended_s or max(now_s, attempt.started_s + limit_s),
                "nodes": [attempt.allocation.node],
                "gpus": len(attempt.allocation.devices),
            }


FEEDS = {"gantt": gantt}
