"""``rota progress``: a job says how far it is, from whatever language it is written in."""

from __future__ import annotations

import os
import re

import click

from rota.client import reports

#: As a parameter of a sweep is named, and what programs like to call their figures.
_NAME = re.compile(r"[A-Za-z_][\w./-]*")


@click.command()
@click.argument("fraction", type=click.FloatRange(0.0, 1.0))
@click.argument("figures", nargs=-1, metavar="[NAME=NUMBER]...")
@click.option("-m", "--message", default="", help="A few words: where the work is.")
def progress(fraction: float, figures: tuple[str, ...], message: str) -> None:
    """Inside a job: say how far it is, from 0 to 1, and figures that it has reached.

    \b
      rota progress 0.4 loss=0.31 lr=0.001 --message "epoch 2"

    'rota queue', 'rota show' and the web page show it; there each figure has a curve. It costs a
    line in a small file and no request. Of several tasks each speaks for itself.
    """
    if "ROTA_JOB_ID" not in os.environ:
        raise click.UsageError("not inside a job: ROTA_JOB_ID is not set")
    if len(message) > reports.MESSAGE_MAX:
        raise click.UsageError(f"--message: at most {reports.MESSAGE_MAX} characters")
    try:
        reports.say(os.environ, fraction, message, _figures(figures))
    except (RuntimeError, OSError) as error:
        raise click.ClickException(str(error)) from None


def _figures(given: tuple[str, ...]) -> dict[str, float]:
    if len(given) > reports.FIGURES_MAX:
        raise click.UsageError(f"{len(given)} figures are too many; at most {reports.FIGURES_MAX}")
    return dict(_figure(word) for word in given)


def _figure(word: str) -> tuple[str, float]:
    name, _, text = word.partition("=")
    if not _NAME.fullmatch(name) or len(name) > reports.NAME_MAX or name in reports.OWN:
        raise click.UsageError(f"{word!r} is not valid; expected NAME=NUMBER, such as loss=0.31")
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not reports.is_figure(value):
        raise click.UsageError(f"{word!r} is not valid; expected NAME=NUMBER, such as loss=0.31")
    return name, value
