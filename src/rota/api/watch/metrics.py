"""Numbers for Prometheus: what the state shows now, beside what was counted and timed.

Names that users choose are bounded: of users, projects and queues those with the most are told by
name, the rest together as ``other``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from rota.api.views.quota_use import quota_uses
from rota.api.watch.gpu_metrics import gpu_families
from rota.core.facts.states import NodeState
from rota.scheduling.order.fairshare import FairShare
from rota.scheduling.order.orderings import set_back_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client import Metric

    from rota.api.context import Context
    from rota.core.cluster import Cluster
    from rota.core.facts.node import Node

#: The most users, projects and queues that have series of their own.
NAMED_MAX = 50
OTHER = "other"


class MetricFamilies:
    """One answer, made from the live state; a registry writes it."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


def gather(context: Context) -> list[Metric]:
    """Everything, read in one go: nothing changes meanwhile."""
    return [*state_families(context), *context.host.meters.registry.collect()]


def write_metrics(found: list[Metric]) -> bytes:
    """The text format. In any thread: a large site has thousands of lines."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MetricFamilies(found))
    return generate_latest(registry)


def state_families(context: Context) -> Iterator[Metric]:
    """What the state shows now."""
    host = context.host
    cluster = host.cluster
    states = {str(state): count for state, count in cluster.count_states().items()}
    yield _gauge("rota_jobs", "Jobs by state.", "state", states)
    nodes = Counter(state_of(node) for node in cluster.nodes.values())
    yield _gauge("rota_nodes", "Nodes by state.", "state", nodes)
    yield _single("rota_agents_connected", "Agents with a connection.", len(host.sessions.by_node))
    yield _single("rota_attempts_live", "Tries that hold room.", len(cluster.live.where))
    yield _single("rota_inbox_length", "Requests before the next tick.", host.waiting)
    yield _single(
        "rota_uptime_seconds", "Time since the start.", host.clock.now_s() - host.started_s
    )
    events = CounterMetricFamily("rota_events", "Events in the log since it began.")
    events.add_metric([], host.newest_seq)
    yield events
    yield from gpu_families(cluster, context.measures)
    yield from cluster_families(cluster, host.clock.now_s())


def cluster_families(cluster: Cluster, now_s: float) -> Iterator[Metric]:
    """Nodes, and the accounts that use them."""
    yield from _node_families(cluster)
    yield from _account_families(cluster)
    yield from _share_families(cluster, now_s)
    yield from _quota_families(cluster)


def state_of(node: Node) -> str:
    """A node that is down is down, drained or not."""
    if node.state is not NodeState.UP:
        return str(node.state)
    return "drained" if node.drained else "up"


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _single(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _node_families(cluster: Cluster) -> Iterator[Metric]:
    """What each node has, and what of it a job could have: nothing, while it is down or drained."""
    up, cpus, free_cpus = {}, {}, {}
    memory, free_memory = {}, {}
    total, held = Counter[str](), Counter[str]()
    for name, node in cluster.nodes.items():
        room, spec = node.headroom(), node.spec
        up[name] = float(node.state is NodeState.UP)
        cpus[name], memory[name] = spec.cpu_milli / 1000, spec.memory_mib << 20
        free_cpus[name] = room.cpu_milli / 1000 if node.takes_work else 0.0
        free_memory[name] = room.memory_mib << 20 if node.takes_work else 0
        if node.state is NodeState.UP:
            total.update(cpu=spec.cpu_milli, memory=spec.memory_mib, gpu=len(spec.devices))
            given = {index for one in node.live.values() for index in one.devices}
            held.update(
                cpu=spec.cpu_milli - room.cpu_milli,
                memory=spec.memory_mib - room.memory_mib,
                gpu=len(given),
            )
    yield _gauge("rota_node_up", "1 while the agent of a node is connected, else 0.", "node", up)
    yield _gauge("rota_node_cpus", "CPUs of a node.", "node", cpus)
    yield _gauge("rota_node_cpus_free", "CPUs that a job could have now.", "node", free_cpus)
    yield _gauge("rota_node_memory_bytes", "Memory of a node.", "node", memory)
    yield _gauge(
        "rota_node_memory_free_bytes", "Memory that a job could have now.", "node", free_memory
    )
    ratios = {kind: held[kind] / total[kind] for kind in total if total[kind]}
    text = "What jobs hold of what nodes that are up have: cpu, memory, gpu."
    yield _gauge("rota_utilisation_ratio", text, "resource", ratios)


def bounded(values: Mapping[str, float], most: int = NAMED_MAX) -> dict[str, float]:
    """The largest by name, the rest as one; equal ones in the order of their names."""
    if len(values) <= most:
        return dict(values)
    named = nsmallest(most, values, key=lambda name: (-values[name], name))
    found = {name: values[name] for name in named}
    found[OTHER] = sum(values.values()) - sum(found.values()) + found.get(OTHER, 0.0)
    return found


def _account_families(cluster: Cluster) -> Iterator[Metric]:
    """Jobs that wait and run, by queue, project and user, and the GPUs that they hold."""
    accounts = cluster.accounts
    pending: dict[str, dict[str, float]] = defaultdict(dict)
    running: dict[str, dict[str, float]] = defaultdict(dict)
    gpus: dict[str, dict[str, float]] = defaultdict(dict)
    for (kind, name), count in accounts.waiting.of.items():
        pending[str(kind)][str(name)] = count
    for (kind, name), jobs in cluster.census.active_in.items():
        running[str(kind)][str(name)] = len(jobs)
    for (kind, name), amount in accounts.holdings.of.items():
        gpus[str(kind)][str(name)] = amount.device_milli / 1000
    for kind in ("queue", "project", "user"):
        text = f"Jobs that wait (pending) or hold room (running), by {kind}."
        family = GaugeMetricFamily(f"rota_{kind}_jobs", text, labels=[kind, "state"])
        for state, found in (("pending", pending[kind]), ("running", running[kind])):
            for name, number in bounded(found).items():
                family.add_metric([name, state], number)
        yield family
    for kind in ("project", "user"):
        text = f"GPUs that jobs hold, by {kind}; shared ones by their parts."
        yield _gauge(f"rota_{kind}_gpus", text, kind, bounded(gpus[kind]))


def _share_families(cluster: Cluster, now_s: float) -> Iterator[Metric]:
    """Of accounts that hold something those that hold the most."""
    texts = {
        "ratio": "Use over target, of the account or of a project above it if that is more.",
        "target": "The part of everything that an account is entitled to now.",
        "used": "The part of everything that it has had.",
        "set_back_seconds": "By how long its use sets its jobs back in the order of the default.",
    }
    families = {
        name: GaugeMetricFamily(f"rota_fairshare_{name}", text, labels=["project", "user"])
        for name, text in texts.items()
    }
    held = {
        str(name): (amount.device_milli, amount.cpu_milli)
        for (kind, name), amount in cluster.accounts.holdings.of.items()
        if kind == "account"
    }
    shares = FairShare(cluster, now_s)
    for account in nlargest(NAMED_MAX, held, key=lambda name: (held[name], name)):
        user, _, project = account.partition("\n")
        row = shares.stands(user, project)
        back_s = set_back_s(row.ratio, cluster.policy.order)
        told = (shares.worst(user, project), row.target, row.used, back_s)
        for family, number in zip(families.values(), told, strict=True):
            family.add_metric([project, user], number)
    yield from families.values()


def _quota_families(cluster: Cluster) -> Iterator[Metric]:
    """Of limits of projects those that come closest to being reached."""
    text = "What a project holds of its hard limit."
    family = GaugeMetricFamily("rota_quota_used_ratio", text, labels=["project", "resource"])
    uses = [use for use in quota_uses(cluster) if use.kind == "project"]
    for use in nlargest(NAMED_MAX, uses, key=lambda use: (use.part, use.name, use.resource)):
        family.add_metric([use.name, use.resource], use.part)
    yield family
