"""``rota project`` and ``rota user``: who jobs count for, and their shares."""

from __future__ import annotations

import json
from typing import Any

import click

from rota.cli.cluster.gpu_table import brief_mib
from rota.cli.jobs.queue import terminal_width
from rota.cli.jobs.show import items
from rota.cli.shared import render, session, types
from rota.cli.shared.options import json_option, quiet_option
from rota.client.http import segment
from rota.core.words import units

_COLUMNS = (
    render.Column("NAME", shrinks=True, least=8),
    render.Column("SHARES", right=True),
    render.Column("JOBS", right=True),
    render.Column("CPUS", right=True),
    render.Column("MEM", right=True),
    render.Column("GPUS", right=True),
    render.Column("QUOTA", shrinks=True, least=8),
)


def limits_text(limits: dict[str, Any]) -> str:
    """``8 gpus, 32 cpus``: the ceilings that there are."""
    words = []
    for key, value in limits.items():
        # Amounts of memory are told under an older name, too.
        if value is None or (key == "memory_mib" and "memory_mb" in limits):
            continue
        if key in ("memory_mb", "memory_mib"):
            words.append(f"{brief_mib(value)} memory")
        else:
            words.append(units.counted(value, key.replace("_", "-")))
    return ", ".join(words)


def quota_text(quota: dict[str, Any]) -> str:
    """All limits of a quota in a line; empty when there are none."""
    parts = [limits_text(quota["hard"])]
    if soft := limits_text(quota["soft"]):
        parts.append(f"soft {soft}" + ("" if quota["borrow"] else " (no borrowing)"))
    parts += [f"{name}: {limits_text(limits)}" for name, limits in quota["types"].items()]
    return "; ".join(part for part in parts if part)


def provider_pairs(entry: dict[str, Any]) -> list[tuple[str, object]]:
    """Of a quota that another program enforces: when it last told, and where the two differ."""
    if entry.get("provider", "local") == "local":
        return []
    synced = f"last told {entry['synced_at']}" if entry["synced_at"] else "has never told"
    drift = [("drift", line) for line in entry["drift"]]
    return [
        ("provider", f"{entry['provider']}, {synced}"),
        *drift,
        ("warning", entry["warning"]),
    ]


