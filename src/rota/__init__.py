"""Rota: one scheduler for AI/ML compute, from a single GPU box to a cluster."""

from __future__ import annotations

#: Not from ``typing``: every command and every job that runs a function passes through here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.client.aio import AsyncCluster, connect_async, local_async
    from rota.client.builder import Job
    from rota.client.cluster import ClusterContext, connect
    from rota.client.context import JobContext, checkpoint, context
    from rota.client.errors import Disconnected
    from rota.client.handle import JobHandle
    from rota.client.local import local
    from rota.client.outcomes import JobError, RemoteTraceback, ResultTooLarge
    from rota.client.pool import WorkerLost
    from rota.client.status import JobCancelled, JobFailed, JobStatus

__version__ = "0.1.0"
__all__ = [
    "AsyncCluster",
    "ClusterContext",
    "Disconnected",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobError",
    "JobFailed",
    "JobHandle",
    "JobStatus",
    "RemoteTraceback",
    "ResultTooLarge",
    "WorkerLost",
    "__version__",
    "checkpoint",
    "connect",
    "connect_async",
    "context",
    "local",
    "local_async",
]

#: Where each name of the Python API lives.
_HOMES = {
    "aio": ("AsyncCluster", "connect_async", "local_async"),
    "builder": ("Job",),
    "cluster": ("ClusterContext", "connect"),
    "context": ("JobContext", "checkpoint", "context"),
    "errors": ("Disconnected",),
    "handle": ("JobHandle",),
    "local": ("local",),
    "outcomes": ("JobError", "RemoteTraceback", "ResultTooLarge"),
    "pool": ("WorkerLost",),
    "status": ("JobCancelled", "JobFailed", "JobStatus"),
}


def __getattr__(name: str) -> object:
    """The Python API, imported when it is first asked for: commands start without it."""
    for home, names in _HOMES.items():
        if name in names:
            import importlib

            found: object = getattr(importlib.import_module(f"rota.client.{home}"), name)
            return found
    raise AttributeError(f"module 'rota' has no attribute {name!r}")
