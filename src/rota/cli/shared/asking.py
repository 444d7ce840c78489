"""Asking before something is done that cannot be undone."""

from __future__ import annotations

import sys

import click


def confirm(what: str, yes: bool) -> None:
    """Goes on after a yes; without a terminal to ask at the yes must be an option."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what}? there is nobody to ask here: add --yes")
    click.confirm(f"{what}?", abort=True, err=True)
