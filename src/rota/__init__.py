"""Rota: one scheduler for AI/ML compute, from a single GPU box to a cluster."""

from __future__ import annotations

#: Not from ``typing``: every command and every job that runs a function passes through here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.client.aio import AsyncCluster, AsyncJob, connect_async, local_async
    from rota.client.asking import JobOptions
    from rota.client.builder import Job
    from rota.client.cluster import ClusterContext, connect
    from rota.client.context import JobContext, checkpoint, context
    from rota.client.errors import ClientError, Disconnected, Refused, Unreachable
    from rota.client.executors.pool import WorkerLost
    from rota.client.handle import JobHandle, as_completed, gather, wait
    from rota.client.local import local
    from rota.client.notebook import watch
    from rota.client.options import JobFunction, Options, job
    from rota.client.outcomes import JobError, RemoteTraceback, ResultGone, ResultTooLarge
    from rota.client.status import JobCancelled, JobFailed, JobStatus, Node, Plan, Why

__version__ = "0.1.0"
__all__ = [
    "AsyncCluster",
    "AsyncJob",
    "ClientError",
    "ClusterContext",
    "Disconnected",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobError",
    "JobFailed",
    "JobFunction",
    "JobHandle",
    "JobOptions",
    "JobStatus",
    "Node",
    "Options",
    "Plan",
    "Refused",
    "RemoteTraceback",
    "ResultGone",
    "ResultTooLarge",
    "Unreachable",
    "Why",
    "WorkerLost",
    "__version__",
    "as_completed",
    "checkpoint",
    "connect",
    "connect_async",
    "context",
    "gather",
    "job",
    "local",
    "local_async",
    "wait",
    "watch",
]

#: Where each name of the Python API lives.
_HOMES = {
    "aio": ("AsyncCluster", "AsyncJob", "connect_async", "local_async"),
    "asking": ("JobOptions",),
    "builder": ("Job",),
    "cluster": ("ClusterContext", "connect"),
    "context": ("JobContext", "checkpoint", "context"),
    "errors": ("ClientError", "Disconnected", "Refused", "Unreachable"),
    "handle": ("JobHandle", "as_completed", "gather", "wait"),
    "local": ("local",),
    "notebook": ("watch",),
    "options": ("JobFunction", "Options", "job"),
    "outcomes": ("JobError", "RemoteTraceback", "ResultGone", "ResultTooLarge"),
    "executors.pool": ("WorkerLost",),
    "status": ("JobCancelled", "JobFailed", "JobStatus", "Node", "Plan", "Why"),
}


def __getattr__(name: str) -> object:
    """The Python API, imported when it is first asked for: commands start without it."""
    for home, names in _HOMES.items():
        if name in names:
            import importlib

            found: object = getattr(importlib.import_module(f"rota.client.{home}"), name)
            return found
    raise AttributeError(f"module 'rota' has no attribute {name!r}")
