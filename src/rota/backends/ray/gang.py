"""Runs on the head for a gang: room for all members at once, then a process for each of them.

The members are actors of Ray in one placement group, so either all of them start or none. Each
starts the shim on its node. The first that fails ends the others, and its end is that of the gang.
What became of each member is in NAME.member.state beside its output.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import Any

import ray  # type: ignore[import-not-found,unused-ignore]  # It is there on the cluster.
import shim  # type: ignore[import-not-found,unused-ignore]  # It is in the same package.
from ray.util.placement_group import (  # type: ignore[import-not-found,unused-ignore]
    placement_group,
)
from ray.util.scheduling_strategies import (  # type: ignore[import-not-found,unused-ignore]
    PlacementGroupSchedulingStrategy,
)

#: What has room now is made at once; what has none by then has been taken by others.
START_S = 30.0
#: What Ray would have its workers inherit.
CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
#: How often signals are looked at between ends of members.
LOOK_S = 0.2


class GangMember:
    """One process on one node."""

    def where(self) -> tuple[str, str]:
        context = ray.get_runtime_context()
        return context.get_node_id(), ray.util.get_node_ip_address()

    def run(self, job: dict[str, Any], files: dict[str, bytes]) -> str:
        """Until its end; the last line that the shim has written down."""
        logs = os.path.dirname(os.readlink("/proc/self/fd/1"))
        with tempfile.TemporaryDirectory(prefix="rota-") as folder:
            for name, body in files.items():
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(body)
            with open(os.path.join(folder, "job.json"), "w", encoding="utf-8") as text:
                json.dump(job, text)
            path = os.path.join(logs, job["name"])
            program = os.path.join(folder, "shim.py")
            words = [sys.executable, program, folder, path, f"{path}.member"]
            self.process = subprocess.Popen(words, start_new_session=True)
            code = self.process.wait()
        with suppress(FileNotFoundError), open(f"{path}.member.state", encoding="utf-8") as text:
            line = text.read().splitlines()[-1]
            if not line.startswith("started"):
                return line
        # A stop was faster than the shim.
        return f"{'signal' if code < 0 else 'exit'} {abs(code)} {time.time():.3f}"

    def stop(self, number: int) -> None:
        with suppress(OSError, AttributeError):
            os.killpg(self.process.pid, number)


def main() -> None:
    job = shim.read_job(os.getcwd())
    path = os.path.join(os.path.dirname(os.readlink("/proc/self/fd/1")), job["name"])
    files = {}
    for name in ("shim.py", "script", "stdin"):
        with suppress(FileNotFoundError), open(name, "rb") as file:
            files[name] = file.read()
    job["environment"].setdefault(shim.ADDRESS, os.environ[shim.ADDRESS])
    # The package is not for the nodes of the members: it has all that the job keeps to itself.
    os.environ.pop(CONFIG, None)
    asked: list[int] = []
    hear(asked)
    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    hear(asked)  # Ray hears of TERM itself otherwise, and ends.
    bundles = job["gang"]["bundles"]
    group = placement_group(bundles, strategy=job["gang"]["strategy"])
    if not group.wait(START_S):
        end(path, "unstarted node Ray has no room for all of its members at once")
    try:
        members = [member_of(group, rank, bundle) for rank, bundle in enumerate(bundles)]
        end(path, gang(job, path, members, files, asked))
    except ray.exceptions.RayError as error:
        end(path, f"lost {' '.join(str(error).split())[:300]}")


def hear(asked: list[int]) -> None:
    for name in ("TERM", "INT", "HUP", "USR1", "USR2"):
        signal.signal(getattr(signal, f"SIG{name}"), lambda number, _: asked.append(number))


def member_of(group: Any, rank: int, bundle: dict[str, float]) -> Any:  # noqa: ANN401
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank)
    asked = dict(bundle)
    return (
        ray.remote(GangMember)
        .options(
            max_concurrency=2,  # It hears of a stop while it runs.
            num_cpus=asked.pop("CPU", 0),
            num_gpus=asked.pop("GPU", 0),
            memory=asked.pop("memory", 0) or None,
            resources=asked,
            scheduling_strategy=strategy,
        )
        .remote()
    )


def gang(
    job: dict[str, Any],
    path: str,
    members: list[Any],
    files: dict[str, bytes],
    asked: list[int],
) -> str:
    """Start all, and wait; how the gang ended."""
    places = ray.get([member.where.remote() for member in members])
    runs = {}
    for rank, member in enumerate(members):
        own = dict(job, name=job["gang"]["names"][rank])
        own["environment"] = {**job["environment"], **ranks(places, rank, job["gang"]["port"])}
        shim.note(path, f"member {rank} {places[rank][0]}")
        runs[member.run.remote(own, files)] = member
    shim.note(path, f"started {time.time():.3f}")
    verdict = ""
    while runs:
        done, _ = ray.wait(list(runs), timeout=LOOK_S)
        for run in done:
            del runs[run]
            if not verdict:
                line = ray.get(run)
                verdict = "" if line.startswith("exit 0 ") else line
                asked.extend([signal.SIGTERM] if verdict else [])
        while asked:
            number = asked.pop()
            for member in runs.values():
                member.stop.remote(number)
    return verdict or f"exit 0 {time.time():.3f}"


def ranks(places: list[tuple[str, str]], rank: int, port: int) -> dict[str, str]:
    """Where a member stands."""
    nodes = list(dict.fromkeys(node for node, _ in places))
    beside = [other for other, (node, _) in enumerate(places) if node == places[rank][0]]
    numbers = {
        "ROTA_RANK": rank,
        "RANK": rank,
        "ROTA_TASK_INDEX": rank,
        "ROTA_NUM_TASKS": len(places),
        "WORLD_SIZE": len(places),
        "LOCAL_RANK": beside.index(rank),
        "LOCAL_WORLD_SIZE": len(beside),
        "NODE_RANK": nodes.index(places[rank][0]),
        "MASTER_PORT": port,
    }
    return {"MASTER_ADDR": places[0][1], **{name: str(value) for name, value in numbers.items()}}


def end(path: str, line: str) -> None:
    """As the gang did; one that was not started or was lost has no exit code of its own."""
    shim.note(path, line)
    word, _, rest = line.partition(" ")
    if word not in ("exit", "signal"):
        sys.exit(shim.UNSTARTED)
    number = int(rest.split()[0])
    shim.end_as(number if word == "signal" else number << 8)


if __name__ == "__main__":
    main()
