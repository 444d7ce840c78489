"""``rota down --stop-jobs``: end what runs; what waits starts after the next ``rota up``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rota.client.http import segment

if TYPE_CHECKING:
    from rota.client.http import Client

#: Marks nodes that were drained so that nothing starts in the place of what is stopped.
NOTE = "stopped by rota down --stop-jobs"
PAGE = 1000


def stop_jobs(client: Client, until_s: float) -> bool:
    """Whether everything that ran has ended by then."""
    for node in client.get("/nodes")["items"]:
        if not node["drained"]:
            client.post(f"/nodes/{segment(node['name'])}:drain", {"note": NOTE})
    while ids := _active(client):
        client.post("/jobs:cancel", {"ids": ids})
        if time.monotonic() > until_s:
            return False
        time.sleep(0.05)
    return True


def let_jobs_start(client: Client) -> None:
    """Undo the drain of an earlier ``stop_jobs``."""
    for node in client.get("/nodes")["items"]:
        if node["drained"] and node["note"] == NOTE:
            client.post(f"/nodes/{segment(node['name'])}:resume")


def _active(client: Client) -> list[int]:
    page = client.get("/jobs", state="scheduled,running", limit=PAGE)
    return [job["id"] for job in page["items"]]
