"""``rota down --stop-jobs``: end what runs; what waits starts after the next ``rota up``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rota.client.http import segment

if TYPE_CHECKING:
    from rota.client.http import Client

#: Marks nodes that were drained so that nothing starts in the place of what is stopped.
NOTE = "stopped by rota down --stop-jobs"
PAGE = 1000
#: An agent that is started again has connected by then. Jobs of nodes that have not are not
#: waited for: nobody there hears that they shall end.
BACK_S = 1.0


def stop_jobs(client: Client, until_s: float) -> list[dict[str, Any]]:
    """End what runs; the jobs that have not ended by then, or whose node is not connected."""
    for node in client.get("/nodes")["items"]:
        if not node["drained"]:
            client.post(f"/nodes/{segment(node['name'])}:drain", {"note": NOTE})
    look_s = time.monotonic() + BACK_S
    while jobs := active(client):
        client.post("/jobs:cancel", {"ids": [job["id"] for job in jobs]})
        now_s = time.monotonic()
        if now_s > until_s:
            break
        if now_s > look_s:
            if not heard_by(client, jobs):
                break
            look_s = now_s + BACK_S
        time.sleep(0.05)
    return jobs


def heard_by(client: Client, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The jobs that can be ended now: all of their nodes are connected."""
    away = {node["name"] for node in client.get("/nodes")["items"] if node["state"] == "down"}
    return [job for job in jobs if away.isdisjoint(job["nodes"])]


def let_jobs_start(client: Client) -> None:
    """Undo the drain of an earlier ``stop_jobs``."""
    for node in client.get("/nodes")["items"]:
        if node["drained"] and node["note"] == NOTE:
            client.post(f"/nodes/{segment(node['name'])}:resume")


def active(client: Client) -> list[dict[str, Any]]:
    """What runs, or is about to."""
    items: list[dict[str, Any]] = client.get("/jobs", state="scheduled,running", limit=PAGE)[
        "items"
    ]
    return items
