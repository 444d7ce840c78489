"""The smallest real engine: jobs are files in a folder, and each is run by a process of its own.

It has what the large ones have: ids of its own, a queue, an accounting that outlives the list, a
controller that may be away, and answers that are lost on their way. A file ``fault`` in its folder
says what goes wrong: ``away``, ``full``, ``paced``, ``refuse``, ``lost-answer``, ``hold``,
``deaf``, ``forgetful``, ``broken``, ``clinging``; ``shut`` and ``unsure`` of submits alone;
``garbled`` and ``scrambled`` of its lists of jobs and of machines.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rota.backends.api import (
    EngineAway,
    EngineJob,
    EngineNode,
    EnginePhase,
    EngineRefused,
    Feature,
    Full,
    Paced,
    Unsure,
)
from rota.backends.orders import parse_key
from rota.core.facts.node import Device, NodeSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.backends.orders import AttemptOrder


class FolderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    folder: str
    nodes: int = 2
    cpus: int = 4


class FolderEngine:
    """A driver. All that it knows is in the folder."""

    kind = "folder"
    features = frozenset({Feature.PLACES, Feature.SIGNALS, Feature.STREAMS})
    settle_s = 0.5
    early = 0.0
    poll_s = 0.05

    def __init__(self, settings: FolderSettings) -> None:
        self.cluster = ""
        self._settings = settings
        self._folder = Path(settings.folder)
        (self._folder / "jobs").mkdir(parents=True, exist_ok=True)

    def _fault(self) -> str:
        try:
            fault = (self._folder / "fault").read_text().strip()
        except FileNotFoundError:
            return ""
        if fault == "away":
            raise EngineAway("the folder engine is away")
        return fault

    async def open(self) -> None:
        self._fault()

    async def close(self) -> None:
        return

    async def nodes(self) -> list[EngineNode]:
        if self._fault() == "scrambled":
            raise KeyError("machines")
        devices = tuple(Device(index=i, uuid=f"g{i}") for i in range(2))
        milli = 1000 * self._settings.cpus
        specs = [
            NodeSpec(name=f"f{number}", cpu_milli=milli, memory_mib=8192, devices=devices)
            for number in range(1, self._settings.nodes + 1)
        ]
        return [EngineNode(spec=spec) for spec in specs]

    async def submit(self, order: AttemptOrder) -> str:
        fault = self._fault()
        if fault == "full":
            raise Full("QueueIsFull")
        if fault == "paced":
            raise Paced("it has enough to start")
        if fault == "refuse":
            raise EngineRefused("such jobs are not taken here")
        if fault == "shut":
            raise EngineAway("the door of the folder engine is shut")
        if fault == "unsure":
            raise Unsure("the folder engine fell over")
        if fault == "broken":
            raise ValueError("a bug of this driver")
        number = str(len(list((self._folder / "jobs").iterdir())) + 1)
        job = self._folder / "jobs" / number
        job.mkdir()
        launch = order.launch
        facts = {
            "key": str(order.key),
            "node": order.node,
            "gpus": order.gpus,
            "submitted_s": time.time(),
            "argv": launch.argv,
            "environment": launch.environment,
            "workdir": launch.workdir,
        }
        (job / "order.json").write_text(json.dumps(facts))
        if fault != "hold":
            run(job)
        if fault == "lost-answer":
            (self._folder / "fault").unlink()
            raise Unsure("no answer")
        return number

    async def jobs(self) -> list[EngineJob]:
        if self._fault() == "garbled":
            raise ValueError("a list as nobody has seen before")
        return [job for job in self._all() if job is not None]

    async def find(self, uids: Iterable[str]) -> list[EngineJob]:
        wanted = set(uids)
        if self._fault() == "forgetful":
            raise EngineAway("the accounting of the folder engine is down")
        return [job for job in await self.jobs() if job.uid in wanted]

    def _all(self) -> list[EngineJob | None]:
        return [self._read(path) for path in sorted((self._folder / "jobs").iterdir())]

    def _read(self, path: Path) -> EngineJob | None:
        facts = read(path / "order.json")
        key = parse_key(facts.get("key", ""))
        if key is None or key.cluster != self.cluster:
            return None
        start, end = read(path / "start.json"), read(path / "end.json")
        phase = EnginePhase.ENDED if end else EnginePhase.RUNNING if start else EnginePhase.WAITING
        return EngineJob(
            uid=key.uid,
            id=path.name,
            phase=phase,
            reason="held by the folder engine" if phase is EnginePhase.WAITING else "",
            node="" if phase is EnginePhase.WAITING else facts["node"],
            submitted_s=facts["submitted_s"],
            started_s=start.get("at_s", 0.0),
            ended_s=end.get("at_s", 0.0),
            code=end.get("code"),
            signal=end.get("signal", 0),
        )

    async def changes(self) -> None:
        await asyncio.sleep(self.poll_s)

    async def signal(self, job: EngineJob, number: int) -> None:
        self._fault()
        start = read(self._folder / "jobs" / job.id / "start.json")
        if start and job.phase is not EnginePhase.ENDED:
            try:
                os.killpg(start["pid"], number)
            except ProcessLookupError:
                return

    async def stop(self, job: EngineJob, grace_s: float) -> None:
        path = self._folder / "jobs" / job.id
        if self._fault() == "deaf":
            (self._folder / "fault").unlink()
            raise EngineAway("the folder engine does not listen")
        if job.phase is EnginePhase.WAITING:
            write(path / "end.json", {"at_s": time.time(), "signal": 9})
        await self.signal(job, signal.SIGTERM if grace_s else signal.SIGKILL)

    async def forget(self, job: EngineJob) -> None:
        if self._fault() == "clinging":
            raise EngineAway("the folder engine does not let go")
        (self._folder / "jobs" / job.id / "forgotten").touch()

    async def read_log(
        self, job: EngineJob, stream: str, offset: int, limit: int, lines: int = 0
    ) -> tuple[bytes, int]:
        del lines
        try:
            body = (self._folder / "jobs" / job.id / stream).read_bytes()
        except FileNotFoundError:
            return b"", 0
        return body[max(offset, 0) :][:limit], len(body)


def make(settings: FolderSettings) -> FolderEngine:
    return FolderEngine(settings)


def read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}


def write(path: Path, facts: dict[str, Any]) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(facts))
    fresh.rename(path)


def run(job: Path) -> None:
    """Let it begin."""
    subprocess.run(
        ["setsid", "--fork", sys.executable, __file__, str(job)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )


def serve(job: Path) -> None:
    """The engine's own process beside a job: starts it, waits for it, writes its end."""
    facts = read(job / "order.json")
    with open(job / "stdout", "wb") as out, open(job / "stderr", "wb") as errors:
        process = subprocess.Popen(
            facts["argv"],
            cwd=facts["workdir"],
            env=facts["environment"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,
        )
    write(job / "start.json", {"at_s": time.time(), "pid": process.pid})
    code = process.wait()
    end = {"at_s": time.time(), "code": code if code >= 0 else None, "signal": max(0, -code)}
    write(job / "end.json", end)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
