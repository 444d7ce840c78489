"""Why a node could never take a task, however long the task waits.

Every filter is a small function that answers with nothing or with a short phrase, and all of
them stand in one column below, in the order in which they are asked. None looks at what is in
use, so nodes of one class share the answers. Neighbours are the exception: they come and go, so
``affinity_problem`` stands apart and is asked per node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.features import WITHOUT, Feature
from rota.core.facts.job import ServiceClass
from rota.core.facts.placing import TaintEffect, cluster_of, ground_of
from rota.core.facts.policy import Mixing
from rota.core.words.units import counted, format_cpu, format_mib
from rota.scheduling.place.node_room import is_variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rota.core.derived.lanes import Shape
    from rota.core.facts.node import Device, NodeSpec
    from rota.core.facts.placing import Affinity, Selector, Taint
    from rota.core.facts.policy import Policy
    from rota.core.facts.resources import Request


class FilterProblem(NamedTuple):
    """Which filter said no, and its words; both empty when none did."""

    filter: str = ""
    text: str = ""


NO_PROBLEM = FilterProblem()

#: What devices say that are no part of another.
NO_PARENT = frozenset({-1})


class Case(NamedTuple):
    """One task and one class of nodes: what every filter looks at."""

    shape: Shape
    request: Request
    spec: NodeSpec
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    policy: Policy
    #: The single node that is meant; empty: its whole class, so its name says nothing.
    name: str = ""


def _named(case: Case) -> str:
    wanted = case.shape.placement.nodes
    return f"is not {_one_of(wanted)}" if case.name and wanted and case.name not in wanted else ""


def _excluded(case: Case) -> str:
    return "is excluded" if case.name and case.name in case.shape.placement.exclude else ""


def _user(case: Case) -> str:
    owner = case.spec.user
    return f"runs only jobs of {owner}" if owner and case.shape.user != owner else ""


def _engine(case: Case) -> str:
    wanted, engine = case.shape.placement.engine, case.spec.engine
    if wanted and wanted != engine:
        mine = f"engine {engine}" if engine else "no engine"
        return f"is of {mine}, needs {wanted}"
    missing = missing_feature(case.shape, case.spec) if engine else None
    return f"engine {engine} {WITHOUT[missing]}" if missing is not None else ""


def _pool(case: Case) -> str:
    """What only a single machine can be asked for, and one task needs a single machine."""
    spec, placement = case.spec, case.shape.placement
    if not spec.pool:
        return ""
    if placement.exclusive:
        return f"is a pool of engine {spec.engine}: no job has a machine of it to itself"
    machines = spec.largest.count if spec.largest is not None else 1
    if placement.node_count > machines:
        return f"has {machines} machines, needs {placement.node_count}"
    share, has = _share(case), spec.machine
    needed = (share * case.request.cpu_milli, share * case.request.memory_mib)
    if needed[0] > has.cpu_milli or needed[1] > has.memory_mib:
        return f"has no machine that takes {share} of its tasks"
    return ""


def _share(case: Case) -> int:
    """How many tasks of a gang that is spread over nodes must fit on each of them."""
    nodes = case.shape.placement.node_count
    counts = [role.count for role in case.shape.roles if role.request == case.request]
    return -(-max(counts, default=0) // nodes) if nodes else 0


def _device(case: Case) -> str:
    request = case.request
    if not request.device_count:
        return ""
    of_kind = [d for d in case.spec.machine.devices if d.kind == request.device]
    return _too_few(request, of_kind, typed=False)


def _device_type(case: Case) -> str:
    request = case.request
    if not request.device_count or request.device_type in ("", "auto"):
        return ""
    return _too_few(request, _asked(case), typed=True)


def _device_memory(case: Case) -> str:
    request = case.request
    least = max(request.device_memory_mib, 1 if request.shared else 0)
    if not request.device_count or not least:
        return ""
    large = [device for device in _asked(case) if device.memory_mib >= least]
    size = format_mib(request.device_memory_mib) if request.device_memory_mib else ""
    return _too_few(
        request, large, typed=True, which=f" with {size}" if size else " that can be shared"
    )


def _cpus(case: Case) -> str:
    total = _offered(case, case.spec.machine.cpu_milli, case.policy.place.overcommit_cpu)
    if case.request.cpu_milli <= total:
        return ""
    needs = format_cpu(case.request.cpu_milli)
    return f"{_machine(case)} {counted(total / 1000, 'cpus')}, needs {needs}"


def _memory(case: Case) -> str:
    total = _offered(case, case.spec.machine.memory_mib, case.policy.place.overcommit_memory)
    if case.request.memory_mib <= total:
        return ""
    needs = format_mib(case.request.memory_mib)
    return f"{_machine(case)} {format_mib(total)} of memory, needs {needs}"


def _disk(case: Case) -> str:
    disk_mib = case.spec.machine.disk_mib
    if case.request.disk_mib <= disk_mib:
        return ""
    has, needs = format_mib(disk_mib), format_mib(case.request.disk_mib)
    return f"{_machine(case)} {has} of disk, needs {needs}"


def _labels(case: Case) -> str:
    for selector in case.shape.placement.selectors:
        if not selector.weight and not selector.admits(case.labels):
            return _unfulfilled(selector, case.labels)
    return ""


def _topology(case: Case) -> str:
    key = case.shape.placement.topology
    if not key or ground_of(case.labels, key) is not None:
        return ""
    return f"no label {key}, needs one"


def _cluster(case: Case) -> str:
    wanted = case.shape.placement.cluster
    if not wanted or wanted == (cluster := cluster_of(case.labels)):
        return ""
    return f"is in cluster {cluster}, needs {wanted}"


def _vdc(case: Case) -> str:
    wanted = case.shape.placement.vdc
    if not wanted:
        return ""
    vdc = case.policy.vdc(wanted)
    return vdc.problem(case.labels) if vdc else f"there is no virtual data centre {wanted}"


def _taints(case: Case) -> str:
    borne = case.shape.placement.tolerations
    for taint in case.taints:
        if taint.effect is TaintEffect.NO_START and not any(t.bears(taint) for t in borne):
            return f"taint {taint}"
    return ""


def _mixing(case: Case) -> str:
    if case.policy.place.cpu_jobs_on_gpu_nodes is not Mixing.NEVER or case.request.device_count:
        return ""
    return (
        f"keeps its {case.spec.machine.devices[0].kind}s for jobs that use them"
        if case.spec.machine.devices
        else ""
    )


#: The whole chain. The first that objects is the reason; cheap and decisive ones come first.
FILTERS: tuple[tuple[str, Callable[[Case], str]], ...] = (
    ("named", _named),  # the job lists its nodes
    ("excluded", _excluded),  # the job does not want this one
    ("user", _user),  # an agent that is not root starts the jobs of its own user
    ("cluster", _cluster),  # the job names its cluster
    ("engine", _engine),  # it names its engine, or needs what its engine cannot do
    ("vdc", _vdc),  # the clusters that its virtual data centre has, and the labels it asks for
    ("pool", _pool),  # what no pool can do
    ("device", _device),  # enough devices of the kind
    ("device type", _device_type),  # enough of the model
    ("device memory", _device_memory),  # enough that are large enough
    ("cpus", _cpus),  # with overcommitment, unless guaranteed
    ("memory", _memory),  # the same
    ("disk", _disk),  # never overcommitted
    ("labels", _labels),  # hard selectors
    ("topology", _topology),  # the label that its nodes must have in common
    ("taints", _taints),  # marks that keep jobs off
    ("mixing", _mixing),  # jobs without devices on nodes with some
)


#: How many of them look at the name of the node alone.
BY_NAME = 2


def first_problem(case: Case) -> FilterProblem:
    """Why these nodes could never take the task; ``NO_PROBLEM`` when they could."""
    # The name of a class says nothing: the filters by name would have nothing to object.
    for name, check in FILTERS if case.name else FILTERS[BY_NAME:]:
        if text := check(case):
            return FilterProblem(name, text)
    return NO_PROBLEM


def problems(case: Case) -> Iterator[FilterProblem]:
    """Every filter that objects, for the question what would have to change."""
    for name, check in FILTERS:
        if text := check(case):
            yield FilterProblem(name, text)


def missing_feature(shape: Shape, spec: NodeSpec) -> Feature | None:
    """What a job needs and the engine of a node does not have; None: nothing."""
    if not spec.engine:
        return None
    if Feature.IMAGES_ONLY in spec.features and Feature.IMAGES not in shape.needs:
        return Feature.IMAGES_ONLY
    return next((need for need in _needs(shape) if need not in spec.features), None)


def _needs(shape: Shape) -> Iterator[Feature]:
    yield from shape.needs
    if shape.task_count > 1:
        yield Feature.GANGS
    if len(shape.roles) > 1:
        yield Feature.ROLES
    if any(0 < role.min_count < role.count for role in shape.roles):
        yield Feature.ELASTIC
    if any(role.request.shared or role.request.device_indices for role in shape.roles):
        yield Feature.SHARES


def _machine(case: Case) -> str:
    """One task must fit one real machine, not the sum of a pool."""
    return "has machines with" if case.spec.pool else "has"


def _offered(case: Case, there: int, overcommit: float) -> int:
    """What may be promised: guaranteed tasks count against what is really there."""
    firm = case.shape.service is ServiceClass.GUARANTEED
    return min(int(there * overcommit), there) if firm else int(there * overcommit)


def _asked(case: Case) -> list[Device]:
    """The devices of the kind and the model that the task asks for."""
    kind, model = case.request.device, case.request.device_type
    devices = case.spec.machine.devices
    return [d for d in devices if d.kind == kind and is_variant(d.model, model)]


def _too_few(request: Request, devices: list[Device], *, typed: bool, which: str = "") -> str:
    """``has 2 of the 4 gpus``; empty when there are enough that are neither broken nor closed."""
    usable = [device for device in devices if device.healthy and not device.closed]
    # All of them together: a whole device counts as its parts.
    cut = {device.parent for device in usable}
    have = len(usable) if cut <= NO_PARENT else sum([d.index not in cut for d in usable])
    wanted = request.device_count
    if have >= wanted:
        return ""
    what = _noun(request, typed=typed) + which
    elsewhere = sum(device.elsewhere for device in devices)
    closed = sum(device.closed for device in devices) - elsewhere
    broken = sum(not device.healthy and not device.closed for device in devices)
    counts = ((broken, "broken"), (closed, "closed"), (elsewhere, "used elsewhere"))
    left_out = [f"{n} {word}" for n, word in counts if n]
    note = f" ({', '.join(left_out)})" if left_out else ""
    if wanted == 1:
        return f"has no {what}{note}"
    return f"has {have or 'none'} of the {wanted} {what}{note}"


def _noun(request: Request, *, typed: bool) -> str:
    kind = request.device if request.device_count == 1 else f"{request.device}s"
    named = typed and request.device_type not in ("", "auto")
    return f"{request.device_type} {kind}" if named else kind


def _unfulfilled(selector: Selector, labels: Mapping[str, str]) -> str:
    have = labels.get(selector.key)
    mine = f"label {selector.key}={have}" if have is not None else f"no label {selector.key}"
    return f"{mine}, needs {selector}"


def _one_of(names: tuple[str, ...]) -> str:
    if len(names) > 3:
        return f"one of the {len(names)} nodes it names"
    return " or ".join(names)


class Neighbours:
    """Which labels the jobs on nodes carry, by node and by the topologies asked about."""

    def __init__(self, topologies: Iterable[str] = ()) -> None:
        self._topologies = tuple(dict.fromkeys(("", *topologies)))
        #: Topology, its value, label, the label's value or None for any.
        self._places: set[tuple[str, str, str, str | None]] = set()
        self._anywhere: set[tuple[str, str | None]] = set()

    def add(self, node: str, node_labels: Mapping[str, str], job_labels: Mapping[str, str]) -> None:
        """A job (or one task of it) holds room on this node."""
        for key, value in job_labels.items():
            for wanted in (value, None):
                self._anywhere.add((key, wanted))
                for topology in self._topologies:
                    place = node_labels.get(topology) if topology else node
                    if place is not None:
                        self._places.add((topology, place, key, wanted))

    def near(self, affinity: Affinity, node: str, node_labels: Mapping[str, str]) -> bool:
        """Whether a job that is meant runs on the node, or where its topology label says."""
        place = node_labels.get(affinity.topology) if affinity.topology else node
        if place is None:
            return False
        return (affinity.topology, place, affinity.key, affinity.value or None) in self._places

    def exist(self, affinity: Affinity) -> bool:
        """Whether a job that is meant runs anywhere."""
        return (affinity.key, affinity.value or None) in self._anywhere


def topologies_of(shapes: Iterable[Shape]) -> tuple[str, ...]:
    """The labels of nodes that say what near means to any of these shapes, in a fixed order."""
    return tuple(sorted({a.topology for s in shapes for a in s.placement.affinities if a.topology}))


def affinity_problem(
    shape: Shape,
    node: str,
    node_labels: Mapping[str, str],
    neighbours: Neighbours,
    own: Mapping[str, str] | None = None,
) -> str:
    """The first wish about neighbours that must hold and does not; empty when all do.

    The first of several jobs that want to be near each other finds nobody: with its own labels
    in ``own`` it may start anywhere and the others follow it.
    """
    for affinity in shape.placement.affinities:
        if affinity.weight:
            continue
        if affinity.topology and affinity.topology not in node_labels:
            if not affinity.apart:
                return f"no label {affinity.topology}, needs one to be near {_meant(affinity)}"
            continue
        near = neighbours.near(affinity, node, node_labels)
        if affinity.apart and near:
            return f"{_meant(affinity)} runs {_where(affinity, node_labels)}"
        leads = own is not None and affinity.concerns(own) and not neighbours.exist(affinity)
        if not affinity.apart and not near and not leads:
            return f"no {_meant(affinity)} {_where(affinity, node_labels)}"
    return ""


def _meant(affinity: Affinity) -> str:
    return f"job with {affinity.key}" + (f"={affinity.value}" if affinity.value else "")


def _where(affinity: Affinity, node_labels: Mapping[str, str]) -> str:
    if not affinity.topology:
        return "here"
    return f"in {affinity.topology} {node_labels.get(affinity.topology, '')}"
