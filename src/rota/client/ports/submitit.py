"""Executors and jobs in submitit's words: ``from rota.client.ports import submitit``.

executor = submitit.AutoExecutor(folder="logs")
executor.update_parameters(timeout_min=60, gpus_per_node=1)
job = executor.submit(train, 0.1, epochs=3)
print(job.result())

They run on the cluster that was opened last, or on the one that ``rota.connect`` finds.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from rota.client.cluster import connect
from rota.client.context import context
from rota.client.options import OPEN, opened_last

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rota.client.cluster import ClusterContext
    from rota.client.handle import JobHandle

P = ParamSpec("P")
T = TypeVar("T")

#: submitit's names of what we have, and ours.
NAMES = {
    "name": "name",
    "nodes": "nodes",
    "cpus_per_task": "cpus",
    "gpus_per_node": "gpus",
    "slurm_partition": "queue",
    "slurm_constraint": "constraints",
}
#: Beside those.
MORE = ("timeout_min", "mem_gb", "tasks_per_node", "slurm_array_parallelism", "slurm_time")


class Job(Generic[T]):
    """A job as submitit sees it."""

    def __init__(self, handle: JobHandle[T]) -> None:
        self.handle = handle

    @property
    def job_id(self) -> str:
        """The id, as text."""
        return str(self.handle.id)

    @property
    def state(self) -> str:
        """The name of its state, in capitals."""
        return self.handle.status().state.upper()

    def result(self) -> T:
        """What the function returned, or what it raised, raised here."""
        return self.handle.result()

    def results(self) -> list[T]:
        """What each task returned."""
        return self.handle.results()

    def exception(self) -> BaseException | None:
        """What the function raised; None if it returned."""
        return self.handle.exception()

    def done(self, force_check: bool = False) -> bool:
        """Whether it has ended; it is heard of, so there is nothing to check by force."""
        return self.handle.done()

    def wait(self) -> None:
        """Until it has ended, however."""
        self.handle.exception()

    def cancel(self, check: bool = True) -> None:
        """Ask for its end."""
        self.handle.cancel()

    def stdout(self) -> str:
        """What it printed so far."""
        return self.handle.logs()

    def stderr(self) -> str:
        """What it wrote to standard error so far."""
        return self.handle.logs("stderr")

    def __repr__(self) -> str:
        return f"Job<{self.handle!r}>"


class AutoExecutor:
    """Submits with parameters in submitit's words. ``folder`` is not needed: Rota keeps logs."""

    def __init__(self, folder: str = "", cluster: str | None = None) -> None:
        self._options: dict[str, Any] = {}
        self._at_once = 0
        self._cluster: ClusterContext = opened_last() if len(OPEN) else connect()

    def update_parameters(self, **parameters: Any) -> None:
        """Set parameters for the submits that follow; one that has no twin here is refused."""
        nodes = int(parameters.get("nodes", self._options.get("nodes", 1)))
        for name, value in parameters.items():
            if name in ("timeout_min", "slurm_time"):
                self._options["time_limit"] = f"{value}m"
            elif name == "mem_gb":
                self._options["memory"] = f"{value}g"
            elif name == "tasks_per_node":
                self._options["tasks"] = nodes * int(value)
            elif name == "slurm_array_parallelism":
                self._at_once = int(value)
            elif name in NAMES:
                self._options[NAMES[name]] = [value] if name == "slurm_constraint" else value
            else:
                known = ", ".join([*NAMES, *MORE])
                raise ValueError(f"{name}: this parameter has no twin here; known are {known}")

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Job[T]:
        """Run ``fn(*args, **kwargs)`` as a job with the parameters."""
        return Job(self._cluster.submit_call(fn, args, kwargs, self._options))

    def map_array(self, fn: Callable[..., T], *iterable: Iterable[Any]) -> list[Job[T]]:
        """One job per set of items, ``slurm_array_parallelism`` of them at once."""
        rows = zip(*iterable, strict=False)
        handles = self._cluster.map_calls(fn, rows, {}, self._options, self._at_once)
        return [Job(handle) for handle in handles]

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Submits inside are jobs of their own; here that costs no more than an array."""
        yield


class JobEnvironment:
    """The job that this code runs in, in submitit's words."""

    def __init__(self) -> None:
        self._me = context()
        self.job_id = str(self._me.job_id)
        self.global_rank = self._me.rank
        self.num_tasks = self._me.world_size
        self.num_nodes = len(self._me.nodes)
        self.hostname = os.uname().nodename
