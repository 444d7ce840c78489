"""What a waiting job could ask for instead: one knob per wish, each with steps from near to far.

A step is a whole spec that differs in one wish, the options that ask for it, and what it costs
from 0 (nothing) to 1 (all of it). Whether a step helps is not known here: ``advice.py`` tries.
"""

from __future__ import annotations

from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from rota.core.facts.job import JobSpec, ServiceClass
from rota.core.facts.placing import Placement, TaintEffect, Toleration
from rota.core.facts.states import QueueState
from rota.core.words.placing_text import format_selector, format_toleration
from rota.core.words.units import counted, format_cpu, format_duration, format_mib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rota.core.facts.resources import Request
    from rota.scheduling.answers.whatif import WhatIf

#: Steps of one knob at most.
STEPS = 24
#: Time passes before an advice is followed: windows are taken for this much shorter.
MARGIN_S = 60


class OtherWish(NamedTuple):
    """One other way to ask."""

    spec: JobSpec
    text: str
    options: str
    #: What the job gives up, from 0 to 1.
    loss: float


def knobs(spec: JobSpec, world: WhatIf, priority_max: int) -> Iterator[list[OtherWish]]:
    """For every wish that could be smaller or other: steps that help the more, the further they go.

    The usual suspects come first.
    """
    wishes: tuple[Iterable[OtherWish], ...] = (
        _gpus(spec),
        _gpu_type(spec),
        _amounts(spec, world, *_CPUS),
        _amounts(spec, world, *_MEMORY),
        _amounts(spec, world, *_DISK),
        _gpu_memory(spec, world),
        _shared(spec, world),
        _time(spec, world),
        *([step] for step in (*_placement(spec, world), *_queues(spec, world))),
        _tasks(spec),
        _priority(spec, priority_max),
    )
    for made in wishes:
        if steps := [*islice(made, STEPS)]:
            yield steps


def _with(spec: JobSpec, **changes: object) -> JobSpec:
    role = spec.roles[0]
    changed = replace(role, request=replace(role.request, **changes))
    return replace(spec, roles=(changed, *spec.roles[1:]))


def _less(spec: JobSpec, field: str, amount: int, text: str, options: str) -> OtherWish:
    asked = getattr(spec.request, field)
    return OtherWish(_with(spec, **{field: amount}), text, options, (asked - amount) / asked)


def _gpus(spec: JobSpec) -> Iterator[OtherWish]:
    asked = spec.request.device_count
    if spec.request.device_milli:
        return
    unit = spec.request.device.upper() + "s"
    for count in range(asked - 1, 0, -1):
        text = f"ask for {counted(count, unit)} instead of {asked}"
        yield _less(spec, "device_count", count, text, f"--gpus {count}")


def _gpu_type(spec: JobSpec) -> Iterator[OtherWish]:
    request = spec.request
    if request.device_count and request.device_type:
        text = f"take any type instead of {request.device_type}"
        options = f"{_gpu_words(request)} --gpu-type auto"
        yield OtherWish(_with(spec, device_type=""), text, options, 0.2)


def _gpu_words(request: Request) -> str:
    """Other options about GPUs mean one GPU, unless the number is said."""
    shown = request.device_milli / 1000 if request.device_milli else request.device_count
    return f"--gpus {shown:g}"


#: Field of a request and of a room, its words, the option, and how the amount is written.
_CPUS = ("cpu_milli", "CPUs", "--cpus", format_cpu)
_MEMORY = ("memory_mib", "of memory", "--mem", format_mib)
_DISK = ("disk_mib", "of disk", "--disk", format_mib)


def _amounts(
    spec: JobSpec, world: WhatIf, field: str, words: str, option: str, shown: Callable[[int], str]
) -> Iterator[OtherWish]:
    asked = getattr(spec.request, field)
    free = [getattr(room, field) for room in world.scheduler.space.rooms.values()]
    grain = 1 if field != "cpu_milli" else 1000 if asked > 1000 else 100
    for less in _ladder(asked, free, grain):
        named = counted(less / 1000, words) if words == "CPUs" else f"{shown(less)} {words}"
        text = f"ask for {named} instead of {shown(asked)}"
        yield _less(spec, field, less, text, f"{option} {shown(less)}")


