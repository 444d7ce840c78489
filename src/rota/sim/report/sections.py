"""The sections of a page: a heading, what can be read from the picture, and the picture's place."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from rota.sim.bootstrap import BLOCKS, DRAWS, difference
from rota.sim.report import tables
from rota.sim.report.pictures import unit_for
from rota.sim.report.series import CALM
from rota.sim.verdict import changes_to, verdict_of, who_pays

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rota.sim.bootstrap import Intervals
    from rota.sim.figures import Summary
    from rota.sim.report.gantt import Gantt
    from rota.sim.report.series import Series, TraceSpan
    from rota.sim.run import Run

#: The most users that pay for a policy that are listed.
PAYERS_MAX = 10
CLASS_HEADINGS = {
    "by_size": "By size",
    "by_length": "By length (short: to 15 min, medium: to 4 h)",
    "by_group": "By group",
}


def section(heading: str, caption: str, *parts: str) -> str:
    """``caption`` and ``parts`` are HTML already."""
    text = f"<p>{caption}</p>" if caption else ""
    return f"<section><h2>{heading}</h2>{text}{''.join(parts)}</section>"


def place(name: str) -> str:
    """Where the page's script puts a picture."""
    return f'<div class="picture" id="{name}"></div>'


def facts(runs: Iterable[Run], span: TraceSpan) -> str:
    """The line under the title."""
    first, *_ = runs = list(runs)
    unit = unit_for(span)
    length = (span.until_s - span.since_s) / unit.seconds
    many = f"{len(runs)} policies" if len(runs) > 1 else "one policy"
    return escape(
        f"{len(first.jobs):,} jobs over {length:,.1f} {unit.name} "
        f"on {first.capacity:,} {first.unit}, {many}"
    )


def verdicts(runs: Sequence[Run], seed: int) -> list[str]:
    """What each policy means against the first, and which users pay for it; nothing for one."""
    base, *others = runs
    parts = []
    for run, said in zip(others, verdict_of(base, others, seed), strict=True):
        payers = who_pays(changes_to(base, run), PAYERS_MAX)
        table = tables.payers_table(base.policy, run.policy, payers) if payers else ""
        parts.append(f"<p><b>{escape(said)}</b></p>{table}")
    return [section("Verdict", "", "".join(parts))] if parts else []


def policies(played: Mapping[str, Run], known: bool, seed: int) -> str:
    """The comparison; ``known`` says whether the means have intervals."""
    if not known:
        caption = f"The trace is too short for intervals: they need {2 * BLOCKS} jobs."
        return section("The policies compared", caption, place("policies"))
    caption = (
        f"Means over all jobs. The bars are 95 % intervals from {DRAWS:,} draws of {BLOCKS} blocks "
        f"of consecutive jobs (seed {seed}). Where means lie far apart the axis is logarithmic."
    )
    table = tables.difference_table(next(iter(played)), _differences(played, seed))
    note = (
        "<p>Paired differences: every draw takes the same blocks from both policies, so a burst "
        "that hit both cancels out. Below zero is better than the first policy.</p>"
    )
    return section(
        "The policies compared", caption, place("policies"), note + table if table else ""
    )


def _differences(played: Mapping[str, Run], seed: int) -> dict[str, Intervals]:
    """To the first policy; one that finished other jobs has none."""
    (_, base), *others = played.items()
    found = {name: difference(run, base, seed) for name, run in others}
    return {name: both for name, both in found.items() if both is not None}


def figures(summaries: Mapping[str, Summary]) -> str:
    best = "The best of each row is bold. " if len(summaries) > 1 else ""
    caption = (
        f"{best}Bounded slowdown is (wait + run) / run, at least 1, where a run below 10 s "
        "counts as 10 s."
    )
    parts = [tables.figures_table(summaries)]
    for kind, heading in CLASS_HEADINGS.items():
        classes = tables.class_table(summaries, kind)
        if classes:
            parts.append(f"<h3>{heading}</h3>{classes}")
    return section("Figures", caption, *parts)


def over_time(series: Series) -> list[str]:
    """Use and queue. The width of a step is said, because it decides what a mean can show."""
    caption = (
        f"The thin line is the mean over steps of {_length(series.step_s)}, the thick one over "
        f"{_length(CALM * series.step_s)}; the shade reaches from the lowest to the highest value "
        "in each step."
    )
    return [
        section("Use of the machine", f"Share in use. {caption}", place("used")),
        section("Length of the queue", f"Jobs that wait. {caption}", place("waiting")),
    ]


def _length(length_s: float) -> str:
    """In the largest unit of which there is more than one."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if length_s >= 2 * size:
            return f"{length_s / size:.3g} {unit}"
    return f"{length_s:.3g} s"


def waits() -> str:
    caption = (
        "A box holds the middle half of the jobs of a size, its line is the median, and the "
        "whiskers reach from the 5th to the 95th percentile. The axis is logarithmic; waits below "
        "a second stand at one second."
    )
    return section("Wait by size of the job", caption, place("sizes"))


def gantt(
    played: Mapping[str, Run], charts: Mapping[str, Gantt], view: TraceSpan, span: TraceSpan
) -> str:
    """The chart's caption says what is not drawn."""
    named = any(any(run.nodes) for run in played.values())
    rows = (
        "Rows are nodes; jobs that share one stand above each other."
        if named
        else "Processors have no names here: each job is drawn on the lowest that are free."
    )
    caption = f"Each bar is a job, its colour how long it had waited. {rows}"
    tabs = "".join(
        f'<button type="button" aria-pressed="false">{escape(name)}</button>' for name in played
    )
    return section(
        "Who ran where",
        caption,
        _left_out(played, charts, view, span),
        f'<div class="tabs" id="gantt-tabs">{tabs}</div>',
        place("gantt"),
    )


def _left_out(
    played: Mapping[str, Run], charts: Mapping[str, Gantt], view: TraceSpan, span: TraceSpan
) -> str:
    counts = [
        f"{escape(name)} {chart.jobs:,} of {len(played[name].jobs):,}"
        for name, chart in charts.items()
        if chart.jobs < len(played[name].jobs)
    ]
    if not counts:
        return ""
    unit = unit_for(span)
    return (
        '<p class="note">A browser cannot draw them all: shown are jobs that ran between '
        f"{unit.name} {view.since_s / unit.seconds:,.2f} and {view.until_s / unit.seconds:,.2f}, "
        f"around the longest queue of the first policy. Drawn: {', '.join(counts)} jobs.</p>"
    )
