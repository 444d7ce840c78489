"""Options of ``submit`` and ``run`` about where a job runs and how it gives way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rota.cli.shared import types
from rota.cli.shared.options import SectionOption

if TYPE_CHECKING:
    from collections.abc import Callable

_option = SectionOption.under
_WHERE = "Where it runs"
_WAY = "How firm its claim is"


def _reader(name: str, **settings: bool) -> Callable[[str], object]:
    """A function of ``core.placing_text``, imported only when somebody wishes for something."""

    def read(text: str) -> object:
        from rota.core.words import placing_text

        return getattr(placing_text, name)(text, **settings)

    return read


def where() -> list[click.Parameter]:
    """Where it may run."""
    return [*_nodes(), *_clusters(), *_wishes()]


def _clusters() -> list[click.Parameter]:
    """Which of several clusters."""
    return [
        _option(
            _WHERE, "--cluster", metavar="NAME", help="Only on this cluster; see rota clusters."
        ),
        _option(_WHERE, "--engine", metavar="NAME", help="Only on this engine."),
        _option(
            _WHERE,
            "--vdc",
            metavar="NAME",
            help="In this virtual data centre: its clusters, chosen by its strategy, its caps.",
        ),
    ]


def _nodes() -> list[click.Parameter]:
    """How many nodes, and which."""
    return [
        _option(
            _WHERE,
            "-N",
            "--nodes",
            type=types.AT_LEAST_ONE,
            help="Exactly N nodes, the tasks spread over them (one each if not said).",
        ),
        _option(
            _WHERE, "--tasks-per-node", type=types.AT_LEAST_ONE, help="Tasks on each of the nodes."
        ),
        _option(
            _WHERE,
            "-w",
            "--nodelist",
            type=types.Nodes(),
            multiple=True,
            help="Only these nodes: a,b or n[1-3].",
        ),
        _option(
            _WHERE, "-x", "--exclude", type=types.Nodes(), multiple=True, help="Not these nodes."
        ),
        _option(
            _WHERE, "--exclusive/--no-exclusive", default=False, help="Nothing else on its nodes."
        ),
    ]


def _wishes() -> list[click.Parameter]:
    """Labels, taints, neighbours."""

    def wish(*names: str, read: Callable[[str], object], metavar: str, text: str) -> SectionOption:
        kind = types.ServerText("wish", read)
        return _option(_WHERE, *names, type=kind, multiple=True, metavar=metavar, help=text)

    return [
        wish(
            "-C",
            "--constraint",
            read=_reader("parse_selectors"),
            metavar="LABELS",
            text="Labels of its nodes: rack=a, rack=a|b, rack!=a, gpu_mem>40, ssd, !ssd. With ? or "
            "?5 behind it only preferred. Repeatable; all must hold.",
        ),
        wish(
            "--tolerate",
            read=_reader("parse_toleration"),
            metavar="TAINT",
            text="A taint that it bears: KEY, KEY=VALUE, * for all. Repeatable.",
        ),
        wish(
            "--near",
            read=_reader("parse_affinity", apart=False),
            metavar="LABEL",
            text="On a node with jobs that have this label: app=web; app=web@rack for the same "
            "rack; ? only prefers it.",
        ),
        wish(
            "--apart",
            read=_reader("parse_affinity", apart=True),
            metavar="LABEL",
            text="Away from jobs that have this label, likewise.",
        ),
        _option(
            _WHERE,
            "--topology",
            type=types.ServerText("label", _reader("parse_label_key")),
            metavar="LABEL",
            help="All its nodes with the same value of this label: rack.",
        ),
        _option(
            _WHERE,
            "--data",
            type=types.Words(),
            multiple=True,
            metavar="NAMES",
            help="Data sets that it reads: nodes that have a copy are preferred.",
        ),
    ]


def giving_way() -> list[click.Parameter]:
    """Service class, deadline, preemption."""
    return [
        _option(
            _WAY,
            "--qos",
            type=click.Choice(["guaranteed", "burstable", "best-effort"]),
            help="guaranteed never gives way, best-effort always does.  [default: burstable]",
        ),
        _option(
            _WAY,
            "--deadline",
            type=types.DEADLINE,
            help="When it should be done: 18:00, 2026-11-15T18:00, now+2h; none.",
        ),
        _option(
            _WAY,
            "--by",
            type=types.DEADLINE,
            help="Promise that it is done by then: yes keeps room, no refuses. Needs --time.",
        ),
        _option(
            _WAY,
            "--estimate",
            type=types.DURATION,
            help="How long it will probably run.  [default: its --time]",
        ),
        _option(
            _WAY,
            "--preemptible/--no-preemptible",
            default=False,
            help="May give way to more urgent jobs.",
        ),
        _option(
            _WAY,
            "--preempt-mode",
            type=click.Choice(["requeue", "checkpoint", "suspend", "cancel"]),
            help="How it gives way.  [default: as the policy says]",
        ),
        _option(
            _WAY,
            "--preempt-retries",
            type=types.COUNT,
            help="How often it comes back after that.  [default: 100]",
        ),
        *_saving(),
        _option(
            _WAY,
            "--restart-cost",
            type=types.DURATION,
            help="What a restart costs it beyond lost work.",
        ),
        _option(
            _WAY,
            "--type",
            type=click.Choice(["training", "inference", "workflow"]),
            help="What kind of work it is, for quotas by type.",
        ),
    ]


def _saving() -> list[click.Parameter]:
    """How it hears that its work shall be saved."""
    return [
        _option(
            _WAY,
            "--checkpoint-signal",
            metavar="SIGNAL",
            help="Sent when it must give way or its time is over, so that it can save: USR1.",
        ),
        _option(
            _WAY,
            "--signal",
            "warning",
            type=types.WARNING,
            help="Sent once before its time limit: USR1@5m.  [default time: 1m]",
        ),
        _option(
            _WAY,
            "--save-signal",
            metavar="SIGNAL",
            help="Sent when it shall save its work and go on: USR2.",
        ),
        _option(
            _WAY,
            "--save-every",
            type=types.DURATION,
            help="Ask it to save its work this often: 15m. Needs --save-signal.",
        ),
    ]