def _gpu_memory(spec: JobSpec, world: WhatIf) -> Iterator[OtherWish]:
    request = spec.request
    asked = request.device_memory_mib
    for mib in _ladder(asked, _card_memory(spec, world), 1):
        text = f"ask for {format_mib(mib)} on the GPU instead of {format_mib(asked)}"
        options = f"{_gpu_words(request)} --gpu-mem {format_mib(mib)}"
        yield _less(spec, "device_memory_mib", mib, text, options)


def _shared(spec: JobSpec, world: WhatIf) -> Iterator[OtherWish]:
    """Beside other shared jobs, with what memory there is."""
    request = spec.request
    if request.shared or not request.device_count:
        return
    free = _card_memory(spec, world)
    most = max(free, default=0)
    asked = request.device_memory_mib
    for mib in [asked] if asked else _ladder(most + 1, free, 1):
        if mib <= most:
            text = f"share a GPU, with {format_mib(mib)} on it"
            options = f"{_gpu_words(request)} --shared --gpu-mem {format_mib(mib)}"
            changed = _with(spec, shared=True, device_memory_mib=mib)
            yield OtherWish(changed, text, options, 0.5)


def _card_memory(spec: JobSpec, world: WhatIf) -> list[int]:
    rooms = world.scheduler.space.rooms.values()
    kind = spec.request.device
    free = {d.free_mib for room in rooms for d in room.devices.values() if d.device.kind == kind}
    return sorted(free)


def _ladder(asked: int, free: Iterable[int], grain: int) -> list[int]:
    """Amounts below what was asked: what is free somewhere, and ever smaller halves."""
    amounts = {amount for amount in free if amount < asked}
    half = asked // 2
    while half >= grain and len(amounts) < STEPS:
        amounts.add(half)
        half //= 2
    round_down = {_nice(amount, grain) for amount in amounts}
    return sorted((amount for amount in round_down if 0 < amount < asked), reverse=True)


def _nice(amount: int, grain: int) -> int:
    """A number that people would write."""
    if grain > 1:
        return amount // grain * grain
    for unit in (4096, 1024, 256, 64, 16):
        if amount >= 16 * unit:
            return amount // unit * unit
    return amount


def _time(spec: JobSpec, world: WhatIf) -> Iterator[OtherWish]:
    """Limits that end before claims on the node begin, longest first."""
    asked = spec.time_limit_s
    claims = world.scheduler.timeline.claims.values()
    starts = {claim.start_s for on_node in claims for claim in on_node}
    windows = {_nice_time(int(at_s - world.now_s) - MARGIN_S) for at_s in starts}
    limits = {length for length in windows if length > 0 and (not asked or length < asked)}
    for length in sorted(limits, reverse=True):
        shown = format_duration(length)
        words = f"instead of {format_duration(asked)}" if asked else "(it has none)"
        loss = (asked - length) / asked if asked else 0.1
        changed = replace(spec, time_limit_s=length)
        yield OtherWish(changed, f"limit it to {shown} {words}", f"--time {shown}", loss)


def _nice_time(length_s: int) -> int:
    for unit in (3600, 900, 300, 60, 10):
        if length_s >= 6 * unit:
            return length_s // unit * unit
    return length_s


def _tasks(spec: JobSpec) -> Iterator[OtherWish]:
    role = spec.roles[0]
    if len(spec.roles) > 1:
        return
    floor = max(1, role.min_count)
    for count in range(role.count - 1, floor - 1, -1):
        nodes = min(spec.placement.node_count, count)
        fewer = f" --nodes {nodes}" if nodes != spec.placement.node_count else ""
        changed = replace(
            spec,
            roles=(replace(role, count=count),),
            placement=replace(spec.placement, node_count=nodes),
        )
        text = f"start {count} of its {role.count} tasks"
        yield OtherWish(changed, text, f"--tasks {count}{fewer}", (role.count - count) / role.count)


