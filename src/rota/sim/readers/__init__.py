"""Readers of recorded workloads, and of the machines to play them on."""

from rota.sim.readers.choose import KINDS, read_trace
from rota.sim.readers.cluster import read_cluster
from rota.sim.readers.openb import read_nodes, read_pods

__all__ = ["KINDS", "read_cluster", "read_nodes", "read_pods", "read_trace"]
