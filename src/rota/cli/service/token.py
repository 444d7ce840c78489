"""``rota token``: credentials for use over the network."""

from __future__ import annotations

import json
import platform
from typing import Any
from urllib.parse import urlsplit

import click

from rota.cli.jobs.queue import terminal_width
from rota.cli.jobs.show import items
from rota.cli.shared import render, session, types
from rota.cli.shared.job_fields import local_time
from rota.cli.shared.options import json_option, quiet_option
from rota.client.http import segment

_COLUMNS = (
    render.Column("ID"),
    render.Column("USER"),
    render.Column("ACCESS"),
    render.Column("CREATED"),
    render.Column("EXPIRES"),
    render.Column("NOTE", shrinks=True),
)


@click.group()
def token() -> None:
    """Tokens let people and agents in over the network. On this machine none is needed."""


@token.command()
@click.option("--user", help="Who it speaks for.  [default: you]")
@click.option(
    "--access",
    type=click.Choice(["viewer", "user", "operator", "admin"]),
    default="user",
    show_default=True,
    help="What it may do.",
)
@click.option("--note", default="", help="What it is for.")
@click.option("--expires", type=types.DURATION, help="Valid for 30d, 12h …  [default: for ever]")
@json_option
@quiet_option
def create(
    user: str | None, access: str, note: str, expires: int | None, as_json: bool, quiet: bool
) -> None:
    """Make a token and print it. It cannot be shown again."""
    client = session.connect()
    body: dict[str, Any] = {"access": access, "note": note}
    if user:
        body["user"] = user
    if expires:
        body["expires_s"] = expires
    answer = client.post("/tokens", body)
    if as_json:
        click.echo(json.dumps({**answer, "token": with_fingerprint(answer)}))
        return
    click.echo(with_fingerprint(answer))
    if not quiet:
        session.warn(f"token {answer['id']}: use it as ROTA_TOKEN; it is not shown again")


def with_fingerprint(answer: dict[str, Any]) -> str:
    """The token as it is used: where the server has a certificate, it names that, too."""
    fingerprint = answer.get("fingerprint")
    return f"{answer['token']}.{fingerprint}" if fingerprint else str(answer["token"])


@token.command()
@click.option("--note", default="", help="What it is for.")
@click.option("--expires", type=types.DURATION, help="Valid for 30d, 12h …  [default: for ever]")
@json_option
@quiet_option
def join(note: str, expires: int | None, as_json: bool, quiet: bool) -> None:
    """Make a token with which other machines join, and print it. For admins.

    It is good for agents only. Where the server listens to the network, it carries the
    fingerprint of the server's certificate.
    """
    body: dict[str, Any] = {"access": "agent", "note": note or "join"}
    if expires:
        body["expires_s"] = expires
    answer = session.connect().post("/tokens", body)
    if as_json:
        click.echo(json.dumps({**answer, "token": with_fingerprint(answer)}))
        return
    click.echo(with_fingerprint(answer))
    if quiet:
        return
    url = reachable(answer)
    session.warn(f"on the other machine: rota agent --join {url} --token TOKEN")
    if is_loopback(url):
        session.warn("it listens to this machine alone; for others: rota up --listen 0.0.0.0:8082")


def reachable(answer: dict[str, Any]) -> str:
    """The server's address as others may use it: all addresses of a machine have its name."""
    url = str(answer.get("url") or "URL")
    for everywhere in ("//0.0.0.0:", "//[::]:"):
        url = url.replace(everywhere, f"//{platform.node() or 'HOST'}:")
    return url


def is_loopback(url: str) -> bool:
    """Whether no other machine could reach this address."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


@token.command("list")
@json_option
@quiet_option
def list_tokens(as_json: bool, quiet: bool) -> None:
    """List tokens (never their secrets)."""
    tokens = items(session.connect().get("/tokens"))
    if as_json:
        click.echo(json.dumps(tokens, indent=2))
    elif quiet:
        for entry in tokens:
            click.echo(entry["id"])
    else:
        click.echo("\n".join(token_table(tokens, terminal_width())))


def token_table(tokens: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """Lines of the table."""
    rows = [
        (
            entry["id"],
            entry.get("user", ""),
            entry.get("access", ""),
            local_time(entry.get("created_at")),
            local_time(entry.get("expires_at")) or "never",
            entry.get("note", ""),
        )
        for entry in tokens
    ]
    return render.table(_COLUMNS, rows, width)


@token.command()
@click.argument("ids", nargs=-1, required=True)
def revoke(ids: tuple[str, ...]) -> None:
    """Make tokens invalid, by their ids."""
    client = session.connect()
    for entry in ids:
        client.delete(f"/tokens/{segment(entry)}")
        click.echo(f"revoked {entry}")
