"""``rota nodes``, ``rota node`` and ``rota gpus``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from rota.cli.cluster.gpu_table import brief_mib, gpu_table
from rota.cli.jobs.queue import terminal_width
from rota.cli.jobs.show import items
from rota.cli.shared import render, session, types
from rota.cli.shared.asking import confirm_ends, each_of
from rota.cli.shared.job_fields import local_time
from rota.cli.shared.options import json_option, quiet_option
from rota.client.http import segment
from rota.core.facts.errors import Rejected
from rota.core.facts.indices import parse_indices
from rota.core.words.units import format_when
from rota.hostlist import natural

if TYPE_CHECKING:
    from rota.client.http import Client

#: No machine has more.
DEVICES_MAX = 1024

_NODES = (
    render.Column("NODE", shrinks=True, least=8),
    render.Column("STATE"),
    render.Column("CPUS", right=True),
    render.Column("MEM", right=True),
    render.Column("GPUS", right=True),
    render.Column("JOBS", right=True),
    render.Column("NOTE", shrinks=True, least=8),
)


def by_node(rows: list[dict[str, Any]], field: str = "name") -> list[dict[str, Any]]:
    """As people count: ``n2`` before ``n10``."""
    return sorted(rows, key=lambda row: natural(str(row[field])))


def amount(node: dict[str, Any], part: str, name: str) -> float:
    """``node["free"]["cpus"]`` and the like, 0 where it is not told."""
    return float((node.get(part) or {}).get(name) or 0)


def used(node: dict[str, Any], name: str) -> float:
    """What jobs hold of something on a node."""
    if "used" in node:
        return amount(node, "used", name)
    return amount(node, "total", name) - amount(node, "free", name)


def node_state(node: dict[str, Any]) -> str:
    """A node that is down and drained as well is worth two words."""
    state = str(node.get("state", ""))
    if not node.get("drained"):
        return state
    return "drained" if state in {"up", "drained"} else f"{state}+drained"


def node_table(nodes: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """Each amount as used/total."""
    rows = [
        (
            node["name"],
            node_state(node),
            f"{used(node, 'cpus'):g}/{amount(node, 'total', 'cpus'):g}",
            f"{brief_mib(used(node, 'memory_mb'))}/{brief_mib(amount(node, 'total', 'memory_mb'))}",
            f"{used(node, 'gpus'):g}/{amount(node, 'total', 'gpus'):g}",
            len(node.get("jobs") or ()),
            _remarks(node),
        )
        for node in nodes
    ]
    return render.table(_NODES, rows, width)


def _pending(entry: dict[str, Any]) -> dict[str, Any]:
    """A node that an operator has to let in, among the others."""
    note = f"{entry.get('home')}, key {entry.get('key')}: rota node approve {entry['name']}"
    return {**entry, "state": "pending", "note": note}


def _remarks(node: dict[str, Any]) -> str:
    """Why it is out of service, and what keeps jobs away from it."""
    taints = " ".join(node.get("taints") or ())
    ends = f"ends at {local_time(node['ends_at'])}" if node.get("ends_at") else ""
    parts = [node.get("note") or "", ends, _leaving(node), f"taints: {taints}" if taints else ""]
    return "; ".join(part for part in parts if part)


def _leaving(node: dict[str, Any]) -> str:
    """What becomes of the jobs of a node that is being drained."""
    if not node.get("drained") or not node.get("jobs"):
        return ""
    how = "its jobs move" if node.get("migrates") else ""
    deadline = node.get("deadline_at")
    until = f"empty by {local_time(deadline)}" if deadline else ""
    return ", ".join(part for part in (how, until) if part)


def _print(
    rows: list[dict[str, Any]], lines: list[str], as_json: bool, ids: list[str] | None
) -> None:
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    elif ids is not None:
        click.echo("".join(f"{name}\n" for name in ids), nl=False)
    else:
        click.echo("\n".join(lines))


@click.command()
@json_option
@quiet_option
def nodes(as_json: bool, quiet: bool) -> None:
    """List nodes: amounts are what jobs hold of the total."""
    answer = session.connect().get("/nodes")
    found = by_node(items(answer))
    ids = [str(node["name"]) for node in found] if quiet else None
    found += [_pending(entry) for entry in answer.get("pending") or ()]
    _print(found, node_table(found, terminal_width()), as_json, ids)


@click.group(invoke_without_command=True)
@click.option("--free", is_flag=True, help="Only those that are free.")
@click.option("--idle", is_flag=True, help="Only those that a job has to itself and does not use.")
@click.option("--type", "model", help="Only this model.")
@json_option
@quiet_option
@click.pass_context
def gpus(
    ctx: click.Context, free: bool, idle: bool, model: str | None, as_json: bool, quiet: bool
) -> None:
    """List GPUs: which jobs use them, which processes outside Rota do, and what was measured.

    What is in brackets does not count. USED is the memory that is in use.
    """
    if ctx.invoked_subcommand is not None:
        return
    only = {"available": "true" if free else None, "idle": "true" if idle else None}
    found = by_node(items(session.connect().get("/gpus", type=model or None, **only)), "node")
    ids = [str(gpu.get("uuid") or gpu.get("id")) for gpu in found] if quiet else None
    _print(found, gpu_table(found, terminal_width()), as_json, ids)


@gpus.command(short_help="Let processes outside Rota not count.")
@click.argument("name", metavar="NODE")
@click.argument("pids", nargs=-1, required=True, type=types.Number(min=1))
@click.option("--unignore", is_flag=True, help="Let them count again.")
@json_option
def ignore(name: str, pids: tuple[int, ...], unignore: bool, as_json: bool) -> None:
    """Treat the processes PIDS outside Rota on GPUs of NODE as if they were not there.

    For as long as they are there; [agent] foreign_ignore does so for good. For operators.
    """
    body = {"unignore" if unignore else "ignore": list(pids)}
    answer = session.connect().patch(f"/nodes/{segment(name)}", body)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    click.echo("\n".join(gpu_table(answer["devices"], terminal_width())))


@click.group()
def node() -> None:
    """One node: show it, let it in, take it out of service, put it back, mark it, remove it."""


# As the siblings of this group call it.
node.add_command(nodes, "list")


@node.command(short_help="Give jobs only some of its devices.")
@click.argument("name")
@click.argument("chosen", metavar="INDEX,…|all")
@json_option
def devices(name: str, chosen: str, as_json: bool) -> None:
    """Give jobs only these devices of the node NAME: 0,1 or 0-3,6, or all of them again.

    What runs on the others goes on. For operators.
    """
    wanted = "all" if chosen == "all" else _indices(chosen)
    answer = session.connect().patch(f"/nodes/{segment(name)}", {"devices": wanted})
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    click.echo("\n".join(gpu_table(answer["devices"], terminal_width())))


@node.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show everything about the node NAME."""
    found = session.connect().get(f"/nodes/{segment(name)}")
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    click.echo("\n".join(render.block(_node_pairs(found))))


