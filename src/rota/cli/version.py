"""``rota version``."""

from __future__ import annotations

import json
import sys

import click

from rota import __version__


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def version(as_json: bool) -> None:
    """Print the version of Rota and of the Python it runs on."""
    if as_json:
        python = ".".join(map(str, sys.version_info[:3]))
        click.echo(json.dumps({"version": __version__, "python": python}))
    else:
        click.echo(f"rota {__version__}")
