"""``rota audit``: who did what to which object."""

from __future__ import annotations

import json
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import click

from rota.audit_chain import look_through, read_key
from rota.cli.jobs.queue import terminal_width
from rota.cli.shared import render, session, types
from rota.cli.shared.job_fields import local_time
from rota.cli.shared.options import json_option
from rota.digits import is_digits

_COLUMNS = (
    render.Column("TIME"),
    render.Column("USER"),
    render.Column("VIA"),
    render.Column("ADDRESS"),
    render.Column("ACTION"),
    render.Column("OBJECT", shrinks=True, least=8),
    render.Column("REFUSED", shrinks=True, least=8),
)
_PAGE = 1000


@click.group(invoke_without_command=True)
@click.option("--user", help="Only what this user did.")
@click.option("--action", help="Only this: submit, cancel, logs, attach, set-queue, make-token …")
@click.option("--object", "about", help="Only to this: 'job 12' (or 12), 'node n1', 'queue fast'.")
@click.option("--since", type=types.PAST, help="Since 1h (ago), today, mon 9:00, 2026-11-15 …")
@click.option("--limit", type=types.Number(1), default=100, show_default=True, help="At most.")
@json_option
@click.pass_context
def audit(
    ctx: click.Context,
    user: str | None,
    action: str | None,
    about: str | None,
    since: float | None,
    limit: int,
    as_json: bool,
) -> None:
    """Who did what to which object, the newest first. For admins.

    Reading of logs, requests and results and visits to terminals are recorded, and who was refused.
    The same reader of the same object is recorded once in a minute.
    """
    if ctx.invoked_subcommand is not None:
        return
    query: dict[str, Any] = {"user": user, "action": action}
    if about:
        query["object"] = f"job {about}" if is_digits(about) else about
    if since is not None:
        query["since"] = datetime.fromtimestamp(since, UTC).isoformat().replace("+00:00", "Z")
    found = _pages({key: value for key, value in query.items() if value}, limit)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo("\n".join(audit_table(found, terminal_width())))


@audit.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option("--key-file", type=click.Path(), help="audit.key_file.")
def verify(files: tuple[str, ...], key_file: str | None) -> None:
    """Find lines that were changed or removed.

    Files that belong together are given in their order, the oldest first. That nothing was cut off
    at the end is known by the last digest, where it was noted elsewhere. Exit code 1: something is
    wrong, and the lines say where.
    """
    try:
        key = read_key(key_file) if key_file else b""
    except OSError as error:
        raise click.BadParameter(f"{key_file}: {error.strerror}", param_hint="--key-file") from None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--key-file") from None
    try:
        with ExitStack() as stack:
            opened = [
                stack.enter_context(open(name, encoding="utf-8", errors="replace"))
                for name in files
            ]
            found = look_through(chain.from_iterable(opened), key)
    except OSError as error:
        raise click.BadParameter(f"{error.filename}: {error.strerror}", param_hint="FILE") from None
    if found.trouble:
        click.echo("\n".join(found.trouble))
        raise SystemExit(1)
    begun = ", ".join(map(str, found.begins))
    told = [f"a chain begins at line {begun}"] if begun else []
    if found.before:
        told.append(f"line 1 goes on from {found.before}, which is not in these files")
    click.echo("; ".join([f"{found.lines} records as they were written", *told]))
    click.echo(f"the last digest is {found.last or 'none'}")


def _pages(query: dict[str, Any], limit: int) -> list[dict[str, Any]]:
    client = session.connect()
    found: list[dict[str, Any]] = []
    before: int | None = 0
    while before is not None and len(found) < limit:
        more = {"before": before, "limit": min(_PAGE, limit - len(found))}
        page = client.get("/audit", **query, **more)
        found += page["items"]
        before = page["before"]
    return found


def audit_table(records: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """Lines of the table."""
    rows = [
        (
            local_time(entry["at"]),
            entry["user"],
            entry["via"],
            entry["address"],
            entry["action"],
            entry["object"],
            entry["refused"] or "",
        )
        for entry in records
    ]
    return render.table(_COLUMNS, rows, width)