def _brief_gpu(gpu: dict[str, Any]) -> str:
    return f"{gpu.get('index')}: {gpu.get('model', '')}" + (" (closed)" * bool(gpu.get("closed")))


def _indices(text: str) -> list[int]:
    try:
        runs, cap = parse_indices(text)
    except Rejected:
        runs, cap = (), 1
    if cap or sum(map(len, runs)) > DEVICES_MAX:
        raise click.UsageError(f"'{text}' is not valid; expected 0,1 or 0-3,6 or all")
    return [index for run in runs for index in range(run.first, run.last + 1, run.step)]


def _node_pairs(node: dict[str, Any]) -> list[tuple[str, object]]:
    devices = node.get("devices") or node.get("gpus") or ()
    disk_mib = amount(node, "total", "disk_mb")
    return [
        ("name", node["name"]),
        ("state", node_state(node)),
        ("note", node.get("note")),
        ("address", node.get("address")),
        ("jobs of", node.get("user")),
        ("key", f"{node['key']} since {local_time(node.get('key_at'))}" if node.get("key") else ""),
        ("joined with", node.get("joined_with")),
        ("system", node.get("system")),
        ("cpus", f"{used(node, 'cpus'):g} of {amount(node, 'total', 'cpus'):g} used"),
        (
            "memory",
            f"{brief_mib(used(node, 'memory_mb'))} of "
            f"{brief_mib(amount(node, 'total', 'memory_mb'))} used",
        ),
        ("disk", brief_mib(disk_mib) if disk_mib else ""),
        ("gpus", ", ".join(map(_brief_gpu, devices))),
        ("labels", " ".join(f"{k}={v}" for k, v in (node.get("labels") or {}).items())),
        ("taints", " ".join(node.get("taints") or ())),
        ("jobs", ", ".join(map(str, node.get("jobs") or ()))),
    ]


@node.command(short_help="Start nothing new; what runs finishes, or moves.")
@click.argument("names", nargs=-1, required=True, type=types.Nodes(), callback=types.flat)
@click.option("--reason", "-r", default="", help="Why; 'rota nodes' shows it.")
@click.option(
    "--migrate", is_flag=True, help="Jobs go on elsewhere as soon as their work is saved."
)
@click.option(
    "--deadline",
    type=types.DEADLINE,
    help="What is still there then goes back into the queue: now+30m, 18:00.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask where jobs are of others.")
