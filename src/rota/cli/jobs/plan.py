"""``rota plan``: what would become of a job, without submitting it."""

from __future__ import annotations

import json
from typing import Any

import click

from rota.cli.shared import exits, job_fields, render, session
from rota.cli.shared.foretold import foretold_lines, promise_line
from rota.cli.shared.options import CommandLine, SectionOption, words_argument
from rota.cli.submit.submit import build, shell_option
from rota.cli.submit.submit_options import submit_options
from rota.core.facts.site.prices import money
from rota.core.words.units import counted

_HELP = """Say whether a job would start now and where, or when, and why. Nothing is submitted.

\b
rota plan --gpus 2 --time 4h -- python train.py
rota plan --gpus 2 train.sh             a script, with its #ROTA or #SBATCH lines

Takes the options of 'rota submit'. The exit code is 0 if it would start now, else 1. Of a sweep
it says how many of its elements would start now.
"""


def plan_lines(answer: dict[str, Any]) -> list[str]:
    """The answer first, then the story, then what would help."""
    lines = [_first(answer)]
    if answer["starts"]:
        lines += [f"  {_place(held)}" for held in answer["allocations"]]
    lines += [f"  {line}" for line in answer["lines"] if line != answer["reason"]]
    lines += foretold_lines(answer)
    lines += [f"  {promise_line(answer['promise'])}"] if answer.get("promise") else []
    if answer["evicts"]:
        lines.append(f"  jobs that would give way: {', '.join(map(str, answer['evicts']))}")
    lines += [f"  job {late['id']} would start {_later(late)}" for late in answer["delays"]]
    if cost := answer.get("cost"):
        total, hourly = (money(cost[key], cost["currency"]) for key in ("cost", "per_hour"))
        lines.append(f"  it would cost about {total}: {cost['hours']:.4g} hours at {hourly}")
    lines += [f"  try: {line}" for line in answer["help"]]
    return [render.clean(line) for line in lines]


def _first(answer: dict[str, Any]) -> str:
    elements, starting = answer.get("elements"), answer.get("elements_starting")
    if answer["starts"] and elements:
        if starting == elements:
            return f"all {elements} elements would start now; the first of them:"
        return (
            f"{starting} of {elements} elements would start now, the others as these end; "
            "the first of them:"
        )
    if answer["starts"]:
        return "it would start now"
    if answer["start_at"]:
        when = job_fields.local_time(answer["start_at"])
        return f"it would wait, until about {when}: {answer['reason']}"
    return f"it would wait: {answer['reason']}"


def _place(held: dict[str, Any]) -> str:
    text = f"task {held['task']} on {held['node']}: {counted(held['cpus'], 'CPUs')}"
    if held["gpus"]:
        text += f", GPU {', '.join(map(str, held['gpus']))}"
    return text


def _later(late: dict[str, Any]) -> str:
    before, after = (job_fields.local_time(late[key]) for key in ("start_at", "later_at"))
    return f"later: {after} instead of {before}"


@click.command(
    cls=CommandLine,
    help=_HELP,
    params=[
        words_argument("[-- COMMAND… | SCRIPT… | -]"),
        shell_option(),
        *submit_options(),
        SectionOption.under("Output", "--json", "as_json", is_flag=True, help="Print JSON."),
        SectionOption.under("Output", "-q", "--quiet", is_flag=True, help="No warnings."),
    ],
)
@click.pass_context
def plan(ctx: click.Context, /, as_json: bool, **_: object) -> None:
    client = session.connect()
    body = build(ctx, client)
    answer = client.post("/slurm/plan" if "job" in body else "/plan", body)
    click.echo(json.dumps(answer, indent=2) if as_json else "\n".join(plan_lines(answer)))
    if not answer["starts"]:
        ctx.exit(exits.NEGATIVE)
