"""Runs side by side as text: one line per policy, as many figures as the width holds."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.answers.bands import SHARES
from rota.sim.bootstrap import difference, intervals
from rota.sim.catalogue import Figure, best, ratio, shown, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rota.sim.bootstrap import Interval, Intervals
    from rota.sim.figures import Summary
    from rota.sim.foresight import Foresight
    from rota.sim.run import Run

GAP = 2
#: A policy's name gives up width before a figure does, down to this.
NAME_LEAST = 12
BEST_STYLE = "bold green"
#: Figures of a placed list, and their headings.
PLACED = {"failed": "no room", "unallocated_gpus": "free GPUs", "jobs_per_second": "jobs/CPU s"}
CLASS_TITLES = {"by_size": "size", "by_length": "length", "by_group": "group"}


class CompareColumn(NamedTuple):
    """Texts under a heading, and which of them are the best."""

    title: str
    texts: Sequence[str]
    #: The highest is dropped first.
    rank: int = 0
    best: frozenset[int] = frozenset()


def comparison(
    summaries: Mapping[str, Summary], width: int | None = None, colour: bool = False
) -> list[str]:
    """One line per policy. ``width`` of None drops nothing: a pipe gets every figure.

    With ``colour``, which is for terminals, the best value of each column stands out.
    """
    columns = [_column(figure, summaries) for figure in shown(list(summaries.values()))]
    return _table("policy", list(summaries), columns, width, colour)


def class_comparison(
    summaries: Mapping[str, Summary],
    kind: str,
    width: int | None = None,
    colour: bool = False,
) -> list[str]:
    """Mean bounded slowdown per class of jobs; ``kind`` is by_size, by_length or by_group.

    Nothing where the trace has no such classes. The classes with most jobs stay when it is narrow.
    """
    jobs = {
        name: entry["jobs"]
        for summary in summaries.values()
        for name, entry in summary[kind].items()
    }
    ranks = {name: rank for rank, name in enumerate(sorted(jobs, key=lambda n: (-jobs[n], n)))}
    columns = []
    for name in jobs:
        inner = {policy: summary[kind].get(name, {}) for policy, summary in summaries.items()}
        figure = Figure("mean_bounded_slowdown", name or "(none)", "", ranks[name], ratio, -1)
        columns.append(_column(figure, inner))
    if not columns:
        return []
    title = f"slowdown by {CLASS_TITLES[kind]}"
    return _table(title, list(summaries), columns, width, colour)


def placing_table(
    summaries: Mapping[str, Summary], width: int | None = None, colour: bool = False
) -> list[str]:
    """For lists of jobs that come and stay: how much was given out when how much was asked for."""
    first = next(iter(summaries.values()))
    asked = [step for step in first["allocated"] if int(step) % 10 == 0 and int(step) >= 50]
    columns = [
        CompareColumn(
            f"{step} %", [f"{summary['allocated'][step]:.2f}" for summary in summaries.values()]
        )
        for step in asked
    ]
    for key, title in PLACED.items():
        texts = [f"{summary[key]:,.6g}" for summary in summaries.values()]
        columns.append(CompareColumn(title, texts, rank=1))
    return _table("given out when asked for", list(summaries), columns, width, colour)


def foresight_table(foresights: Sequence[Foresight], width: int | None = None) -> list[str]:
    """How good the words at submit were: one line per policy."""

    def column(title: str, text: Callable[[Foresight], str]) -> CompareColumn:
        return CompareColumn(title, [text(each) for each in foresights])

    columns = [
        column("asked", lambda each: f"{len(each.told):,}"),
        column("median wait s", lambda each: whole(each.median_wait_s)),
        column("error s", lambda each: whole(each.error_s)),
        column("by limits s", lambda each: whole(each.limits_error_s)),
    ]
    held = [*zip(*(each.coverage for each in foresights), strict=True)]
    for share, texts in zip(SHARES, held, strict=True):
        columns.append(
            CompareColumn(f"in {100 * share:.0f} %", [f"{100 * each:.1f}" for each in texts])
        )
    columns.append(column("50 % shared", lambda each: f"{100 * each.shared[0]:.1f}"))
    columns.append(column("9 in 10", lambda each: f"{100 * each.in_time:.1f}"))
    columns.append(column("exact", lambda each: f"{100 * each.exact:.1f}"))
    return _table("told at submit", [each.policy for each in foresights], columns, width, False)


def interval_table(runs: Sequence[Run], seed: int = 0, width: int | None = None) -> list[str]:
    """Each policy's means with their intervals, then the paired differences to the first one.

    Nothing where the trace is too short for intervals, no difference where other jobs finished.
    """
    rows = [(run.policy, intervals(run, seed)) for run in runs]
    rows += [
        (f"{run.policy} - {runs[0].policy}", difference(run, runs[0], seed)) for run in runs[1:]
    ]
    known = [(name, both) for name, both in rows if both is not None]
    if not known:
        return []
    columns = [
        CompareColumn("wait s (95 %)", [_wait_text(both) for _, both in known], 1),
        CompareColumn("slowdown (95 %)", [_slowdown_text(both) for _, both in known], 2),
    ]
    return _table("policy", [name for name, _ in known], columns, width, False)


def _wait_text(both: Intervals) -> str:
    return interval_text(both.mean_wait, whole)


def _slowdown_text(both: Intervals) -> str:
    return interval_text(both.mean_bounded_slowdown, ratio)


def interval_text(interval: Interval, show: Callable[[float], str]) -> str:
    return f"{show(interval.value)} ({show(interval.low)} to {show(interval.high)})"


def _column(figure: Figure, summaries: Mapping[str, Summary]) -> CompareColumn:
    winners = best(figure, summaries)
    return CompareColumn(
        title=figure.title,
        texts=[figure.text(summary) for summary in summaries.values()],
        rank=figure.rank,
        best=frozenset(place for place, policy in enumerate(summaries) if policy in winners),
    )


def _table(
    heading: str,
    names: Sequence[str],
    columns: Sequence[CompareColumn],
    width: int | None,
    colour: bool,
) -> list[str]:
    # Imported here because it costs more than the figures of a short run.
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    name_texts = [_clean(text) for text in (heading, *names)]
    name_width = max(map(cell_len, name_texts))
    if width is not None:
        columns = _fitting(columns, width - min(name_width, NAME_LEAST))
        name_width = min(name_width, max(NAME_LEAST, width - sum(map(_width, columns))))
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="")
    table.add_column(Text(name_texts[0]), no_wrap=True, overflow="ellipsis", width=name_width)
    for column in columns:
        table.add_column(Text(_clean(column.title)), justify="right", no_wrap=True)
    for place, name in enumerate(name_texts[1:]):
        cells = [_cell(column, place) for column in columns]
        table.add_row(
            Text(name), *(Text(text, BEST_STYLE if marked else "") for text, marked in cells)
        )
    out = io.StringIO()
    full = name_width + sum(map(_width, columns)) + GAP
    Console(
        file=out,
        width=full,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
    ).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def _cell(column: CompareColumn, place: int) -> tuple[str, bool]:
    return column.texts[place], place in column.best


def _width(column: CompareColumn) -> int:
    """What a column takes, with the gap before it."""
    return GAP + max(len(text) for text in (_clean(column.title), *column.texts))


def _fitting(columns: Sequence[CompareColumn], width: int) -> list[CompareColumn]:
    """The columns without the least important ones, as many as the width asks for."""
    kept = list(columns)
    while len(kept) > 1 and sum(map(_width, kept)) > width:
        kept.remove(max(kept, key=lambda column: column.rank))
    return kept


def _clean(text: str) -> str:
    """One printable line: what a trace says must not play with somebody's terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)
