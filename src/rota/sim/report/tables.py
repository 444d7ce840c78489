"""The tables of a report as HTML; everything that a trace or a user says is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from rota.sim.catalogue import Figure, best, ratio, shown, whole
from rota.sim.compare import interval_text
from rota.sim.measures import mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rota.sim.bootstrap import Intervals
    from rota.sim.figures import Summary
    from rota.sim.verdict import JobPair

GROUPS_MAX = 20
CLASS_FIGURES = (
    Figure("mean_wait", "", "mean wait, seconds", 0, whole, -1),
    Figure("mean_bounded_slowdown", "", "mean bounded slowdown", 0, ratio, -1),
)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already; the first of each row is its heading."""
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{c}</td>" for c in row[1:]) + "</tr>"
        for row in rows
    )
    titles = "".join(f'<th scope="col">{title}</th>' for title in head)
    return (
        '<div class="wide"><table><thead><tr>'
        f"{titles}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def settings_table(settings: Mapping[str, str]) -> str:
    rows = [(escape(key), escape(value)) for key, value in settings.items()]
    return table(("setting", "value"), rows)


def figures_table(summaries: Mapping[str, Summary]) -> str:
    """One row per figure, one column per policy, the best in bold."""
    rows = [_row(figure, figure.meaning, summaries) for figure in shown(list(summaries.values()))]
    return table(("", *map(escape, summaries)), rows)


def _row(figure: Figure, heading: str, summaries: Mapping[str, Summary]) -> list[str]:
    winners = best(figure, summaries)
    cells = [
        f"<b>{figure.text(summary)}</b>" if policy in winners else figure.text(summary)
        for policy, summary in summaries.items()
    ]
    return [escape(heading), *cells]


def payers_table(before: str, after: str, payers: Sequence[tuple[str, Sequence[JobPair]]]) -> str:
    """Users that wait longer under another policy, in hours."""
    rows = []
    for user, own in payers:
        means = (mean([c.before_s for c in own]), mean([c.after_s for c in own]))
        longest = (max(c.before_s for c in own), max(c.after_s for c in own))
        hours = [f"{seconds / 3600:,.2f}" for seconds in (*means, *longest)]
        rows.append((escape(user or "(no user)"), f"{len(own):,}", *hours))
    names = [escape(name) for name in (before, after)]
    head = ("who pays", "jobs", *(f"mean wait, hours: {name}" for name in names))
    return table((*head, *(f"longest, hours: {name}" for name in names)), rows)


def class_table(summaries: Mapping[str, Summary], kind: str) -> str:
    """Two figures per class; nothing where the trace has no such classes."""
    jobs: dict[str, int] = {}
    for summary in summaries.values():
        for name, entry in summary[kind].items():
            jobs[name] = max(jobs.get(name, 0), entry["jobs"])
    if not jobs:
        return ""
    kept = set(sorted(jobs, key=lambda name: (-jobs[name], name))[:GROUPS_MAX])
    parts = []
    for figure in CLASS_FIGURES:
        rows = []
        for name in (name for name in jobs if name in kept):
            inner = {policy: summary[kind].get(name, {}) for policy, summary in summaries.items()}
            row = _row(figure, name or "(none)", inner)
            rows.append([row[0], f"{jobs[name]:,}", *row[1:]])
        parts.append(table((escape(figure.meaning), "jobs", *map(escape, summaries)), rows))
    more = len(jobs) - len(kept)
    note = f"<p>{more:,} more with fewer jobs are left out.</p>" if more else ""
    return f'<div class="pair">{"".join(parts)}</div>{note}'


def difference_table(base: str, differences: Mapping[str, Intervals]) -> str:
    """Paired differences to the first policy, and whether they are more than chance."""
    if not differences:
        return ""
    rows = [
        (
            escape(policy),
            interval_text(both.mean_wait, whole) + _mark(both.mean_wait.excludes_zero),
            interval_text(both.mean_bounded_slowdown, ratio)
            + _mark(both.mean_bounded_slowdown.excludes_zero),
        )
        for policy, both in differences.items()
    ]
    head = (f"against {escape(base)}", "mean wait, seconds", "mean bounded slowdown")
    return table(head, rows)


def _mark(certain: bool) -> str:
    return "" if certain else ' <span class="faint">may be chance</span>'
