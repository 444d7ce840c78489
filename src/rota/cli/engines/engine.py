"""``rota engine``: Slurm, Kubernetes or Ray that a site already runs, as nodes of Rota."""

from __future__ import annotations

import logging
import os

import click

from rota.cli.engines.pilot import pilot
from rota.cli.shared import exits
from rota.given_tokens import NoToken, read_token


@click.group()
def engine() -> None:
    """Engines that a site already has, set up in [engines.NAME] of rota.toml.

    Rota keeps queueing, fairness and quotas; the engine runs the work. With placement "theirs" it
    chooses the machines. inside_max, give_back_s and begin_s bound what waits inside it.
    """


engine.add_command(pilot)


@engine.command(short_help="Serve an engine until Ctrl-C.")
@click.argument("name")
@click.option("--join", metavar="URL", default="", help="The controller; default: the one here.")
@click.option("--token-file", metavar="FILE", default="", help="A join token that is in a file.")
@click.option("--state-dir", metavar="DIR", default="", help="Its state.")
def run(name: str, join: str, token_file: str, state_dir: str) -> int:
    """Serve the engine NAME until Ctrl-C; what runs in it goes on after that."""
    from rota.cli.service import engines, serve

    try:
        token = read_token(token_file, os.environ)
    except NoToken as error:
        raise click.UsageError(str(error)) from None
    place, settings = serve.prepare(state_dir)
    level = settings.server.log_level.upper()
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s")
    url = join or os.environ.get("ROTA_URL", "") or f"unix://{place.socket}"
    engines.serve(place, settings, name, url, token)
    return exits.OK


@engine.command("list")
def list_engines() -> int:
    """The engines of rota.toml, and their kinds."""
    from rota import config

    for name, table in sorted(config.load(os.environ).engines.items()):
        click.echo(f"{name}  {table.get('kind', '')}")
    return exits.OK
