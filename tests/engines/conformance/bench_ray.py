"""A real Ray: its job server behind a proxy."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx

from tests.engines.conformance.bench import Inside, Sizes
from tests.engines.conformance.bench_engine import EngineBench
from tests.engines.conformance.bench_slurm import before_http
from tests.engines.conformance.proxy import HttpProxy
from tests.engines.conformance.scenarios import RAY_POWERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.engines.ray.cluster import Ray

PHASES = {"PENDING": "waiting", "RUNNING": "running"}


class RayBench(EngineBench):
    """Three machines of four CPUs. Ray keeps no queue of ours: what does not fit is not sent."""

    name = "ray"
    machines = ("n1", "n2", "n3")
    powers = RAY_POWERS
    #: Each job is a process of Ray's own, which takes a second or two of a processor to begin.
    sizes = Sizes(crowd=8, array=12, cap=3)

    def __init__(self, root: Path, ray: Ray) -> None:
        super().__init__(root)
        self.ray = ray
        server = urlsplit(ray.url)
        self.proxy = HttpProxy(server.hostname or "", server.port or 0, r"^POST /api/jobs/ ")
        self.proxy.begin()

    @property
    def table(self) -> dict[str, Any]:
        return {
            "kind": "ray",
            "address": f"http://127.0.0.1:{self.proxy.port}",
            "python": self.ray.python,
            "limit_s": 6.0,
            "poll_s": 0.2,
        }

    def look_inside(self, uid: str) -> list[Inside]:
        listed = httpx.get(f"{self.ray.url}/api/jobs/", timeout=30).json()
        return [
            Inside(job["submission_id"], PHASES.get(job["status"], "ended"))
            for job in listed
            if job["submission_id"] and uid.replace(":", ".") in job["submission_id"]
        ]

    def engine_fault(self, name: str, target: str) -> AbstractContextManager[None]:
        if name == "lost":
            return self._lost(target)
        if name == "cut":
            return self._cut(target)
        if name in ("cancelled", "purged"):
            return self._asked(target, "stop" if name == "cancelled" else "")
        if name == "stranger":
            return self._other(target.replace(":", "."))
        return before_http(self.proxy, name)

    @contextmanager
    def _lost(self, machine: str) -> Iterator[None]:
        self.ray.kill_node(machine)
        yield
        self.ray.start()

    @contextmanager
    def _cut(self, machine: str) -> Iterator[None]:
        self.ray.signal(machine, signal.SIGSTOP, "raylet")
        yield
        self.ray.signal(machine, signal.SIGCONT, "raylet")

    @contextmanager
    def _asked(self, job: str, verb: str) -> Iterator[None]:
        method = "POST" if verb else "DELETE"
        path = f"{self.ray.url}/api/jobs/{job}/{verb}".rstrip("/")
        httpx.request(method, path, timeout=30).raise_for_status()
        yield

    @contextmanager
    def _other(self, key: str) -> Iterator[None]:
        """A job of somebody who has never heard of Rota."""
        body = {"submission_id": key, "entrypoint": "sleep 300"}
        httpx.post(f"{self.ray.url}/api/jobs/", json=body, timeout=30).raise_for_status()
        yield
        httpx.post(f"{self.ray.url}/api/jobs/{key}/stop", timeout=30)

    def revive(self) -> None:
        self.ray.kill_node("head")
        self.ray.start()

    def close(self) -> None:
        super().close()
        self.proxy.close()
