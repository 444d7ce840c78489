"""``rota login`` and ``rota logout``: which Rota the commands of a person speak to."""

from __future__ import annotations

import json
import os
import sys
from urllib.parse import urlsplit

import click

from rota.cli.shared import render
from rota.cli.shared.options import json_option
from rota.client.http import Client
from rota.client.wire.ways import check_url
from rota.given_tokens import NoToken, read_token
from rota.logins import HERE, Login, Logins

_COLUMNS = (
    render.Column(""),
    render.Column("SITE"),
    render.Column("URL", shrinks=True),
    render.Column("USER"),
)


@click.command()
@click.argument("url", required=False, default="")
@click.option("--name", default="", help="What to call it.  [default: the host of URL]")
@click.option(
    "--token-file",
    metavar="FILE",
    default="",
    help="Holds your token; -: the standard input.  [default: ROTA_TOKEN, else it is asked for]",
)
@click.option("--use", metavar="NAME", default="", help="Speak to this one; 'here': this machine.")
@json_option
def login(url: str, name: str, token_file: str, use: str, as_json: bool) -> None:
    """Speak to the Rota at URL from now on; without URL list where you are logged in.

    \b
    rota login https://head:8082               asks for a token ('rota token create' made it there)
    rota login --use here                      back to the Rota of this machine
    rota --site head queue                     one command for another one; so does ROTA_SITE=head

    Several are kept, in ~/.config/rota/sites.json, which only you can read. ROTA_URL goes before
    them. Clusters ('rota clusters', --cluster) are something else: parts of one Rota.
    """
    logins = Logins(os.environ)
    if use:
        if use != HERE:
            logins.find(use)
        logins.current = use
        logins.save()
    elif url:
        _add(logins, url, name, token_file)
    click.echo(json.dumps(_listed(logins), indent=2) if as_json else "\n".join(_lines(logins)))


def _add(logins: Logins, url: str, name: str, token_file: str) -> None:
    check_url(url, "URL")
    name = name or urlsplit(url).hostname or HERE
    if name == HERE or not name.replace("-", "").replace(".", "").replace("_", "").isalnum():
        raise click.UsageError(f"--name: {name!r} is not valid; letters, digits, - . _, not 'here'")
    try:
        token = read_token(token_file, os.environ)
    except NoToken as error:
        raise click.UsageError(str(error)) from None
    if not token:
        if not sys.stdin.isatty():
            raise click.UsageError("there is nobody to ask for a token: give --token-file")
        token = click.prompt("token", hide_input=True, err=True).strip()
    client = Client([url], token)
    try:
        status = client.get("/status")
    finally:
        client.close()
    logins.known[name] = Login(url, token, str(status.get("user", "")))
    logins.current = name
    logins.save()


def _listed(logins: Logins) -> list[dict[str, object]]:
    known = [(HERE, Login("", "")), *sorted(logins.known.items())]
    return [
        {"site": name, "url": one.url, "user": one.user, "current": name == logins.current}
        for name, one in known
    ]


def _lines(logins: Logins) -> list[str]:
    rows = [
        ("*" if one["current"] else "", one["site"], one["url"] or "this machine", one["user"])
        for one in _listed(logins)
    ]
    return render.table(_COLUMNS, rows)


@click.command()
@click.argument("name", required=False, default="")
def logout(name: str) -> None:
    """Forget the login NAME, by default the one in use. Its token stays valid until revoked."""
    logins = Logins(os.environ)
    name = name or logins.current
    if name == HERE:
        raise click.UsageError("you are not logged in anywhere; the Rota of this machine is used")
    logins.find(name)
    del logins.known[name]
    if logins.current == name:
        logins.current = HERE
    logins.save()
    click.echo(f"forgot {name}; commands speak to {logins.current}")
