"""The calls of ``bench.soak`` that Slurm has, too, to a real one over its REST API."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import threading
import time
from collections import Counter, defaultdict
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bench.peers import shared_folder
from bench.real_slurm import real_slurm

if TYPE_CHECKING:
    from collections.abc import Callable

#: As many CPUs in all as the simulated agents of Rota have.
SETTINGS = {"SLURM_UP_NODES": "4", "SLURM_UP_CPUS": "200", "SLURM_UP_GPUS": "0"}
API = "/slurm/v0.0.38"
TIMEOUT_S = 60.0


class Caller:
    """One thread that submits, lists and cancels, over one kept connection."""

    def __init__(self, url: str, token: str, seed: int, over: threading.Event) -> None:
        self._where, self._over, self._chance = urlsplit(url), over, random.Random(seed)
        self._headers = {"X-SLURM-USER-NAME": "root", "X-SLURM-USER-TOKEN": token}
        self._connection: HTTPConnection | None = None
        self._jobs: list[int] = []
        self.took_s: dict[str, list[float]] = defaultdict(list)
        self.failed: Counter[str] = Counter()

    def run(self, pause_s: float) -> None:
        verbs: list[tuple[int, str, Callable[[], object]]] = [
            (40, "submit", self._submit),
            (10, "cancel", self._cancel),
            (18, "list", self._list),
        ]
        while not self._over.is_set():
            _, verb, call = self._chance.choices(verbs, [weight for weight, _, _ in verbs])[0]
            began_s = time.perf_counter()
            try:
                call()
            except (OSError, HTTPException, ValueError) as error:
                self.failed[f"{verb}: {error}"[:80]] += 1
                self._connection = None
            took_s = time.perf_counter() - began_s
            self.took_s[verb].append(took_s)
            self._over.wait(max(0.0, self._chance.expovariate(1 / pause_s) - took_s))

    def _call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        if self._connection is None:
            host, port = self._where.hostname or "", self._where.port
            self._connection = HTTPConnection(host, port, timeout=TIMEOUT_S)
        headers = {**self._headers, "Content-Type": "application/json"}
        text = None if body is None else json.dumps(body)
        self._connection.request(method, API + path, text, headers)
        response = self._connection.getresponse()
        said = response.read()
        if response.status >= 400:
            raise ValueError(f"{response.status}")
        return dict(json.loads(said)) if said else {}

    def _submit(self) -> None:
        lasts_s = self._chance.choice((0, 0, 1, 2, 5, 10))
        job = {
            "name": f"job-{self._chance.randrange(50)}",
            "current_working_directory": "/tmp",
            "environment": {"PATH": "/usr/bin:/bin"},
            "standard_output": "/dev/null",
            "standard_error": "/dev/null",
            "time_limit": 1,
        }
        script = f"#!/bin/sh\nsleep {lasts_s}\n"
        self._jobs.append(
            int(self._call("POST", "/job/submit", {"script": script, "job": job})["job_id"])
        )

    def _cancel(self) -> None:
        if self._jobs:
            self._call("DELETE", f"/job/{self._chance.choice(self._jobs[-20:])}")

    def _list(self) -> None:
        self._call("GET", "/jobs")


def soak_slurm(minutes: float, callers: int, calls_per_s: float) -> dict[str, Any]:
    """How long each verb took, at this number of calls in a second of all callers together."""
    with real_slurm("default", SETTINGS) as env:
        url, token = _rest(env)
        over = threading.Event()
        made = [Caller(url, token, seed, over) for seed in range(callers)]
        pause_s = callers / calls_per_s
        threads = [threading.Thread(target=one.run, args=(pause_s,)) for one in made]
        for thread in threads:
            thread.start()
        time.sleep(60.0 * minutes)
        over.set()
        for thread in threads:
            thread.join()
    took_s: dict[str, list[float]] = defaultdict(list)
    failed: Counter[str] = Counter()
    for caller in made:
        failed += caller.failed
        for verb, times in caller.took_s.items():
            took_s[verb] += times
    return {"took_s": took_s, "failed": dict(failed)}


def _rest(env: dict[str, str]) -> tuple[str, str]:
    """Where its REST API is; ``slurm-up`` says so each time, and leaves what runs alone."""
    shared = shared_folder()
    assert shared is not None
    state = str(Path(env["SLURM_CONF"]).parent.parent)
    command = [str(shared / "engines" / "slurm-up"), state]
    done = subprocess.run(command, env=env, cwd=state, capture_output=True, text=True, check=True)
    words = [word for line in done.stdout.splitlines() for word in shlex.split(line)]
    told = dict(word.split("=", 1) for word in words if "=" in word)
    return told["SLURM_REST_URL"], told["SLURM_REST_TOKEN"]
