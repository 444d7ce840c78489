"""A report as one HTML page: charts of our own in SVG, no script, no other file, no network."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from rota.core.facts.site.prices import money
from rota.core.words.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What a chart of bars measures.
WIDTH, HEIGHT, BAR = 720, 180, 22
#: The most users and projects that have a bar; the table has all of them.
BARS_MAX = 15
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d5dbe3;
  --paper: #ffffff; --one: #2f6fb0; --two: #a2590e; --bad: #b3261e; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ecf1; --soft: #a5b0be; --line: #3a4553;
  --paper: #14191f; --one: #6fa8dc; --two: #e0a15c; --bad: #ff8a80; --warn: #f0c064; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0 } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem }
p.soft, figcaption { color: var(--soft) }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line) }
td.n, th.n { text-align: right; white-space: nowrap }
figure { margin: 0 } svg { width: 100%; height: auto }
svg text { fill: var(--soft); font-size: 12px }
.facts { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; padding: 0; list-style: none }
.facts b { display: block; font-size: 1.5rem }
.over { color: var(--bad) } .near { color: var(--warn) }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(answer: dict[str, Any]) -> str:
    """The whole page."""
    parts = [
        _head(answer),
        _facts(answer),
        _alerts(answer["alerts"]),
        _section("Use by day", _days(answer)),
        _section("Who used what", _accounts(answer)),
        _section("How long jobs waited for room", _waits(answer["waits"])),
        _section("Why tries failed", _failures(answer["failures"])),
        _section("What may come", _forecast(answer)),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Rota: {_day(answer['since'])} to {_day(answer['until'])}</title>"
        f"<style>{_STYLE}</style></head>\n<body>\n<main>\n{body}\n</main>\n</body></html>\n"
    )


def _day(moment: str) -> str:
    return escape(moment[:10])


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{title}</h2>\n{inside}</section>" if inside else ""


def _head(answer: dict[str, Any]) -> str:
    seen = answer["jobs_seen"]
    note = "" if answer["complete"] else f"; only the newest {seen} jobs were gone through"
    return (
        "<h1>What Rota did</h1>"
        f'<p class="soft">{_day(answer["since"])} to {_day(answer["until"])} (UTC){note}</p>'
    )


def _facts(answer: dict[str, Any]) -> str:
    total, currency = answer["total"], answer["currency"]
    facts = [
        (f"{total['jobs']:,}", "jobs submitted"),
        (_percent(_success(total)), "of those that ended completed"),
        (f"{total['gpu_hours']:,.1f}", "GPU-hours held"),
        (f"{total['cpu_hours']:,.1f}", "CPU-hours held"),
        (_percent(total["gpu_efficiency"]), "mean use of GPUs"),
        (f"{total['gpu_idle_hours']:,.1f}", "GPU-hours that did nothing"),
    ]
    if total["cost"]:
        facts.append((money(total["cost"], currency), "cost"))
    if total["energy_kwh"]:
        facts.append((f"{total['energy_kwh']:,.1f} kWh", "energy of GPUs"))
    told = "".join(f"<li><b>{escape(value)}</b>{name}</li>" for value, name in facts)
    return f'<ul class="facts">{told}</ul>'


def _success(row: dict[str, Any]) -> float | None:
    ended = row["completed"] + row["failed"]
    return row["completed"] / ended if ended else None


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.0f} %"


def _alerts(alerts: list[dict[str, Any]]) -> str:
    if not alerts:
        return ""
    lines = []
    for alert in alerts:
        kind, word = ("over", "All of") if alert["level"] >= 100 else ("near", "80 % of")
        lines.append(
            f'<li class="{kind}">{word} a limit: {escape(alert["kind"])} '
            f"<b>{escape(alert['name'])}</b> has {alert['used']:g} of {alert['limit']:g} "
            f"{escape(alert['resource'])} ({alert['percent']:g} %)</li>"
        )
    return _section("Limits that are nearly reached", f"<ul>{''.join(lines)}</ul>")


def _days(answer: dict[str, Any]) -> str:
    days = answer["days"]
    charts = [
        _columns(f"{name}-hours by day", [(day["day"], day[key]) for day in days], colour)
        for name, key, colour in (("GPU", "gpu_hours", "one"), ("CPU", "cpu_hours", "two"))
        if any(day[key] for day in days)
    ]
    return "".join(charts) or "<p class='soft'>Nothing was held.</p>"


def _columns(title: str, values: list[tuple[str, float]], colour: str) -> str:
    """A column for each value, its day below."""
    most = max(value for _, value in values) or 1.0
    step = WIDTH / len(values)
    every = max(1, len(values) // 8)
    drawn = []
    for at, (name, value) in enumerate(values):
        tall = (HEIGHT - 40) * value / most
        x, y = at * step + step * 0.1, HEIGHT - 20 - tall
        drawn.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{step * 0.8:.1f}" height="{tall:.1f}" '
            f'fill="var(--{colour})"><title>{escape(name)}: {value:.1f}</title></rect>'
        )
        if at % every == 0:
            drawn.append(f'<text x="{x:.1f}" y="{HEIGHT - 5}">{escape(name[5:])}</text>')
    drawn.append(f'<text x="0" y="12">{most:,.1f}</text>')
    return _figure(title, HEIGHT, drawn)


def _figure(title: str, height: float, drawn: list[str]) -> str:
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{''.join(drawn)}</svg><figcaption>{escape(title)}</figcaption></figure>"
    )


def _rows(title: str, values: list[tuple[str, float, float]]) -> str:
    """A bar for each value, and within it the part that was idle."""
    most = max((value for _, value, _ in values), default=0.0) or 1.0
    drawn = []
    for at, (name, value, idle) in enumerate(values):
        y, wide = at * BAR, (WIDTH - 290) * value / most
        drawn.append(f'<text x="0" y="{y + 15}">{escape(name[:28])}</text>')
        drawn.append(
            f'<rect x="200" y="{y + 3}" width="{wide:.1f}" height="{BAR - 6}" fill="var(--one)"/>'
        )
        if idle:
            part = min(1.0, idle / value) * wide if value else 0.0
            drawn.append(
                f'<rect x="{200 + wide - part:.1f}" y="{y + 3}" width="{part:.1f}" '
                f'height="{BAR - 6}" fill="var(--two)"><title>{idle:.1f} idle</title></rect>'
            )
        drawn.append(f'<text x="{206 + wide:.1f}" y="{y + 15}">{value:,.1f}</text>')
    return _figure(title, max(BAR, len(values) * BAR), drawn)


def _accounts(answer: dict[str, Any]) -> str:
    items, currency = answer["items"], answer["currency"]
    key = "gpu_hours" if any(row["gpu_hours"] for row in items) else "cpu_hours"
    bars = [(_name(row), row[key], row["gpu_idle_hours"]) for row in items[:BARS_MAX] if row[key]]
    unit = "GPU-hours; the end of a bar did nothing" if key == "gpu_hours" else "CPU-hours"
    chart = _rows(unit, bars) if bars else ""
    head = ("User", "Project", "Jobs", "Completed", "Failed", "CPU-h", "GPU-h", "Idle GPU-h")
    rows = [
        (
            row["user"] or "all",
            row["project"] or "-",
            f"{row['jobs']:,}",
            f"{row['completed']:,}",
            f"{row['failed']:,}",
            f"{row['cpu_hours']:,.1f}",
            f"{row['gpu_hours']:,.1f}",
            f"{row['gpu_idle_hours']:,.1f}",
            _percent(row["cpu_efficiency"]),
            _percent(row["gpu_efficiency"]),
            money(row["cost"], currency),
        )
        for row in (*items, answer["total"])
    ]
    return chart + _table((*head, "CPU use", "GPU use", "Cost"), rows, 2)


def _name(row: dict[str, Any]) -> str:
    return f"{row['user']} in {row['project']}" if row["project"] else str(row["user"])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], words: int) -> str:
    """The first ``words`` columns are words, the others numbers."""
    titles = "".join(
        f'<th scope="col"{"" if at < words else " class=n"}>{escape(title)}</th>'
        for at, title in enumerate(head)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{'' if at < words else ' class=n'}>{escape(cell)}</td>"
            for at, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{titles}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _waits(waits: list[dict[str, Any]]) -> str:
    rows = [
        (
            row["queue"],
            f"{row['started']:,}",
            *(format_duration(round(row[key])) for key in ("median_s", "p95_s", "longest_s")),
        )
        for row in waits
    ]
    head = ("Queue", "Started", "Half of them within", "95 % within", "Longest")
    return _table(head, rows, 1) if rows else "<p>No job started.</p>"


def _failures(failures: list[dict[str, Any]]) -> str:
    if not failures:
        return "<p>None did.</p>"
    rows = [
        (
            row["cause"],
            row["fault"],
            f"{row['tries']:,}",
            f"{row['gpu_hours']:,.1f}",
            f"{row['cpu_hours']:,.1f}",
            str(row["job"]),
        )
        for row in failures
    ]
    head = ("Cause", "Put down to", "Tries", "GPU-h lost", "CPU-h lost", "Latest job")
    return _table(head, rows, 2)


def _forecast(answer: dict[str, Any]) -> str:
    charts = [
        _columns(
            f"{row['resource'].upper()}-hours a day, give or take {row['spread']:.1f}; "
            f"there are {row['capacity']:,.0f}",
            list(zip(row["days"], row["hours"], strict=True)),
            "one" if row["resource"] == "gpu" else "two",
        )
        for row in answer["forecast"]
        if any(row["hours"])
    ]
    return "".join(charts) + f'<p class="soft">Forecast: {escape(answer["forecast_method"])}.</p>'
