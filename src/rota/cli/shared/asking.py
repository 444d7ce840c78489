"""Asking before something is done that cannot be undone, or that ends the work of others."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from rota.cli.shared import render
from rota.core.words.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    Jobs = Sequence[dict[str, Any]]

#: As many people and jobs are named.
NAMED = 5
#: Who ends more jobs than this at once may have meant fewer; asked at a terminal only.
MANY = 100


def confirm(what: str, yes: bool) -> None:
    """Goes on after a yes; without a terminal to ask at the yes must be an option."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what}? there is nobody to ask here: add --yes")
    click.confirm(f"{what}?", abort=True, err=True)


def confirm_ends(verb: str, jobs: Jobs, mine: str, *, yes: bool) -> None:
    """Goes on at once where only a few jobs are reached, and all of them are one's own."""
    many = len(jobs) > MANY and sys.stdin.isatty()
    if many or any(job["user"] != mine for job in jobs):
        confirm(f"{verb} {whose(jobs, mine)}", yes)


def whose(jobs: Jobs, mine: str) -> str:
    """``3 jobs, 2 of them of ann, bob``."""
    others = [job for job in jobs if job["user"] != mine]
    people = sorted({str(job["user"]) for job in others})
    named = ", ".join(people[:NAMED]) + (" and others" if len(people) > NAMED else "")
    told = f", {len(others)} of them of {named}" if others else ""
    return render.clean(f"{counted(len(jobs), 'jobs')}{told}")


def each_of(jobs: Jobs) -> str:
    """``12 (ann), 15_3 (bob) and 7 more``."""
    shown = ", ".join(f"{job['ref']} ({job['user']})" for job in jobs[:NAMED])
    more = f" and {len(jobs) - NAMED} more" if len(jobs) > NAMED else ""
    return render.clean(shown + more)
