"""What ``rota policy test`` prints about the past: who would have gained, and who lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.cli.shared import render
from rota.core.words.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A mean that moves by less is the same for people.
SAME_S = 1.0

_FIGURES = (
    render.Column("ALL JOBS"),
    render.Column("NOW", right=True),
    render.Column("THEN", right=True),
)


def replay_lines(answer: dict[str, Any], width: int | None = None) -> list[str]:
    """The whole answer: all jobs, then by user and project, then what was not so."""
    before, after = answer["before"], answer["after"]
    period = f"{answer['since']} to {answer['until']}"
    rules = f"by the present rules (NOW) and by {answer['name']} (THEN)"
    lines = [f"{answer['jobs']} jobs, submitted {period},", f"played {rules}:"]
    lines += ["", *render.table(_FIGURES, _figures(before, after, answer["unit"]), width)]
    for title, key in (("USER", "users"), ("PROJECT", "projects")):
        if answer[key]:
            lines += ["", *render.table(_columns(title), map(_gain, answer[key]), width)]
    recorded = span(answer["recorded_mean_wait_s"])
    lines += ["", f"really waited: {recorded} on average"]
    lines += [render.clean(f"note: {note}") for note in answer["notes"]]
    lines += ["", render.clean(answer["verdict"])] if answer.get("verdict") else []
    return lines


def _columns(title: str) -> tuple[render.Column, ...]:
    return (
        render.Column(title, shrinks=True, least=5),
        render.Column("JOBS", right=True),
        render.Column("WAIT NOW", right=True),
        render.Column("THEN", right=True),
        render.Column("CHANGE", right=True),
        render.Column("EARLIER", right=True),
        render.Column("LATER", right=True),
        render.Column(""),
    )


def _figures(
    before: dict[str, Any], after: dict[str, Any], unit: str
) -> Iterable[tuple[str, str, str]]:
    for key, name in (
        ("mean_wait_s", "mean wait"),
        ("median_wait_s", "median wait"),
        ("p95_wait_s", "95% waited at most"),
        ("max_wait_s", "longest wait"),
    ):
        yield name, span(before.get(key, 0.0)), span(after.get(key, 0.0))
    key = "mean_bounded_slowdown"
    yield "mean bounded slowdown", f"{before[key]:.2f}", f"{after[key]:.2f}"
    key = "utilization"
    yield f"utilisation of {unit}", f"{before[key]:.1%}", f"{after[key]:.1%}"
    key = "preemptions"
    if before[key] or after[key]:
        yield "preemptions", str(before[key]), str(after[key])


def _gain(row: dict[str, Any]) -> tuple[object, ...]:
    change_s = row["wait_after_s"] - row["wait_before_s"]
    same = abs(change_s) < SAME_S
    outcome = "same" if same else ("gains" if change_s < 0 else "loses")
    sign = "" if same else ("-" if change_s < 0 else "+")
    return (
        row["name"],
        row["jobs"],
        span(row["wait_before_s"]),
        span(row["wait_after_s"]),
        f"{sign}{span(abs(change_s))}" if not same else "0s",
        row["earlier"],
        row["later"],
        outcome,
    )


def span(seconds: float) -> str:
    """A time for people: short ones with a digit, long ones without seconds."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole >= 86400:
        whole -= whole % 3600
    elif whole >= 3600:
        whole -= whole % 60
    return format_duration(whole)
