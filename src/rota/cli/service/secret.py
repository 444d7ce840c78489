"""``rota secret``: values that only jobs see."""

from __future__ import annotations

import json
import sys
from typing import TextIO

import click

from rota.cli.jobs.queue import terminal_width
from rota.cli.jobs.show import items
from rota.cli.shared import render, session
from rota.cli.shared.job_fields import local_time
from rota.cli.shared.options import json_option, quiet_option
from rota.client.errors import ClientError
from rota.client.http import segment

_COLUMNS = (render.Column("NAME"), render.Column("USER"), render.Column("SET"))


@click.group()
def secret() -> None:
    """Secrets of yours. A job gets one as a variable with 'rota submit --secret NAME'.

    Nobody can read a value again, you neither: not in 'rota show', not in logs of Rota.
    """


@secret.command("set", short_help="Set a secret: typed, or from a file.")
@click.argument("name")
@click.option("--file", type=click.File(encoding="utf-8"), help="Take the value from this file.")
@quiet_option
def set_secret(name: str, file: TextIO | None, quiet: bool) -> None:
    """Set a secret: typed at a prompt, from --file or from standard input.

    Never from the command line, where everybody on the machine could read it. One line end at the
    end is not part of the value.

    \b
    rota secret set HF_TOKEN < token.txt
    """
    value = _value(file)
    answer = session.connect().put(f"/secrets/{segment(name)}", {"value": value})
    if not quiet:
        click.echo(f"set {answer['name']}")
        if not answer["sealed"]:
            session.warn(
                "it is not encrypted in the database: the site sets no server.secrets_key_file"
            )


def _value(file: TextIO | None) -> str:
    if file is not None:
        text = str(file.read())
    elif sys.stdin.isatty():
        text = str(click.prompt("Value", hide_input=True))
    else:
        text = sys.stdin.read()
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise ClientError("value: is empty; expected it at the prompt, on stdin or in --file")
    return text


@secret.command("list")
@json_option
@quiet_option
def list_secrets(as_json: bool, quiet: bool) -> None:
    """List the names of secrets, never what is in them."""
    found = items(session.connect().get("/secrets"))
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif quiet:
        for entry in found:
            click.echo(entry["name"])
    else:
        rows = [(e["name"], e["user"], local_time(e.get("set_at"))) for e in found]
        click.echo("\n".join(render.table(_COLUMNS, rows, terminal_width())))


@secret.command()
@click.argument("names", nargs=-1, required=True)
def remove(names: tuple[str, ...]) -> None:
    """Remove secrets. Refused while unfinished jobs ask for them."""
    client = session.connect()
    for name in names:
        client.delete(f"/secrets/{segment(name)}")
        click.echo(f"removed {name}")
