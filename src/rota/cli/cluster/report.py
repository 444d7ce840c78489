"""``rota report``: a week or a month as text, as one HTML page, as JSON or as CSV."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import click

from rota.cli.cluster.report_page import page
from rota.cli.jobs.queue import terminal_width
from rota.cli.shared import render, session
from rota.cli.shared.options import json_option
from rota.cli.shared.types import PERIOD_MAX_S
from rota.core.facts.errors import Rejected
from rota.core.facts.site.prices import money
from rota.core.words.units import format_duration, parse_duration_s

PERIODS = {"week": 7 * 86400, "month": 30 * 86400}
_ACCOUNTS = (
    render.Column("USER", shrinks=True, least=5),
    render.Column("PROJECT", shrinks=True, least=5),
    *(
        render.Column(title, right=True)
        for title in ("JOBS", "FAILED", "CPU-H", "GPU-H", "IDLE GPU-H", "GPU USE", "COST")
    ),
)
_WAITS = (
    render.Column("QUEUE", shrinks=True, least=5),
    *(render.Column(title, right=True) for title in ("STARTED", "MEDIAN WAIT", "95 %", "LONGEST")),
)
_FAILURES = (
    render.Column("CAUSE"),
    render.Column("PUT DOWN TO"),
    *(render.Column(title, right=True) for title in ("TRIES", "GPU-H LOST", "LATEST JOB")),
)
_CSV = (
    *("user", "project", "jobs", "completed", "failed", "cancelled", "cpu_hours", "gpu_hours"),
    *("memory_gb_hours", "cost", "cpu_efficiency", "gpu_efficiency", "gpu_idle_hours"),
    "energy_kwh",
)


@click.command()
@click.argument("period", default="week", metavar="[week|month|DURATION]")
@click.option("--html", "file", metavar="FILE", help="Write one page with charts; -: to stdout.")
@click.option("--csv", "as_csv", is_flag=True, help="Users and projects as CSV.")
@json_option
def report(period: str, file: str | None, as_csv: bool, as_json: bool) -> None:
    """Report a week, a month or another time up to now (12h, 366d at the most).

    Who used what, what it cost, how long jobs waited, why they failed, GPUs that did nothing, a
    forecast, and limits that are nearly reached. The page needs no network and no other file.
    """
    if sum((file is not None, as_csv, as_json)) > 1:
        raise click.UsageError("--html, --csv and --json exclude each other")
    length_s = PERIODS.get(period) or _length_s(period)
    answer = session.connect().get("/report", period_s=length_s)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    elif as_csv:
        click.echo(report_csv(answer), nl=False)
    elif file == "-":
        click.echo(page(answer), nl=False)
    elif file is not None:
        _write(file, page(answer))
        click.echo(f"wrote {file}")
    else:
        click.echo("\n".join(report_lines(answer, length_s, terminal_width())))


def _length_s(text: str) -> int:
    try:
        length_s = parse_duration_s(text)
    except ValueError:
        length_s = 0
    if not 3600 <= length_s <= PERIOD_MAX_S:
        raise Rejected.bad("period", text, "week, month, or a time of 1h to 366d")
    return length_s


def _write(file: str, text: str) -> None:
    """Complete or not there at all."""
    place, draft = Path(file), Path(f"{file}.new")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, place)
    except OSError as error:
        raise Rejected.bad("--html", file, f"{error.strerror}; name a file to write") from None


def report_csv(answer: dict[str, Any]) -> str:
    """One line per user and project, for a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV)
    for row in answer["items"]:
        writer.writerow(["" if row[key] is None else row[key] for key in _CSV])
    return text.getvalue()


def report_lines(answer: dict[str, Any], length_s: int, width: int | None = None) -> list[str]:
    """The same in a terminal."""
    currency = answer["currency"]
    lines = [f"the last {format_duration(length_s)}:"]
    lines += render.table(
        _ACCOUNTS,
        [_account(row, currency) for row in (*answer["items"], answer["total"])],
        width,
    )
    if answer["waits"]:
        lines += ["", *render.table(_WAITS, map(_wait, answer["waits"]), width)]
    if answer["failures"]:
        lines += ["", *render.table(_FAILURES, map(_failure, answer["failures"]), width)]
    for alert in answer["alerts"]:
        lines.append(
            f"{'over' if alert['level'] >= 100 else 'near'} its limit: {alert['kind']} "
            f"{render.clean(alert['name'])} has {alert['used']:g} of {alert['limit']:g} "
            f"{alert['resource']} ({alert['percent']:g}%)"
        )
    lines += _forecast(answer)
    if not answer["complete"]:
        lines.append(f"only the newest {answer['jobs_seen']} jobs were gone through")
    return lines


def _account(row: dict[str, Any], currency: str) -> tuple[object, ...]:
    efficiency = row["gpu_efficiency"]
    return (
        row["user"] or "(all)",
        row["project"] or "-",
        row["jobs"],
        row["failed"],
        f"{row['cpu_hours']:.1f}",
        f"{row['gpu_hours']:.1f}",
        f"{row['gpu_idle_hours']:.1f}",
        "-" if efficiency is None else f"{100 * efficiency:.0f}%",
        money(row["cost"], currency),
    )


def _wait(row: dict[str, Any]) -> tuple[object, ...]:
    spans = (format_duration(round(row[key])) for key in ("median_s", "p95_s", "longest_s"))
    return (row["queue"], row["started"], *spans)


def _failure(row: dict[str, Any]) -> tuple[object, ...]:
    return (row["cause"], row["fault"], row["tries"], f"{row['gpu_hours']:.1f}", row["job"])


def _forecast(answer: dict[str, Any]) -> list[str]:
    lines = [""]
    for row in answer["forecast"]:
        mean = sum(row["hours"]) / len(row["hours"])
        of = f" of {row['capacity']:g}" if row["capacity"] else ""
        name = row["resource"].upper()
        lines.append(
            f"the next {len(row['hours'])} days may take {mean:.1f}{of} {name}-hours each, "
            f"give or take {row['spread']:.1f}"
        )
    return [*lines, f"forecast: {answer['forecast_method']}"]
