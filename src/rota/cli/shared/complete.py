"""Values for the Tab key: jobs with their names, nodes, queues, projects, users.

Used only while a shell asks; nothing of it is loaded otherwise. Whatever goes wrong, a shell that
waits for Tab gets no values, and never a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from rota.cli.shared import session, types
from rota.cli.shared.job_fields import STATES, display_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.client.http import Client

    Values = Iterable[tuple[str, str]]

#: The most jobs that are offered, the newest first.
JOBS = 100


def _jobs(client: Client) -> Values:
    yield from _unfinished(client)
    yield from _listed(client, "finished", JOBS // 5)


def _unfinished(client: Client) -> Values:
    return _listed(client, "active", JOBS)


def _running(client: Client) -> Values:
    return _listed(client, "running", JOBS)


def _listed(client: Client, state: str, most: int) -> Values:
    mine = {"user": session.my_name(client), "order": "-id", "arrays": "collapse", "state": state}
    for job in session.list_jobs(client, mine, most=most):
        name = str(job["array_id"]) if job.get("array_indices") else display_id(job)
        yield name, f"{job['name']} ({job['state']})"


def _nodes(client: Client) -> Values:
    return ((node["name"], node["state"]) for node in client.get("/nodes")["items"])


def _queues(client: Client) -> Values:
    return ((queue["name"], queue["state"]) for queue in client.get("/queues")["items"])


def _projects(client: Client) -> Values:
    return ((project["name"], "") for project in client.get("/projects")["items"])


def _users(client: Client) -> Values:
    return ((user["name"], "") for user in client.get("/users")["items"])


def _states(_: Client) -> Values:
    return ((state, "") for state in (*STATES, "active", "finished", "all"))


#: By the name of the option or argument.
_KINDS: dict[str, Callable[[Client], Values]] = {
    "queue": _queues,
    "project": _projects,
    "user": _users,
    "state": _states,
    "nodelist": _nodes,
    "exclude": _nodes,
    "node": _nodes,
}
#: Commands that change jobs, which those that have ended do not any more.
_CHANGES = frozenset({"cancel", "hold", "release", "requeue", "suspend", "resume"})
#: Commands that go into a job, which must run.
_INSIDE = frozenset({"attach", "exec", "shell", "forward"})
#: Commands whose bare words name something.
_WORDS = {"redo": _jobs, "update": _unfinished, "exec": _running}


def teach(command: click.Command, group: str = "") -> None:
    """Every parameter of a command that takes one of these learns what there is."""
    for parameter in command.params:
        values = _values_of(parameter, command, group)
        if values is not None:
            setattr(parameter, "shell_complete", _completer(values))  # noqa: B010 - a method
    if isinstance(command, click.Group):
        for below in command.commands.values():
            teach(below, command.name or "")


def _values_of(
    parameter: click.Parameter, command: click.Command, group: str
) -> Callable[[Client], Values] | None:
    name = str(parameter.name)
    if isinstance(parameter.type, types.JobRefType):
        if command.name in _INSIDE:
            return _running
        return _unfinished if command.name in _CHANGES else _jobs
    if isinstance(parameter.type, types.ParentJobs):
        return _jobs
    if name == "words":
        return _WORDS.get(command.name or "")
    if name in ("name", "names") and (group == "node" or command.name == "drain"):
        return _nodes
    return _KINDS.get(name)


def _completer(
    values: Callable[[Client], Values],
) -> Callable[[click.Context, str], list[CompletionItem]]:
    def complete(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if ctx.meta.get("rota.mark") is not None:
            # Behind -- stands a command, of which the shell knows more.
            return []
        # Behind a comma the next one begins.
        before, comma, begun = incomplete.rpartition(",")
        try:
            found = list(values(session.connect()))
        except Exception:
            return []
        return [
            CompletionItem(f"{before}{comma}{value}", help=text or None)
            for value, text in found
            if value.startswith(begun)
        ]

    return complete
