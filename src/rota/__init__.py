"""Rota: one scheduler for AI/ML compute, from a single GPU box to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.client.builder import Job
    from rota.client.cluster import ClusterContext, connect, local

__version__ = "0.1.0"
__all__ = ["ClusterContext", "Job", "__version__", "connect", "local"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the client module has
    """The Python API, imported when it is first asked for: commands start without it."""
    if name in ("ClusterContext", "connect", "local"):
        from rota.client import cluster

        return getattr(cluster, name)
    if name == "Job":
        from rota.client.builder import Job

        return Job
    raise AttributeError(f"module 'rota' has no attribute {name!r}")
