"""The page: what stands where, and the one file that it becomes."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

from rota.core.facts.errors import Rejected, Unavailable
from rota.sim.bootstrap import intervals
from rota.sim.measures import finished, measure
from rota.sim.report import pictures, sections, tables
from rota.sim.report.gantt import gantt, window
from rota.sim.report.series import used_over_time, waiting_over_time, whole_span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rota.sim.figures import Summary
    from rota.sim.report.series import Series
    from rota.sim.run import Run


def write_report(
    path: Path,
    title: str,
    settings: Mapping[str, str],
    runs: Sequence[Run],
    summaries: Sequence[Summary],
    seed: int = 0,
) -> None:
    """Write one page about these runs; ``seed`` is for the intervals.

    The file appears whole or not at all: a half-written page would look like an empty result.
    """
    text = page(title, settings, runs, summaries, seed)
    beside = path.with_name(path.name + ".part")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def page(
    title: str,
    settings: Mapping[str, str],
    runs: Sequence[Run],
    summaries: Sequence[Summary],
    seed: int = 0,
) -> str:
    """The whole page as text."""
    if not runs:
        raise Rejected.bad("runs", "none", "a report is about at least one run")
    plotly = _plotly()
    labels = _labels(runs)
    by_label = dict(zip(labels, summaries, strict=True))
    played = dict(zip(labels, map(finished, runs), strict=True))
    drawn, parts = _draw(played, by_label, seed)
    chosen = f'<div class="settings">{tables.settings_table(settings)}</div>'
    script = _part("page.js")
    return Template(_part("page.html")).substitute(
        title=escape(title),
        facts=sections.facts(played.values(), whole_span(played.values())),
        rules=_rules(plotly, script),
        style=_part("page.css"),
        sections="\n".join([*parts, sections.section("Settings of the run", "", chosen)]),
        pictures=_json(drawn),
        plotly=plotly,
        script=script,
    )


def _draw(
    played: Mapping[str, Run], summaries: Mapping[str, Summary], seed: int
) -> tuple[dict[str, Any], list[str]]:
    """The pictures by name, and the sections that hold them."""
    runs = list(played.values())
    span = whole_span(runs)
    unit = pictures.unit_for(span)
    measures = {name: measure(run) for name, run in played.items()}
    means = {name: intervals(run, seed) for name, run in played.items()}
    used = {name: used_over_time(run, span) for name, run in played.items()}
    waiting = {name: waiting_over_time(run, span) for name, run in played.items()}
    view = window(runs, _fullest(next(iter(waiting.values()))), span)
    charts = {name: gantt(run, view) for name, run in played.items()}
    fixed = {
        "policies": pictures.policies(
            {
                name: both or (summary["mean_wait"], summary["mean_bounded_slowdown"])
                for (name, both), summary in zip(means.items(), summaries.values(), strict=True)
            }
        ),
        "used": pictures.over_time(used, [100 / (run.capacity or 1) for run in runs], "%", unit),
        "waiting": pictures.over_time(waiting, [1.0] * len(runs), "jobs", unit),
        "sizes": pictures.wait_by_size(
            {name: (run, measures[name]) for name, run in played.items()}, runs[0].unit
        ),
    }
    chart_unit = pictures.unit_for(view)
    bars = [
        pictures.gantt_picture(run, charts[name], view, measures[name], chart_unit)
        for name, run in played.items()
    ]
    parts = [
        *sections.verdicts(runs, seed),
        sections.policies(played, any(means.values()), seed),
        sections.figures(summaries),
        *sections.over_time(next(iter(used.values()))),
        sections.waits(),
        sections.gantt(played, charts, view, span),
    ]
    return {"fixed": fixed, "gantt": bars}, parts


def _labels(runs: Sequence[Run]) -> list[str]:
    """The policies' names; a name that comes again gets a number."""
    labels: list[str] = []
    for run in runs:
        again = sum(run.policy == earlier.policy for earlier in runs[: len(labels)])
        labels.append(f"{run.policy} ({again + 1})" if again else run.policy)
    return labels


def _fullest(waiting: Series) -> float:
    """When most jobs waited."""
    place = max(range(len(waiting.high)), key=waiting.high.__getitem__)
    return waiting.since_s + (place + 0.5) * waiting.step_s


def _plotly() -> str:
    """The drawing code, which travels inside the page."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as absent:
        raise Unavailable("the report needs plotly: pip install 'rota[sim]'") from absent
    return str(get_plotlyjs())


def _rules(*scripts: str) -> str:
    """What a browser lets this page do: its own two scripts, and nothing over the network."""
    digests = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in scripts
    )
    return (
        f"default-src 'none'; script-src {digests}; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _json(value: object) -> str:
    """JSON that cannot end the element which it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
