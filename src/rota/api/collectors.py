"""Metrics of one's own: collectors that others wrote, asked when somebody reads ``/metrics``.

A collector gets plain figures and answers with samples. It runs beside the loop, in a thread and
within a time; one that raises, is late or answers nonsense is left out, and the answer says so.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from rota.core.cluster import Cluster

GROUP = "rota.collectors"
#: All collectors together may take this long; Prometheus itself gives up after ten seconds.
BUDGET_S = 2.0
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class SiteFigures(NamedTuple):
    """What collectors are told: counts as of now."""

    now_s: float
    #: By state.
    jobs: Mapping[str, int]
    nodes: Mapping[str, int]
    #: Jobs that hold room, by queue, user and project.
    running: Mapping[str, Mapping[str, int]]
    #: CPUs, memory and devices of all nodes, and what of them is held.
    total: Mapping[str, float]
    held: Mapping[str, float]


class Sample(NamedTuple):
    """One number under a name, with labels if there are several of that name."""

    name: str
    value: float
    labels: Mapping[str, str] = {}


Collect = Callable[[SiteFigures], Iterable[Sample | tuple[Any, ...]]]


class Collector:
    """One source. It is not asked again before it has answered."""

    def __init__(self, name: str, collect: Collect) -> None:
        self.name = name
        self._collect = collect
        self._busy = False

    def ask(self, figures: SiteFigures) -> asyncio.Future[list[str]]:
        """Its lines, in time. The thread is a daemon's: one that never ends keeps nobody up."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()
        if self._busy:
            answer.set_exception(RuntimeError("has not answered the last time yet"))
            return answer

        def work() -> None:
            lines, problem = list[str](), None
            try:
                lines = [_line(Sample(*sample)) for sample in self._collect(figures)]
            except Exception as error:
                problem = error
            # Where the loop has ended meanwhile nobody waits for it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(done, lines, problem)

        def done(lines: list[str], problem: Exception | None) -> None:
            self._busy = False
            if answer.cancelled():
                return
            if problem is None:
                answer.set_result(lines)
            else:
                answer.set_exception(problem)

        self._busy = True
        threading.Thread(target=work, daemon=True, name=f"collector {self.name}").start()
        return answer


def load_collectors(names: Iterable[str]) -> tuple[Collector, ...]:
    """What the setting names; ``Rejected`` says why one cannot be had."""
    return tuple(Collector(name, _load(name)) for name in names)


def _load(name: str) -> Collect:
    known = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    module, colon, path = known.get(name, name).partition(":")
    if not colon:
        listed = ", ".join(sorted(known)) or "none"
        allowed = f"expected package.module:Name or installed: {listed}"
        raise Rejected.bad("server.collectors", name, allowed)
    try:
        found: Any = importlib.import_module(module.strip())
        for part in path.strip().split("."):
            found = getattr(found, part)
        found = found() if isinstance(found, type) else found
    except (Exception, SystemExit) as error:
        # Code of others runs here: anything at all may come out of it.
        problem = f"it cannot be loaded: {type(error).__name__}: {error}"
        raise Rejected.bad("server.collectors", name, problem) from error
    collect: Any = getattr(found, "collect", found)
    if not callable(collect):
        problem = "it has no method collect, and is no function"
        raise Rejected.bad("server.collectors", name, problem)
    return collect  # type: ignore[no-any-return]


def figures_of(cluster: Cluster, now_s: float) -> SiteFigures:
    nodes: dict[str, int] = {}
    total = {"cpus": 0.0, "memory_mb": 0.0, "devices": 0.0}
    held = dict.fromkeys(total, 0.0)
    for node in cluster.nodes.values():
        state = "drained" if node.drained else str(node.state)
        nodes[state] = nodes.get(state, 0) + 1
        room = node.headroom()
        total["cpus"] += node.spec.cpu_milli / 1000
        total["memory_mb"] += node.spec.memory_mib
        total["devices"] += len(node.spec.devices)
        held["cpus"] += (node.spec.cpu_milli - room.cpu_milli) / 1000
        held["memory_mb"] += node.spec.memory_mib - room.memory_mib
        held["devices"] += len({index for a in node.live.values() for index in a.devices})
    running: dict[str, dict[str, int]] = {"queue": {}, "user": {}, "project": {}}
    for (kind, name), jobs in cluster.census.active_in.items():
        if kind in running:
            running[kind][str(name)] = len(jobs)
    states = {str(state): count for state, count in cluster.count_states().items()}
    return SiteFigures(now_s, states, nodes, running, total, held)


async def collected(
    collectors: tuple[Collector, ...], figures: SiteFigures, budget_s: float = BUDGET_S
) -> str:
    """The lines of all collectors, and one for each that failed."""
    if not collectors:
        return ""
    waiting = [collector.ask(figures) for collector in collectors]
    await asyncio.wait(waiting, timeout=budget_s)
    lines: list[str] = []
    for collector, answer in zip(collectors, waiting, strict=True):
        failed = 1
        if not answer.done():
            answer.cancel()
            lines.append(f"# {collector.name}: took longer than {budget_s:g} s")
        elif (error := answer.exception()) is not None:
            words = " ".join(f"{type(error).__name__}: {error}".split())
            lines.append(f"# {collector.name}: {words}")
        else:
            lines += answer.result()
            failed = 0
        lines.append(f'rota_collector_failed{{collector="{_escape(collector.name)}"}} {failed}')
    return "\n".join([*lines, ""])


def _line(sample: Sample) -> str:
    if not _NAME.fullmatch(str(sample.name)):
        raise ValueError(f"{sample.name!r} is no name of a metric")
    if isinstance(sample.value, bool) or not isinstance(sample.value, int | float):
        raise ValueError(f"{sample.name}: {sample.value!r} is no number")
    labels = []
    for key, text in sample.labels.items():
        if not _LABEL.fullmatch(str(key)):
            raise ValueError(f"{sample.name}: {key!r} is no name of a label")
        labels.append(f'{key}="{_escape(str(text))}"')
    inside = f"{{{','.join(labels)}}}" if labels else ""
    return f"{sample.name}{inside} {sample.value:.17g}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
