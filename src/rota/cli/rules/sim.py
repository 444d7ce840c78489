"""``rota sim``: a recorded workload through the scheduling core, under one policy or several."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.rules.sim_options import sim_options
from rota.cli.shared import render, session
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.sim.foresight import Foresight
    from rota.sim.machine import SimMachine
    from rota.sim.run import Run
    from rota.sim.settings import SimSettings
    from rota.sim.trace import Trace

#: How jobs are sorted for figures per class.
CLASSES = ("by_size", "by_length", "by_group")

EPILOG = """\b
Examples:
  rota sim KTH-SP2.swf.gz --policy fcfs,easy,conservative
  rota sim log.swf --procs 128 --policy easy --estimates predicted --report report.html
  rota sim log.swf --nodes 32 --policy easy --events single --out results
  rota sim log.swf --policy easy,due --foresight
  sacct -aPX -S 2026-01-01 -o ALL > past.txt; rota sim past.txt --procs 512 --policy easy,due
  rota sim pods.csv --cluster nodes.csv --policy score,best-fit,fgd
  rota sim gpus.csv --nodes 8 --policy easy,easy+spread,default+fgd
  rota sim --history ~/.local/state/rota --policy easy,sjf

\b
Writes DIR/POLICY/jobs.csv and DIR/summary.json with --out DIR. docs/sim.md explains every rule
that changes results."""


@click.command(epilog=EPILOG)
@click.argument("trace", required=False, type=click.Path(path_type=Path))
@sim_options
def sim(trace: Path | None, **options: Any) -> None:
    """Play a recorded workload (TRACE) through Rota's own scheduling core on a virtual clock.

    TRACE is a log in the Standard Workload Format, an export of Slurm's accounting (sacct -P or
    --json), one of the published GPU traces, or our own CSV or JSONL, plain or .gz. Several
    policies end in one table and a verdict.
    """
    from rota.sim.trace import BadTrace

    try:
        _simulate(trace, options)
    except BadTrace as problem:
        raise Rejected(str(problem)) from None


def _simulate(path: Path | None, options: dict[str, Any]) -> None:
    from rota.sim.policies import check_name
    from rota.sim.simulate import PlacingOrders, simulate

    names = [*dict.fromkeys(check_name(name) for name in options["policy"])]
    trace = _cut(_read(path, options), options)
    machine = _machine(trace, options)
    settings = _settings(options)
    orders = PlacingOrders(
        arrivals=_names(options["arrivals"]), nodes=_names(options["node_order"])
    )
    runs: list[Run] = []
    for name in names:
        try:
            with _Bar(name, len(trace.jobs), quiet=options["quiet"]) as progress:
                runs.append(simulate(trace, machine, name, settings, orders, progress))
        except Rejected as refused:
            # One that cannot be played must not cost the others their line.
            if len(names) == 1 or (name == names[-1] and not runs):
                raise
            click.echo(f"note: {name} is left out: {refused.detail}", err=True)
    _tell(trace, machine, runs, _foresights(runs, settings, options), options)


def _foresights(
    runs: list[Run], settings: SimSettings, options: dict[str, Any]
) -> dict[str, Foresight]:
    """What would have been said at submit, by policy; nothing for what has no clock."""
    every = options["foresight_every"]
    if not options["foresight"]:
        if every:
            raise Rejected("--foresight-every: it goes with --foresight", field="foresight-every")
        return {}
    from rota.sim.foresight import foresee
    from rota.sim.policies import PLACINGS, RANKED, rules_of

    found: dict[str, Foresight] = {}
    for run in runs:
        if run.policy in PLACINGS:
            click.echo(f"{run.policy}: jobs come without a clock, nothing is foretold", err=True)
            continue
        rules = None if run.policy in RANKED else rules_of(run.policy, spare=settings.spare)
        found[run.policy] = foresee(run, rules, settings, every or 1)
        run.extra["foresight"] = found[run.policy].figures
    return found


def _read(path: Path | None, options: dict[str, Any]) -> Trace:
    from rota.sim.readers import read_trace

    history = options["history"]
    if (path is None) == (history is None):
        raise Rejected("give a TRACE, or --history STATE_DIR for what this installation recorded")
    if history is not None:
        from rota.sim.history import read_history

        return read_history(history)
    assert path is not None
    return read_trace(path, options["kind"] or "", sort=options["sort"])


def _cut(trace: Trace, options: dict[str, Any]) -> Trace:
    from rota.sim.cut import Cut, cut

    return cut(
        trace,
        Cut(
            skip=options["skip"],
            jobs=options["jobs"] or 0,
            from_s=options["from_"] or 0,
            to_s=float("inf") if options["to"] is None else options["to"],
            scale=dict(options["scale"]),
        ),
    )


def _machine(trace: Trace, options: dict[str, Any]) -> SimMachine:
    from rota.sim.machine import machine_for
    from rota.sim.readers import read_cluster

    cluster = options["cluster"]
    given = [name for name in ("procs", "nodes", "cluster") if options[name]]
    if len(given) > 1:
        raise Rejected(f"give one of --procs, --nodes and --cluster, not --{' and --'.join(given)}")
    return machine_for(
        trace,
        procs=options["procs"] or 0,
        nodes=options["nodes"] or 0,
        per_node=options["per_node"] or 0,
        cluster=read_cluster(cluster) if cluster else (),
    )


def _settings(options: dict[str, Any]) -> SimSettings:
    from rota.sim.settings import Events, SimEstimates, SimOverrun, SimSettings

    return SimSettings(
        events=Events(options["events"]),
        estimates=SimEstimates(options["estimates"]) if options["estimates"] else None,
        overrun=SimOverrun(options["overrun"]),
        spare=options["spare"],
    )


def _names(path: Path | None) -> list[str] | None:
    """A list of names, one per line, plain or .gz."""
    if path is None:
        return None
    from rota.sim.readers.names import read_names

    return read_names(path)


def _tell(
    trace: Trace,
    machine: SimMachine,
    runs: list[Run],
    foresights: dict[str, Foresight],
    options: dict[str, Any],
) -> None:
    """The table on the screen, and the files that were asked for."""
    from rota.sim.compare import (
        class_comparison,
        comparison,
        foresight_table,
        interval_table,
        placing_table,
    )
    from rota.sim.figures import summarise
    from rota.sim.verdict import verdict_of

    summaries = {run.policy: summarise(run) for run in runs}
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    colour = session.in_colour()
    for line in _facts(trace, machine, runs):
        click.echo(line)
    placed = {name: each for name, each in summaries.items() if "allocated" in each}
    played = {name: each for name, each in summaries.items() if name not in placed}
    tables = [placing_table(placed, width, colour=colour)] if placed else []
    if played:
        tables.append(comparison(played, width, colour=colour))
        tables += [class_comparison(played, kind, width, colour=colour) for kind in CLASSES]
    if len(played) > 1:
        chosen = [run for run in runs if run.policy in played]
        tables.append(interval_table(chosen, options["seed"], width))
        said = verdict_of(chosen[0], chosen[1:], options["seed"])
        tables.append([render.clean(line) for line in said])
    if foresights:
        tables.append(foresight_table([*foresights.values()], width))
    click.echo("\n\n".join("\n".join(table) for table in tables if table))
    if options["out"]:
        _write(options["out"], runs, foresights, summaries, parquet=options["parquet"])
    if options["report"]:
        _report(trace, machine, runs, summaries, options)


def _facts(trace: Trace, machine: SimMachine, runs: list[Run]) -> list[str]:
    """What was played, and what was left out."""
    where = f"{machine.capacity:,} {trace.unit}"
    if machine.nodes:
        where += f" on {len(machine.nodes):,} nodes"
    lines = [f"{trace.name}: {len(trace.jobs):,} jobs on {where}"]
    lines += [f"left out: {count:,} ({why})" for why, count in trace.left_out.items()]
    if runs[0].too_large:
        lines.append(f"left out: {runs[0].too_large:,} (larger than the machine)")
    return [*lines, ""]


def _write(
    folder: Path,
    runs: list[Run],
    foresights: dict[str, Foresight],
    summaries: dict[str, Any],
    *,
    parquet: bool,
) -> None:
    from rota.sim.writers import write_foresight, write_jobs, write_parquet, write_summary

    try:
        for run in runs:
            place = folder / run.policy
            place.mkdir(parents=True, exist_ok=True)
            write_jobs(run, place / "jobs.csv")
            if parquet:
                write_parquet(run, place / "jobs.parquet")
            if run.policy in foresights:
                write_foresight(foresights[run.policy], place / "foresight.csv")
        write_summary(folder / "summary.json", summaries)
    except OSError as problem:
        raise Rejected(f"--out {folder}: {problem.strerror or problem}") from None
    click.echo(f"\nwrote {folder}/summary.json and {len(runs)} x {folder}/POLICY/jobs.csv")


def _report(
    trace: Trace,
    machine: SimMachine,
    runs: list[Run],
    summaries: dict[str, Any],
    options: dict[str, Any],
) -> None:
    from rota.sim.report import write_report

    settings = {
        "trace": trace.name,
        "jobs": f"{len(trace.jobs):,}",
        "machine": f"{machine.capacity:,} {trace.unit}",
        "events of one instant": options["events"],
        "estimates": options["estimates"] or "as the policy says",
        "overrun": options["overrun"],
        "seed": str(options["seed"]),
    }
    title = f"{trace.name}: {', '.join(run.policy for run in runs)}"
    try:
        write_report(
            options["report"], title, settings, runs, [*summaries.values()], options["seed"]
        )
    except OSError as problem:
        raise Rejected(f"--report {options['report']}: {problem.strerror or problem}") from None
    click.echo(f"wrote {options['report']}")


class _Bar:
    """A progress bar on the terminal; nothing where nobody looks."""

    def __init__(self, name: str, count: int, *, quiet: bool) -> None:
        self._shown = sys.stderr.isatty() and not quiet
        self._name, self._count = name, count
        self._progress: Any = None

    def __enter__(self) -> Callable[[int], object] | None:
        if not self._shown:
            return None
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} jobs"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._progress.start()
        task = self._progress.add_task(self._name, total=self._count)
        return lambda done: self._progress.update(task, completed=done)

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()