def _placement(spec: JobSpec, world: WhatIf) -> Iterator[OtherWish]:
    """Without one of the things that it says about where it runs."""
    now = spec.placement

    def step(text: str, options: str, loss: float, **changes: object) -> OtherWish:
        placement: Placement = replace(now, **changes)
        return OtherWish(replace(spec, placement=placement), text, options, loss)

    for selector in now.selectors:
        if not selector.weight:
            rest = tuple(one for one in now.selectors if one != selector)
            words = [format_selector(one) for one in rest]
            text = f"do without {format_selector(selector)}"
            yield step(text, _repeated("--constraint", words), 0.2, selectors=rest)
    yield from _tolerations(now, world, step)
    if now.exclusive:
        yield step("share its nodes with other jobs", "--no-exclusive", 0.2, exclusive=False)
    yield from _places(now, step)
    if now.topology:
        yield step(f"allow several values of {now.topology}", "--topology ''", 0.2, topology="")
    if now.node_count:
        yield step("use as few nodes as possible", "--nodes 0", 0.15, node_count=0)
    yield from _company(now, step)
    if spec.service is ServiceClass.GUARANTEED:
        changed = replace(spec, service=ServiceClass.BURSTABLE)
        yield OtherWish(changed, "do without a guarantee", "--qos burstable", 0.3)


def _tolerations(
    now: Placement, world: WhatIf, step: Callable[..., OtherWish]
) -> Iterator[OtherWish]:
    keys = {
        taint.key: None
        for kind in world.scheduler.space.class_of.values()
        for taint in kind.taints
        if taint.effect is TaintEffect.NO_START
        and not any(one.bears(taint) for one in now.tolerations)
    }
    for key in sorted(keys)[:4]:
        borne = (*now.tolerations, Toleration(key))
        words = [format_toleration(one) for one in borne]
        yield step(f"tolerate {key}", _repeated("--tolerate", words), 0.1, tolerations=borne)


def _places(now: Placement, step: Callable[..., OtherWish]) -> Iterator[OtherWish]:
    """Nodes, a cluster or an engine that it names."""
    if now.exclude:
        yield step("allow the excluded nodes", "--exclude ''", 0.2, exclude=())
    if now.nodes:
        yield step("allow any node", "--nodelist ''", 0.25, nodes=())
    for name in ("cluster", "engine"):
        if getattr(now, name):
            yield step(f"allow every {name}", f"--{name} ''", 0.2, **{name: ""})


def _company(now: Placement, step: Callable[..., OtherWish]) -> Iterator[OtherWish]:
    for apart, option in ((False, "--near"), (True, "--apart")):
        if any(one.apart is apart and not one.weight for one in now.affinities):
            rest = tuple(one for one in now.affinities if one.apart is not apart)
            what = "away from" if apart else "near"
            yield step(f"allow it not to be {what} others", f"{option} ''", 0.2, affinities=rest)


def _repeated(option: str, words: list[str]) -> str:
    return " ".join(f"{option} {quote(word)}" for word in words) or f"{option} ''"


def _queues(spec: JobSpec, world: WhatIf) -> Iterator[OtherWish]:
    for name, queue in sorted(world.cluster.queues.items()):
        foreign = bool(queue.project) and queue.project != spec.project
        takes = queue.state is QueueState.ACTIVE and not queue.outside
        if name != spec.queue and takes and not foreign:
            changed = replace(spec, queue=name)
            yield OtherWish(changed, f"move it to queue {name}", f"--queue {quote(name)}", 0.15)


def _priority(spec: JobSpec, priority_max: int) -> Iterator[OtherWish]:
    if spec.priority < priority_max:
        changed = replace(spec, priority=priority_max)
        text = f"raise its priority from {spec.priority} to {priority_max}"
        yield OtherWish(changed, text, f"--priority {priority_max}", 0.9)
