"""``rota usage``: who uses how much, and who is entitled to what."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import click

from rota.cli.jobs.queue import terminal_width
from rota.cli.shared import render, session, types
from rota.cli.shared.job_fields import local_time
from rota.cli.shared.options import json_option
from rota.core.facts.site.prices import money
from rota.core.words.units import format_duration, format_when

_USE = (
    render.Column("USER", shrinks=True, least=5),
    render.Column("PROJECT", shrinks=True, least=5),
    render.Column("JOBS", right=True),
    render.Column("CPUS", right=True),
    render.Column("GPUS", right=True),
    render.Column("CPU-H", right=True),
    render.Column("GPU-H", right=True),
    render.Column("RECENT CPU-H", right=True),
    render.Column("RECENT GPU-H", right=True),
)
_SHARES = (
    render.Column("PROJECT", shrinks=True, least=5),
    render.Column("USER", shrinks=True, least=5),
    render.Column("SHARES", right=True),
    render.Column("TARGET", right=True),
    render.Column("USED", right=True),
    render.Column("USED/TARGET", right=True),
)


def use_table(rows: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """What accounts hold now, used in the period, and what fair share remembers."""
    lines = [
        (
            row["user"],
            row["project"] or "-",
            row["now"]["jobs"],
            f"{row['now']['cpus']:g}",
            f"{row['now']['gpus']:g}",
            _hours(row["period"]["cpu_hours"]),
            _hours(row["period"]["gpu_hours"]),
            _hours(row["recent"]["cpu_hours"]),
            _hours(row["recent"]["gpu_hours"]),
        )
        for row in rows
    ]
    return render.table(_USE, lines, width)


def share_table(rows: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """Projects and users: the part that each is entitled to, and the part that it has had."""
    lines = [
        (
            row["project"] or "-",
            row["user"] or "(all)",
            row["shares"],
            f"{100 * row['target']:.1f}%",
            f"{100 * row['used']:.1f}%",
            f"{row['ratio']:.2f}",
        )
        for row in rows
    ]
    return render.table(_SHARES, lines, width)


_COSTS = (
    render.Column("USER", shrinks=True, least=5),
    render.Column("PROJECT", shrinks=True, least=5),
    render.Column("CPU-H", right=True),
    render.Column("GPU-H", right=True),
    render.Column("COST", right=True),
)
_BUDGETS = (
    render.Column("BUDGET", shrinks=True, least=5),
    render.Column("SPENT", right=True),
    render.Column("LIMIT", right=True),
    render.Column("LEFT", right=True),
    render.Column("PERIOD", right=True),
)


def cost_table(answer: dict[str, Any], width: int | None = None) -> list[str]:
    """What accounts have spent in the period, their sum, and what budgets leave."""
    rows = [
        (row["user"], row["project"] or "-", *map(_hours, (p["cpu_hours"], p["gpu_hours"])),
         money(p["cost"], answer["currency"]))
        for row in answer["items"]
        for p in [row["period"]]
    ]  # fmt: skip
    total = sum(row["period"]["cost"] for row in answer["items"])
    rows.append(("total", "", "", "", money(total, answer["currency"])))
    lines = render.table(_COSTS, rows, width)
    if answer["budgets"]:
        lines += ["", *render.table(_BUDGETS, map(_budget_row, answer["budgets"]), width)]
    return lines


def _budget_row(budget: dict[str, Any]) -> tuple[str, ...]:
    limit = budget["hard"] if budget["hard"] is not None else budget["soft"]
    return (
        f"{budget['kind']} {budget['name']}",
        money(budget["spent"]),
        money(limit),
        money(max(0.0, limit - budget["spent"])),
        format_duration(budget["period_s"]),
    )


def cost_csv(answer: dict[str, Any]) -> str:
    """One line per account, for a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = ("user", "project", "attempts", "cpu_hours", "memory_gb_hours", "gpu_hours", "cost")
    writer.writerow(head)
    for row in answer["items"]:
        period = row["period"]
        writer.writerow([*(row[key] for key in head[:3]), *(period[key] for key in head[3:])])
    return text.getvalue()


def _hours(hours: float) -> str:
    return f"{hours:.1f}" if hours >= 0.05 or not hours else f"{hours:.2g}"


@click.command()
@click.option("--user", "-u", help="Only this user.")
@click.option("--project", "-p", help="Only this project.")
@click.option("--period", type=types.PERIOD, default="7d", help="Up to 366d.  [default: 7d]")
@click.option(
    "--since", type=types.PAST, help="The period begins: 2026-11-01, mon 9:00, 30d (ago)."
)
@click.option("--until", type=types.LAST, help="It ends: 2026-12-01.  [default: now]")
@click.option("--cost", is_flag=True, help="What it cost, and what budgets leave.")
@click.option("--csv", "as_csv", is_flag=True, help="Use and cost of the period as CSV.")
@click.option("--reset", is_flag=True, help="Forget what -u or -p (or with --all everybody) used.")
@click.option("--all", "everybody", is_flag=True, help="With --reset: of everybody.")
@json_option
def usage(
    user: str | None,
    project: str | None,
    period: int,
    since: float | None,
    until: float | None,
    cost: bool,
    as_csv: bool,
    reset: bool,
    everybody: bool,
    as_json: bool,
) -> None:
    """Show usage now, over a period, and against fair shares."""
    if reset:
        _reset(user, project, everybody, as_json)
        return
    if everybody:
        raise click.UsageError("--all goes with --reset only")
    bounds = {"since": since and format_when(since), "until": until and format_when(until)}
    asked = {"user": user or None, "project": project or None, "period_s": period, **bounds}
    answer = session.connect().get("/usage", **asked)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    if as_csv:
        click.echo(cost_csv(answer), nl=False)
        return
    width = terminal_width()
    click.echo(_heading(answer, period, bounds))
    if cost:
        click.echo("\n".join(cost_table(answer, width)))
        return
    click.echo("\n".join(use_table(answer["items"], width)))
    if answer["shares"]:
        click.echo("\nfair share:\n" + "\n".join(share_table(answer["shares"], width)))


def _heading(answer: dict[str, Any], period: int, bounds: dict[str, str | float | None]) -> str:
    if any(bounds.values()):
        return f"{local_time(answer['since'])} to {local_time(answer['until'])}:"
    return f"the last {format_duration(period)}:"


def _reset(user: str | None, project: str | None, everybody: bool, as_json: bool) -> None:
    """Operators may let the past be past."""
    if everybody == bool(user or project):
        raise click.UsageError("--reset needs -u USER, -p PROJECT or both; or --all")
    body = {"user": user or "", "project": project or "", "all": everybody}
    found = session.connect().post("/usage:reset", body)["items"]
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for account in found:
        name = (
            f"{account['user']} in {account['project']}" if account["project"] else account["user"]
        )
        click.echo(f"forgot what {render.clean(name)} used")
