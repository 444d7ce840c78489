"""What every command needs: the connection, the job that a text names, words on stderr."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from rota.client.errors import ClientError
from rota.client.http import Client, segment
from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAGE = 1000


def connect() -> Client:
    """The Rota that the environment points to. Nothing is sent yet; closed with the command."""
    client = Client.from_environment(os.environ)
    client.remark = warn_once
    if (ctx := click.get_current_context(silent=True)) is not None:
        ctx.call_on_close(client.close)
    return client


def warn(line: str) -> None:
    """A remark on stderr that does not stop anything."""
    text = f"rota: {line}\n".encode(sys.stderr.encoding or "utf-8", "backslashreplace")
    click.echo(text, err=True, nl=False)


def warn_once(line: str) -> None:
    """A remark that one command makes once, however often it is told."""
    ctx = click.get_current_context(silent=True)
    told = ctx.meta.setdefault("rota.told", set()) if ctx is not None else set()
    if line not in told:
        told.add(line)
        warn(line)


def in_colour() -> bool:
    """Whether what we print goes to a terminal that shows colours, and nobody said no to them."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def my_name(client: Client) -> str:
    """Who the server takes us for: on a local socket that is the owner of this process."""
    if client.token or not client.is_local:
        user = client.get("/status").get("user")
        if isinstance(user, str) and user:
            return user
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def job_path(client: Client, text: str) -> str:
    """The path of the job that a text names: an id, ``12_3``, a uid, ``@``, ``@~2``, a name."""
    return f"/jobs/{segment(job_name(client, text))}"


def job_name(client: Client, text: str) -> int | str:
    """What to send where the server takes ids and ``12_3`` alike.

    Only ``@`` (my last job; ``@_3`` an element of it) and a name (my newest job of that name) need
    a question.
    """
    if text.startswith("@"):
        back, mark, index = text[1:].partition("_")
        job = my_job(client, int(back[1:] or 0))
        return f"{job}_{index}" if mark else job
    if is_name(text):
        mine = {"name": text, "user": my_name(client), "order": "-id", "arrays": "collapse"}
        for newest in list_jobs(client, mine, most=1):
            return int(newest.get("array_id") or newest["id"])
    return int(text) if is_digits(text) else text


def is_name(text: str) -> bool:
    """Whether a text is what people call a job; a uid is asked for as it is."""
    return not re.fullmatch(r"[0-9].*|[0-9a-f]{8,}(?:\.[0-9]+)*|@.*", text)


def job_id(client: Client, text: str) -> int:
    """The id of the job that a text names. A number needs no question."""
    return id_of(client, job_name(client, text))


def id_of(client: Client, name: int | str) -> int:
    """The id behind what ``job_name`` gave."""
    return name if isinstance(name, int) else int(client.get(f"/jobs/{segment(name)}")["id"])


def my_job(client: Client, back: int) -> int:
    """The id of my last submission, or of the one ``back`` before it. An array counts once."""
    seen: list[int] = []
    mine = {"user": my_name(client), "order": "-id", "arrays": "collapse"}
    for job in list_jobs(client, mine, page=min(back + 20, PAGE)):
        submission = job.get("array_id") or job["id"]
        if submission not in seen:
            seen.append(submission)
        if len(seen) > back:
            return int(submission)
    asked = f"@~{back}" if back else "@"
    raise ClientError(f"{asked}: you have submitted {len(seen) or 'no'} jobs so far")


def list_jobs(
    client: Client, filters: Mapping[str, object], *, most: int = 0, page: int = PAGE
) -> Iterator[dict[str, Any]]:
    """Jobs page by page; ``most`` of 0 gives all of them."""
    cursor: str | None = None
    given = 0
    while True:
        limit = min(page, most - given) if most else page
        answer = client.get("/jobs", limit=limit, cursor=cursor, **filters)
        yield from answer["items"]
        given += len(answer["items"])
        cursor = answer.get("cursor")
        if not cursor or not answer["items"] or (most and given >= most):
            return
