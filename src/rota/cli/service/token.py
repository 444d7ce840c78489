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
from rota.cli.shared.asking import confirm
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
    help="What it may do.  [default: user]",
)
@click.option("--join", "joins", is_flag=True, help="Let a machine join as a node. For admins.")
@click.option(
    "--uses",
    type=types.Number(min=0),
    help="With --join: for this number of nodes, 0 for any.  [default: 1]",
)
@click.option("--approve", is_flag=True, help="With --join: they wait for 'rota node approve'.")
@click.option("--project", default="", help="For jobs of this project only; its quota binds.")
@click.option("--note", default="", help="What it is for.")
@click.option(
    "--expires",
    type=types.LASTING,
    help="Valid for 30d, or until 2027-01-31.  [default: 1d with --join, else for ever]",
)
@json_option
@quiet_option
def create(as_json: bool, quiet: bool, joins: bool, **asked: Any) -> None:
    """Make a token and print it. It cannot be shown again.

    With --join it lets machines join as nodes ('rota agent') and is good for nothing else. Each
    node gets a key of its own then, so it is needed once per node.
    """
    if joins and (asked["user"] or asked["access"] or asked["project"]):
        raise click.UsageError(
            "--join makes a token for agents: leave out --user, --access and --project"
        )
    if not joins and (asked["uses"] is not None or asked["approve"]):
        raise click.UsageError("--uses and --approve go with --join")
    asked["access"] = "agent" if joins else asked["access"]
    asked["expires_s"] = asked.pop("expires")
    body = {name: value for name, value in asked.items() if value not in (None, "")}
    if not joins:
        del body["approve"]
    answer = session.connect().post("/tokens", body)
    if as_json:
        click.echo(json.dumps({**answer, "token": with_fingerprint(answer)}))
        return
    click.echo(with_fingerprint(answer))
    if quiet:
        return
    if joins:
        _say_how_to_join(answer, asked["uses"])
    else:
        session.warn(f"token {answer['id']}: use it as ROTA_TOKEN; it is not shown again")


def _say_how_to_join(answer: dict[str, Any], uses: int | None) -> None:
    url = reachable(answer)
    many = {None: "1 node", 0: "any number of nodes", 1: "1 node"}.get(uses, f"{uses} nodes")
    until = local_time(answer.get("expires_at"))
    session.warn(f"token {answer['id']}: good for {many}" + (f", until {until}" if until else ""))
    session.warn(f"on the other machine: rota agent --join {url} --token-file FILE")
    if is_loopback(url):
        session.warn("it listens to this machine alone; for others: rota up --listen 0.0.0.0:8082")


def with_fingerprint(answer: dict[str, Any]) -> str:
    """The token as it is used: where the server has a certificate, it names that, too."""
    fingerprint = answer.get("fingerprint")
    return f"{answer['token']}.{fingerprint}" if fingerprint else str(answer["token"])


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


def _access(entry: dict[str, Any]) -> str:
    """``join``, and how many nodes may still do so with it."""
    access = str(entry.get("access", ""))
    if access != "agent":
        return access
    left = entry.get("uses_left")
    return f"join ({'any number' if left is None else left} left)"


def token_table(tokens: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """Lines of the table."""
    rows = [
        (
            entry["id"],
            entry.get("user", ""),
            _access(entry),
            local_time(entry.get("created_at")),
            local_time(entry.get("expires_at")) or "never",
            entry.get("note", ""),
        )
        for entry in tokens
    ]
    return render.table(_COLUMNS, rows, width)


@token.command()
@click.argument("ids", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask first.")
def revoke(ids: tuple[str, ...], yes: bool) -> None:
    """Make tokens invalid, by their ids. First it says what that cuts off, and asks."""
    paths = {name: f"/tokens/{segment(name)}" for name in ids}
    client = session.connect()
    known = {entry["id"]: entry for entry in items(client.get("/tokens"))}
    for name in ids:
        if name in known:
            session.warn(cut_off_by(known[name], made_with(name, known)))
    confirm("revoke" if len(ids) == 1 else f"revoke these {len(ids)}", yes)
    for name, path in paths.items():
        client.delete(path)
        click.echo(f"revoked {name}")


def made_with(name: str, known: dict[str, dict[str, Any]]) -> list[str]:
    """The tokens that were made with one, with these, and so on: they end with it."""
    found = [name]
    for one in found:
        found += [other for other, entry in known.items() if entry.get("by") == one]
    return found[1:]


def cut_off_by(entry: dict[str, Any], made: list[str]) -> str:
    """What ends with a token, in one line."""
    if entry.get("access") != "agent":
        more = f"; {', '.join(made)} made with it, too" if made else ""
        return f"token {entry['id']}: programs that use it as {entry.get('user')} are cut off{more}"
    left, nodes = entry.get("uses_left"), entry.get("nodes") or ()
    more = "1 more node" if left == 1 else f"{left} more nodes"
    many = "any number of nodes" if left is None else more
    keys = "keeps its own key" if len(nodes) == 1 else "keep their own keys"
    stay = f"; {', '.join(nodes)} joined with it and {keys}" if nodes else ""
    return f"token {entry['id']}: {many} could join with it, and no more can{stay}"