def account_table(entries: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """Accounts, what they hold now and what they may hold; projects below their parents."""
    rows = []
    for depth, entry in in_order(entries):
        used = entry["used"]
        text = quota_text(entry["quota"])
        off = "" if entry.get("enforce_quota", True) or not text else "off: "
        rows.append(
            (
                "  " * depth + str(entry["name"]),
                entry["shares"],
                used["jobs"],
                f"{used['cpus']:g}",
                brief_mib(used["memory_mb"]),
                f"{used['gpus']:g}",
                f"{off}{text}" or "-",
            )
        )
    return render.table(_COLUMNS, rows, width)


def in_order(entries: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Each with its depth in the tree, below the one that it hangs on."""
    names = {entry["name"] for entry in entries}
    below: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        parent = entry.get("parent") or ""
        below.setdefault(parent if parent in names else "", []).append(entry)
    found: list[tuple[int, dict[str, Any]]] = []
    waiting = [(0, entry) for entry in reversed(below.get("", []))]
    while waiting:
        depth, entry = waiting.pop()
        found.append((depth, entry))
        if entry.get("parent") is not None:
            waiting += [(depth + 1, child) for child in reversed(below.get(entry["name"], []))]
    return found


def _print_list(path: str, as_json: bool, quiet: bool) -> None:
    found = items(session.connect().get(path))
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif quiet:
        click.echo("".join(f"{render.clean(entry['name'])}\n" for entry in found), nl=False)
    else:
        click.echo("\n".join(account_table(found, terminal_width())))


def _print_one(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    lines = account_table([{**answer, "parent": None}], terminal_width())
    pairs = provider_pairs(answer)
    if answer.get("members"):
        pairs.append(("members", ", ".join(answer["members"])))
    if answer.get("role"):
        pairs.append(("role", answer["role"]))
    if pairs:
        lines += ["", *render.block(pairs)]
    click.echo("\n".join(lines))


_MEMBERS = click.option(
    "--members",
    help="Only jobs of these users count for it: ann,bob; '' for everybody's.",
)
_SHARES = click.option("--shares", type=types.COUNT, help="Weight among neighbours.")


@click.group()
def project() -> None:
    """Projects: accounts in a tree, on which shares, quotas and use hang."""


@project.command("list")
@json_option
@quiet_option
def list_projects(as_json: bool, quiet: bool) -> None:
    """List projects, what they hold now and what they may hold."""
    _print_list("/projects", as_json, quiet)


@project.command("show")
@click.argument("name")
@json_option
def show_project(name: str, as_json: bool) -> None:
    """Show the project NAME."""
    _print_one(session.connect().get(f"/projects/{segment(name)}"), as_json)


@project.command("add")
@click.argument("name")
@click.option("--parent", default="", help="The project above it.")
@_SHARES
@_MEMBERS
@json_option
def add_project(
    name: str, parent: str, shares: int | None, members: str | None, as_json: bool
) -> None:
    """Make the project NAME. From the first one on, jobs can name only projects that exist."""
    client = session.connect()
    if any(entry["name"] == name for entry in items(client.get("/projects"))):
        raise click.UsageError(f"there is a project {name} already; change it with 'project set'")
    body: dict[str, Any] = {"parent": parent, "shares": 1 if shares is None else shares}
    if members:
        body["members"] = members.split(",")
    _print_one(client.put(f"/projects/{segment(name)}", body), as_json)


@project.command("set")
@click.argument("name")
@click.option("--parent", help="The project above it; '' for none.")
@_SHARES
@_MEMBERS
@json_option
def set_project(
    name: str, parent: str | None, shares: int | None, members: str | None, as_json: bool
) -> None:
    """Change the project NAME."""
    asked = {
        "parent": parent,
        "shares": shares,
        "members": None if members is None else [name for name in members.split(",") if name],
    }
    body = {k: v for k, v in asked.items() if v is not None}
    if not body:
        raise click.UsageError("nothing to change: give --parent, --shares or --members")
    _print_one(session.connect().patch(f"/projects/{segment(name)}", body), as_json)


@project.command("remove")
@click.argument("names", nargs=-1, required=True)
def remove_project(names: tuple[str, ...]) -> None:
    """Remove projects that have no jobs and none below them."""
    client = session.connect()
    for name in names:
        client.delete(f"/projects/{segment(name)}")
        click.echo(f"removed {name}")


@click.group()
def user() -> None:
    """Users and their shares. '*' stands for everybody who has no record of their own."""


@user.command("list")
@json_option
@quiet_option
def list_users(as_json: bool, quiet: bool) -> None:
    """List users, what they hold now and what they may hold."""
    _print_list("/users", as_json, quiet)


@user.command("show")
@click.argument("name")
@json_option
def show_user(name: str, as_json: bool) -> None:
    """Show the user NAME."""
    _print_one(session.connect().get(f"/users/{segment(name)}"), as_json)


@user.command("set")
@click.argument("name")
@_SHARES
@click.option(
    "--role",
    type=click.Choice(["admin", "operator", "user", "viewer"]),
    help="What the user may do on this machine. For admins.",
)
@json_option
def set_user(name: str, shares: int | None, role: str | None, as_json: bool) -> None:
    """Change shares or role of the user NAME; nothing else changes.

    Over the network the role is that of the token ('rota token create --access').
    """
    body = {k: v for k, v in {"shares": shares, "role": role}.items() if v is not None}
    if not body:
        raise click.UsageError("nothing to change: give --shares or --role")
    _print_one(session.connect().patch(f"/users/{segment(name)}", body), as_json)


@user.command("remove")
@click.argument("names", nargs=-1, required=True)
def remove_user(names: tuple[str, ...]) -> None:
    """Forget shares, quotas and roles of users: the defaults hold again."""
    client = session.connect()
    for name in names:
        client.delete(f"/users/{segment(name)}")
        click.echo(f"removed {name}")
