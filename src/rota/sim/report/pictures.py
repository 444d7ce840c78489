"""The pictures of a report, in the words of plotly: plain dictionaries of traces and layout.

Text of a trace is escaped here, because plotly reads a little HTML in every label.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.core.words.units import format_duration
from rota.sim.figures import SIZE_NAMES, size_class
from rota.sim.measures import held_in_pieces, quantile
from rota.sim.report.series import smoothed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rota.sim.bootstrap import Interval, Intervals
    from rota.sim.measures import RunMeasures
    from rota.sim.report.gantt import Gantt
    from rota.sim.report.series import Series, TraceSpan
    from rota.sim.run import Run

Picture = dict[str, Any]

#: Okabe and Ito's colours without the yellow, which is lost on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333")
GRID = "#e4e7eb"
INK = "#1f2933"
ROW_HEIGHT = 130
LABEL_MAX = 60
#: Means that differ by more than this factor need a logarithm.
LOG_FROM = 20

#: From no wait to more than a day: greys and blues, then orange that catches the eye.
WAIT_CLASSES = (
    (1.0, "no wait", "#d3d8de"),
    (600.0, "up to 10 min", "#a6cee3"),
    (3600.0, "up to 1 h", "#5aa2cf"),
    (21600.0, "up to 6 h", "#1f6fb4"),
    (86400.0, "up to 1 day", "#f0a830"),
    (float("inf"), "longer", "#c8500a"),
)
#: A logarithm has no zero: waits below a second are drawn there.
WAIT_LEAST_S = 1.0
WAIT_TICKS = {1: "≤ 1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 21600: "6 h"}
WAIT_TICKS |= {86400: "1 d", 604800: "1 w", 2419200: "4 w", 31536000: "1 y"}


class AxisUnit(NamedTuple):
    name: str
    seconds: float

    def of(self, moment_s: float) -> float:
        return round(moment_s / self.seconds, 5)


def unit_for(span: TraceSpan) -> AxisUnit:
    """The unit in which a time axis has readable numbers."""
    length_s = span.until_s - span.since_s
    for unit in (AxisUnit("days", 86400.0), AxisUnit("hours", 3600.0), AxisUnit("minutes", 60.0)):
        if length_s >= 3 * unit.seconds:
            return unit
    return AxisUnit("seconds", 1.0)


def label(text: str) -> str:
    """Safe and short: a name may be as long as its writer liked, a label may not."""
    return escape(text if len(text) <= LABEL_MAX else text[: LABEL_MAX - 1] + "…", quote=False)


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def layout(**changes: object) -> dict[str, Any]:
    """What all pictures share."""
    return {
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": 70, "r": 20, "t": 10, "b": 50},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hoverlabel": {"align": "left", "bgcolor": "#ffffff", "font": {"color": INK}},
        **changes,
    }


def axis(title: str = "", **changes: object) -> dict[str, Any]:
    return {"title": {"text": title}, "gridcolor": GRID, "zeroline": False, **changes}


def over_time(
    series: Mapping[str, Series], scales: Sequence[float], title: str, unit: AxisUnit
) -> Picture:
    """One row per policy under each other, with one time axis: zooming one zooms all."""
    traces: list[dict[str, Any]] = []
    rows = len(series)
    axes: dict[str, Any] = {}
    top = max((max(one.high) * scale for one, scale in zip(series.values(), scales, strict=True)))
    for number, ((policy, one), scale) in enumerate(zip(series.items(), scales, strict=True)):
        suffix = "" if number == 0 else str(number + 1)
        traces += _row(label(policy), one, scale, unit, colour(number), "y" + suffix)
        axes["yaxis" + suffix] = axis(
            title,
            domain=[1 - (number + 1) / rows, 1 - (number + 0.14) / rows],
            range=[0, (top or 1) * 1.04],
        )
    notes = [
        {
            "text": f"<b>{label(policy)}</b>",
            "xref": "paper",
            "yref": "paper",
            "x": 1,
            "y": 1 - (number + 0.14) / rows,
            "xanchor": "right",
            "yanchor": "top",
            "showarrow": False,
            "bgcolor": "rgba(255,255,255,0.75)",
            "font": {"color": colour(number)},
        }
        for number, policy in enumerate(series)
    ]
    last = "y" + ("" if rows == 1 else str(rows))
    return {
        "data": traces,
        "layout": layout(
            height=60 + ROW_HEIGHT * max(rows, 2),
            showlegend=False,
            hovermode="x",
            annotations=notes,
            xaxis=axis(f"{unit.name} since the record began", anchor=last),
            **axes,
        ),
    }


def _row(
    policy: str, one: Series, scale: float, unit: AxisUnit, ink: str, y_axis: str
) -> list[dict[str, Any]]:
    """A band from the lowest to the highest level, and the mean in it."""
    common = {
        "type": "scatter",
        "mode": "lines",
        "x0": unit.of(one.since_s),
        "dx": one.step_s / unit.seconds,
        "xaxis": "x",
        "yaxis": y_axis,
    }
    band = {**common, "hoverinfo": "skip", "line": {"width": 0, "shape": "hv"}}
    fine = {**common, "hoverinfo": "skip", "line": {"width": 1, "color": ink + "70"}}
    return [
        {**band, "y": _scaled(one.low, scale)},
        {**band, "y": _scaled(one.high, scale), "fill": "tonexty", "fillcolor": ink + "2c"},
        {**fine, "y": _scaled(one.mean, scale)},
        {
            **common,
            "y": _scaled(smoothed(one.mean), scale),
            "name": policy,
            "line": {"width": 2, "color": ink},
            "hovertemplate": "%{y:.4~g}<extra>%{fullData.name}</extra>",
        },
    ]


def _scaled(values: Sequence[float], scale: float) -> list[float]:
    return [round(value * scale, 2) for value in values]


def wait_by_size(runs: Mapping[str, tuple[Run, RunMeasures]], unit_name: str) -> Picture:
    """Boxes from the first to the third quarter; whiskers hold 90 % of the jobs."""
    traces = []
    for number, (policy, (run, measures)) in enumerate(runs.items()):
        waits: dict[str, list[float]] = {name: [] for name in SIZE_NAMES}
        for job, wait in zip(run.jobs, measures.waits_s, strict=True):
            waits[size_class(job.procs)].append(max(wait, WAIT_LEAST_S))
        full = {name: sorted(found) for name, found in waits.items() if found}
        quarters = {
            key: [round(quantile(found, share), 1) for found in full.values()]
            for key, share in (
                ("lowerfence", 0.05),
                ("q1", 0.25),
                ("median", 0.5),
                ("q3", 0.75),
                ("upperfence", 0.95),
            )
        }
        traces.append(
            {
                "type": "box",
                "name": label(policy),
                "x": list(full),
                **quarters,
                "marker": {"color": colour(number)},
                "fillcolor": colour(number) + "50",
                "line": {"width": 1.5},
            }
        )
    present = {name for trace in traces for name in trace["x"]}
    return {
        "data": traces,
        "layout": layout(
            height=420,
            boxmode="group",
            xaxis=axis(
                f"{label(unit_name)} of the job",
                type="category",
                categoryorder="array",
                categoryarray=[name for name in SIZE_NAMES if name in present],
            ),
            yaxis=axis(
                "wait",
                type="log",
                tickmode="array",
                tickvals=list(WAIT_TICKS),
                ticktext=list(WAIT_TICKS.values()),
            ),
        ),
    }


def policies(means: Mapping[str, Intervals | tuple[float, float]]) -> Picture:
    """Mean wait and mean bounded slowdown as dots, with their intervals where they are known."""
    traces = []
    axes = []
    for column, name in enumerate(("mean wait, hours", "mean bounded slowdown")):
        scale = 3600.0 if column == 0 else 1.0
        dots = [
            _dot(label(policy), pair[column], scale, colour(number), column, name)
            for number, (policy, pair) in enumerate(means.items())
        ]
        axes.append(axis(name, **_reach([dot["x"][0] for dot in dots])))
        traces += dots
    titles: dict[str, Any] = {"automargin": True, "type": "category", "autorange": "reversed"}
    return {
        "data": traces,
        "layout": layout(
            height=110 + 44 * max(len(means), 2),
            showlegend=False,
            margin={"l": 20, "r": 20, "t": 10, "b": 50},
            xaxis={**axes[0], "domain": [0, 0.47]},
            yaxis=axis(**titles),
            xaxis2={**axes[1], "domain": [0.53, 1], "anchor": "y2"},
            yaxis2=axis(showticklabels=False, anchor="x2", **titles),
        ),
    }


def _reach(values: Sequence[float]) -> dict[str, Any]:
    """From zero, or logarithmic where one bad policy would press the others together."""
    if min(values) > 0 and max(values) > LOG_FROM * min(values):
        return {"type": "log", "dtick": 1, "minor": {"dtick": "D1", "ticks": "outside"}}
    return {"rangemode": "tozero", "nticks": 6}


def _dot(
    policy: str, value: Interval | float, scale: float, ink: str, column: int, name: str
) -> dict[str, Any]:
    suffix = "2" if column else ""
    dot: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "xaxis": "x" + suffix,
        "yaxis": "y" + suffix,
        "y": [policy],
        "marker": {"color": ink, "size": 11},
        "hovertemplate": "%{y}: %{x:.4~g}<extra>%{fullData.name}</extra>",
    }
    if isinstance(value, float | int):
        return {**dot, "x": [value / scale]}
    dot["x"] = [value.value / scale]
    dot["error_x"] = {
        "type": "data",
        "symmetric": False,
        "array": [(value.high - value.value) / scale],
        "arrayminus": [(value.value - value.low) / scale],
        "color": ink,
        "thickness": 2,
        "width": 7,
    }
    return dot


def gantt_picture(
    run: Run, chart: Gantt, view: TraceSpan, measures: RunMeasures, unit: AxisUnit
) -> Picture:
    """Bars by wait; ``job`` of each trace points into ``texts``, which the page spreads out."""
    order = {place: number for number, place in enumerate({r.place: 0 for r in chart.rectangles})}
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "marker": {"color": ink, "line": {"color": "#ffffff", "width": 0.5}},
            "hovertemplate": "%{hovertext}<extra></extra>",
            **{key: [] for key in ("base", "x", "y", "width", "job")},
        }
        for _, name, ink in WAIT_CLASSES
    ]
    for box in chart.rectangles:
        wait_s = measures.waits_s[box.place]
        trace = traces[next(n for n, (end, _, _) in enumerate(WAIT_CLASSES) if wait_s < end)]
        trace["base"].append(unit.of(box.since_s))
        trace["x"].append(unit.of(box.until_s - box.since_s))
        trace["y"].append(round(box.low + box.height / 2, 4))
        trace["width"].append(round(box.height, 4))
        trace["job"].append(order[box.place])
    rows = axis("node" if any(run.nodes) else label(run.unit), range=[0, chart.row_count])
    if chart.rows and len(chart.rows) <= 60:
        rows |= {"tickmode": "array", "tickvals": [n + 0.5 for n in range(len(chart.rows))]}
        rows |= {"ticktext": [label(name) for name in chart.rows], "automargin": True}
    held = held_in_pieces(run)
    return {
        "texts": [_hover(run, place, measures, held) for place in order],
        "data": [trace for trace in traces if trace["job"]],
        "layout": layout(
            height=520,
            barmode="overlay",
            bargap=0,
            hovermode="closest",
            dragmode="zoom",
            xaxis=axis(
                f"{unit.name} since the record began",
                range=[unit.of(view.since_s), unit.of(view.until_s)],
            ),
            yaxis=rows,
            showlegend=True,
        ),
    }


def _hover(run: Run, place: int, measures: RunMeasures, held: Mapping[int, float]) -> str:
    job = run.jobs[place]
    lines = [f"<b>job {job.id}</b> on {job.procs} {label(run.unit)}"]
    lines += [label(f"{key} {value}") for key, value in _names(run, place) if value]
    lines.append(f"waited {_length(measures.waits_s[place])}")
    lines.append(f"ran {_length(held.get(place, run.end_s[place] - run.start_s[place]))}")
    return "<br>".join(lines)


def _names(run: Run, place: int) -> list[tuple[str, str]]:
    job = run.jobs[place]
    where = run.nodes[place] if run.nodes else ""
    return [("user", job.user), ("group", job.group), ("name", job.name), ("nodes", where)]


def _length(length_s: float) -> str:
    return format_duration(round(length_s)) if length_s >= 1 else f"{length_s:.3g}s"
