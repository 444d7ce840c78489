"""For code inside a job: who am I, where do I save my work, how far am I, jobs of my own.

ctx = rota.context()
shard = items[ctx.rank :: ctx.world_size]
if ctx.resumed:
    model.load(ctx.checkpoint_dir / "model.pt")
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.client import outcomes, reports
from rota.client.http import Client
from rota.core.facts.endpoints import port_variable
from rota.core.words.kin import PARENT_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rota.client.cluster import ClusterContext


class JobContext:
    """The job that this code runs in, as its variables describe it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        if "ROTA_JOB_ID" not in environment:
            raise RuntimeError("not inside a job: ROTA_JOB_ID is not set; submit this code first")
        self._environment = environment
        self.job_id = int(environment["ROTA_JOB_ID"])
        self.name = environment.get("ROTA_JOB_NAME", "")
        #: Which task of the job this is; the first one is 0.
        self.rank = int(environment.get("ROTA_TASK_INDEX", 0))
        #: How many tasks there are.
        self.world_size = int(environment.get("ROTA_NUM_TASKS", 1))
        #: Which try of the task, from 1.
        self.attempt = int(environment.get("ROTA_ATTEMPT", 1))
        self.cpus = int(environment.get("ROTA_CPUS", 1))
        self.memory_mb = int(environment.get("ROTA_MEM_MB", 0))
        #: The numbers of its GPUs on the node.
        self.gpus = [int(word) for word in environment.get("ROTA_GPUS", "").split(",") if word]
        self.nodes = [word for word in environment.get("ROTA_NODELIST", "").split(",") if word]

    @property
    def array_index(self) -> int | None:
        """Its place in a map or an array; None outside of one."""
        text = self._environment.get("ROTA_ARRAY_INDEX", "")
        return int(text) if text else None

    def world(self) -> tuple[int, int]:
        """Its rank and the number of members as they are now; of an elastic job both may change.

        The signal ``URG`` tells that they have.
        """
        path = self._environment.get("ROTA_WORLD_FILE", "")
        if not path:
            return self.rank, self.world_size
        known = json.loads(Path(path).read_text())
        ranks = {member["task"]: int(member["rank"]) for member in known["members"]}
        # A task that was asked to leave is no member any more.
        return ranks.get(self.rank, -1), int(known["world_size"])

    def port(self, name: str) -> int:
        """The port on this node that the job asked for by name (``--port NAME``)."""
        text = self._environment.get(port_variable(name), "")
        if not text:
            raise RuntimeError(f"port {name}: the job has none of this name; submit it with one")
        return int(text)

    @property
    def resumed(self) -> bool:
        """Whether an attempt before this one may have saved work."""
        return self._environment.get("ROTA_RESUME") == "1"

    @property
    def checkpoint_dir(self) -> Path:
        """A folder that is the same for every attempt of this job; made when first asked for."""
        folder = Path(self._environment["ROTA_CHECKPOINT_DIR"])
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def checkpoint(self, data: Iterable[str] = ()) -> None:
        """Say that the work is saved up to now: if the job must give way, less counts as lost.

        ``data`` names what is ready, for jobs that wait for it with ``after-data``.
        """
        client = self._client()
        try:
            body = {"data": list(data)} if data else {}
            client.post(f"/jobs/{self.job_id}/checkpoint", body)
        finally:
            client.close()

    def progress(self, fraction: float, message: str = "", **figures: Any) -> None:
        """Say how far this task is: 0.0 to 1.0, and what you like; numbers become curves.

        It costs a line in a small file and no request, so it may be said often.
        """
        reports.say(self._environment, fraction, message, figures)

    def cluster(self) -> ClusterContext:
        """The Rota that runs this job, to submit jobs of one's own to. Close it, best by ``with``.

        The children carry the label ``parent``. They need room beside this job, which keeps its
        own while it waits for them.
        """
        from rota.client.cluster import ClusterContext

        # Where its own result goes, those of its children go too.
        results = self._environment.get(outcomes.RESULT_DIR, "")
        context = ClusterContext(self._client(), folder=results and str(Path(results).parents[1]))
        context.labels = {PARENT_LABEL: str(self.job_id)}
        return context

    def _client(self) -> Client:
        return Client.from_environment(self._environment)


def context() -> JobContext:
    """The job that this code runs in; ``RuntimeError`` outside of one."""
    return JobContext(os.environ)


def checkpoint(data: Iterable[str] = ()) -> None:
    """Say that this job's work is saved up to now; see ``JobContext.checkpoint``."""
    context().checkpoint(data)
