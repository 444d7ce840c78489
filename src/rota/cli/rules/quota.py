"""``rota quota``: what users and projects may hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from rota.cli.jobs.show import items
from rota.cli.rules.accounts import limits_text, provider_pairs, quota_text
from rota.cli.shared import render, session, types
from rota.cli.shared.options import json_option
from rota.client.http import segment
from rota.core.words import units

if TYPE_CHECKING:
    from collections.abc import Callable

#: Option -> field of the limits.
_FIELDS = {
    "jobs": "jobs",
    "queued": "queued",
    "cpus": "cpus",
    "mem": "memory_mb",
    "gpus": "gpus",
    "gpu_hours": "gpu_hours",
    "cost": "cost",
}


#: Limits on what is spent in a period.
_SPENT = ("gpu_hours", "cost")


class _Ceiling(click.ParamType[object]):
    """A number, or ``none`` for no ceiling."""

    def __init__(self, name: str, read: Callable[[str], float]) -> None:
        self.name = name
        self.read = read

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        text = str(value).strip().lower()
        if text in {"none", "unlimited"}:
            return "none"
        try:
            number = self.read(text)
        except ValueError:
            number = -1
        if not 0 <= number < 10**9:
            self.fail(f"'{value}' is not valid; expected a number, or none", param, ctx)
        return number


_COUNT = _Ceiling("n", int)
_NUMBER = _Ceiling("n", float)
_SIZE = _Ceiling("size", units.parse_memory_mib)


def _whose(command: Any) -> Any:  # noqa: ANN401 - a command
    """Of whom: exactly one of these."""
    for option in (
        click.option("--default", is_flag=True, help="Of every user without one of their own."),
        click.option("--project", help="Of this project and those below it."),
        click.option("--user", help="Of this user."),
    ):
        command = option(command)
    return command


def _place(user: str | None, project: str | None, default: bool) -> str:
    if sum((bool(user), bool(project), default)) != 1:
        raise click.UsageError("give exactly one of --user, --project and --default")
    if project:
        return f"/projects/{segment(project)}"
    return f"/users/{segment('*' if default else user or '')}"


@click.group()
def quota() -> None:
    """Quotas: what users and projects may hold, at once and over a period."""


@quota.command()
@click.option("--user", help="Only of this user.")
@click.option("--project", help="Only of this project.")
@json_option
def show(user: str | None, project: str | None, as_json: bool) -> None:
    """Show quotas and what is held of them now."""
    client = session.connect()
    found: list[tuple[str, dict[str, Any]]] = []
    if user or not project:
        users = [client.get(f"/users/{segment(user)}")] if user else items(client.get("/users"))
        found += [("user", entry) for entry in users]
    if project or not user:
        path = f"/projects/{segment(project)}" if project else "/projects"
        answer = client.get(path)
        found += [("project", entry) for entry in ([answer] if project else items(answer))]
    if not (user or project):
        found = [(kind, entry) for kind, entry in found if quota_text(entry["quota"])]
    if as_json:
        click.echo(json.dumps([{"kind": kind, **entry} for kind, entry in found], indent=2))
        return
    if not found:
        click.echo("there are no quotas")
    for kind, entry in found:
        click.echo("\n".join(render.block(quota_pairs(kind, entry))) + "\n")


def quota_pairs(kind: str, entry: dict[str, Any]) -> list[tuple[str, object]]:
    """One account: its limits, and what it holds."""
    limits, used = entry["quota"], entry["used"]
    held = limits_text({k: used[k] for k in ("jobs", "cpus", "memory_mb", "gpus")})
    name = "every other user" if entry["name"] == "*" else entry["name"]
    on = entry.get("enforce_quota", True)
    pairs: list[tuple[str, object]] = [
        (kind, name if on else f"{name} (quota switched off)"),
        ("hard", limits_text(limits["hard"]) or "no limit"),
        ("soft", limits_text(limits["soft"])),
        ("borrows", "" if limits["borrow"] else "no"),
    ]
    pairs += [(str(name), limits_text(inner)) for name, inner in limits["types"].items()]
    if any(limits[part].get(name) is not None for part in ("hard", "soft") for name in _SPENT):
        pairs.append(("period", units.format_duration(limits["period_s"])))
    return [*pairs, ("holds", "" if entry["name"] == "*" else held), *provider_pairs(entry)]


@quota.command("set")
@_whose
@click.option("--jobs", type=_COUNT, help="Jobs that run at once.")
@click.option("--queued", type=_COUNT, help="Jobs that wait.")
@click.option("--cpus", type=_NUMBER, help="CPUs at once.")
@click.option("--mem", type=_SIZE, help="Memory at once: 500G.")
@click.option("--gpus", type=_NUMBER, help="GPUs at once.")
@click.option("--gpu-hours", type=_NUMBER, help="GPU-hours within --period.")
@click.option("--cost", type=_NUMBER, help="Money within --period; see rota usage --cost.")
@click.option("--soft", is_flag=True, help="Set soft limits: beyond them room is only borrowed.")
@click.option(
    "--type",
    "kind",
    type=click.Choice(["training", "inference", "workflow"]),
    help="Set limits for jobs of this type only.",
)
@click.option("--borrow/--no-borrow", default=None, help="Whether soft limits may be exceeded.")
@click.option("--period", type=types.PERIOD, help="Of --gpu-hours and --cost.  [default: 30d]")
@click.option("--on/--off", "enforced", default=None, help="Switch a project's quota on or off.")
@json_option
def set_quota(
    user: str | None, project: str | None, default: bool, as_json: bool, **given: Any
) -> None:
    """Set limits; the others stay. 'none' takes one away.

    \b
    rota quota set --default --jobs 20 --gpus 4
    rota quota set --project vision --gpus 16 --gpu-hours 5000 --period 30d
    rota quota set --project vision --cost 100 --period 30d
    rota quota set --project vision --soft --gpus 8
    rota quota set --project vision --type inference --jobs 2
    """
    place = _place(user, project, default)
    if given["enforced"] is not None and not project:
        raise click.UsageError("--on and --off go with --project")
    body = body_of(given)
    if not body:
        raise click.UsageError("nothing to set: give at least one limit")
    _print(session.connect().patch(place, body), "project" if project else "user", as_json)


def body_of(given: dict[str, Any]) -> dict[str, Any]:
    """The request that the options make."""
    limits = {
        field: None if given[option] == "none" else given[option]
        for option, field in _FIELDS.items()
        if given.get(option) is not None
    }
    if given["soft"] and given["kind"]:
        raise click.UsageError("--soft and --type exclude each other: limits by type are hard")
    changes: dict[str, Any] = {}
    if limits and given["kind"]:
        changes["types"] = {given["kind"]: limits}
    elif limits:
        changes["soft" if given["soft"] else "hard"] = limits
    if given["borrow"] is not None:
        changes["borrow"] = given["borrow"]
    if given["period"]:
        changes["period_s"] = given["period"]
    body: dict[str, Any] = {"quota": changes} if changes else {}
    if given["enforced"] is not None:
        body["enforce_quota"] = given["enforced"]
    return body


def _print(answer: dict[str, Any], kind: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    click.echo("\n".join(render.block(quota_pairs(kind, answer))))


@quota.command()
@click.argument("project")
@json_option
def sync(project: str, as_json: bool) -> None:
    """Ask the provider of quotas for PROJECT now, and show what it says."""
    client = session.connect()
    client.post(f"/queues/quota/{segment(project)}/sync", {})
    _print(client.get(f"/projects/{segment(project)}"), "project", as_json)


@quota.command()
@_whose
@json_option
def unset(user: str | None, project: str | None, default: bool, as_json: bool) -> None:
    """Take all limits of somebody away."""
    place = _place(user, project, default)
    nothing = dict.fromkeys(_FIELDS.values())
    types_of = dict.fromkeys(("training", "inference", "workflow"))
    body = {"quota": {"hard": nothing, "soft": nothing, "types": types_of, "borrow": True}}
    _print(session.connect().patch(place, body), "project" if project else "user", as_json)


# As the other groups call it.
quota.add_command(show, "list")
