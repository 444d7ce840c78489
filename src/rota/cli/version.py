"""``rota version``."""

from __future__ import annotations

import json
import sys

import click

from rota import __version__


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def version(as_json: bool) -> None:
    """Print the version of Rota; with --json also what decides which versions go together."""
    if as_json:
        from rota.rpc.messages import PROTOCOL
        from rota.store.migrations import HEAD

        python = ".".join(map(str, sys.version_info[:3]))
        numbers = {"protocol": PROTOCOL, "schema": HEAD}
        click.echo(json.dumps({"version": __version__, "python": python, **numbers}))
    else:
        click.echo(f"rota {__version__}")