@click.option("--dry-run", is_flag=True, help="Only say which jobs are there.")
@json_option
def drain(
    names: tuple[str, ...],
    reason: str,
    migrate: bool,
    deadline: float | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Start nothing new on the nodes NAMES (n1 or n[1-4]); what runs there finishes.

    With --migrate, jobs that were submitted with --checkpoint-signal hear it, have their grace and
    wait for another node; others leave when they next report a checkpoint ('rota checkpoint'), and
    are asked for one if they named a --save-signal. 'rota node resume' puts nodes back.
    --migrate and --deadline ask first where jobs of others run.
    """
    client = session.connect()
    moves = migrate or bool(deadline)
    there = _jobs_on(client, names) if dry_run or (moves and not yes) else []
    if dry_run:
        for name in names:
            client.get(f"/nodes/{segment(name)}")
        kept = "may move" if migrate else "may be stopped" if deadline else "will finish"
        click.echo(f"would drain {', '.join(names)}; {_foretold(there, kept)}")
        return
    if moves:
        confirm_ends("move or stop", there, session.my_name(client), yes=yes)
    body: dict[str, Any] = {"note": reason} if reason else {}
    if migrate:
        body["migrate"] = True
    if deadline:
        body["deadline_at"] = format_when(deadline)
    _turn(names, "drain", body, as_json)


def _jobs_on(client: Client, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """What runs on these nodes, or is about to."""
    running = session.list_jobs(client, {"state": "scheduled,running"})
    return [job for job in running if not set(names).isdisjoint(job.get("nodes") or ())]


def _foretold(jobs: list[dict[str, Any]], what: str) -> str:
    return f"of what runs there {each_of(jobs)} {what}" if jobs else "nothing runs there"


@node.command(short_help="Start nothing new; what runs goes on.")
@click.argument("names", nargs=-1, required=True, type=types.Nodes(), callback=types.flat)
@click.option("--reason", "-r", default="", help="Why; 'rota nodes' shows it.")
@json_option
def cordon(names: tuple[str, ...], reason: str, as_json: bool) -> None:
    """Start nothing new on the nodes NAMES; what runs there goes on as if nothing were."""
    _turn(names, "drain", {"note": reason} if reason else {}, as_json, "cordoned")


@node.command()
@click.argument("names", nargs=-1, required=True, type=types.Nodes(), callback=types.flat)
@json_option
def resume(names: tuple[str, ...], as_json: bool) -> None:
    """Put the nodes NAMES back into service."""
    _turn(names, "resume", {}, as_json)


def _turn(
    names: tuple[str, ...], verb: str, body: dict[str, Any], as_json: bool, past: str = ""
) -> None:
    client = session.connect()
    answers = [client.post(f"/nodes/{segment(name)}:{verb}", body) for name in names]
    if as_json:
        click.echo(json.dumps(answers))
        return
    past = past or {"drain": "drained", "resume": "resumed"}[verb]
    click.echo(f"{past} {', '.join(names)}")


@node.command(short_help="Set labels that jobs choose nodes by.")
@click.argument("names", metavar="NODES", type=types.Nodes())
@click.argument("labels", nargs=-1, required=True, metavar="KEY=VALUE|KEY-…")
@json_option
def label(names: tuple[str, ...], labels: tuple[str, ...], as_json: bool) -> None:
    """Label NODES (n1 or n[1-4]): KEY=VALUE sets a label, KEY- takes it away.

    Jobs choose nodes by them with --constraint.
    """
    changes: dict[str, str | None] = {}
    for word in labels:
        key, equals, value = word.partition("=")
        if not equals and not word.endswith("-"):
            raise click.UsageError(f"'{word}' is not valid; expected KEY=VALUE or KEY-")
        changes[key if equals else word.removesuffix("-")] = value if equals else None
    _mark(names, {"labels": changes}, "labels", as_json)


@node.command(short_help="Keep jobs away that do not tolerate it.")
@click.argument("names", metavar="NODES", type=types.Nodes())
@click.argument("taints", nargs=-1, required=True, metavar="KEY[=VALUE][:avoid]|KEY-…")
@json_option
def taint(names: tuple[str, ...], taints: tuple[str, ...], as_json: bool) -> None:
    """Keep jobs away from NODES (n1 or n[1-4]) unless they tolerate KEY; KEY- takes a taint away.

    With :avoid it is only the last choice.
    """
    body = {
        "taints": [word for word in taints if not word.endswith("-")],
        "untaint": [word.removesuffix("-") for word in taints if word.endswith("-")],
    }
    _mark(names, body, "taints", as_json)


def _mark(names: tuple[str, ...], body: dict[str, Any], what: str, as_json: bool) -> None:
    client = session.connect()
    answers = [client.patch(f"/nodes/{segment(name)}", body) for name in names]
    if as_json:
        click.echo(json.dumps(answers if len(answers) > 1 else answers[0], indent=2))
        return
    for name, answer in zip(names, answers, strict=True):
        found = answer[what]
        words = [f"{k}={v}" for k, v in found.items()] if isinstance(found, dict) else found
        click.echo(render.clean(f"{name}: {what} {' '.join(words) or 'none'}"))
