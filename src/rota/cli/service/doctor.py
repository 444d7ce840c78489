"""``rota doctor``: what is wrong here, and what to do about it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rota.cli.shared import exits, session
from rota.cli.shared.options import json_option
from rota.client.errors import ClientError
from rota.core.words.units import counted
from rota.heads import GONE_S, clock_remark
from rota.paths import config_files, pretended_dir, state_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

OK, WARN, FAIL = "ok", "warn", "fail"
_COLOURS = {OK: "green", WARN: "yellow", FAIL: "red"}
#: SQLite before these has a rare corruption when two connections write at the same instant.
_GOOD_SQLITE = (3, 51, 3)
_DISK_FAIL_MIB, _DISK_WARN_MIB = 100, 1024
#: Earlier than this no Rota existed: a clock that says so was never set.
_EPOCH_OF_ROTA_S = 1_700_000_000


class Finding(NamedTuple):
    """One line: how it is, what was looked at, what was seen, what to do."""

    level: str
    what: str
    seen: str
    advice: str = ""


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    text = ".".join(map(str, version))
    if version < (3, 11):
        return Finding(FAIL, "python", text, "Rota needs Python 3.11 or newer")
    return Finding(OK, "python", text)


def check_sqlite(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> Finding:
    text = ".".join(map(str, version))
    if version < _GOOD_SQLITE:
        return Finding(WARN, "sqlite", text, "works; 3.51.3 or newer mends a rare fault in its log")
    return Finding(OK, "sqlite", text)


def check_state(folder: Path) -> Finding:
    """The state folder, or the nearest one above it that exists."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not os.access(place, os.W_OK | os.X_OK):
        return Finding(
            FAIL,
            "state folder",
            f"{folder} cannot be written",
            "set ROTA_STATE_DIR to a folder of yours",
        )
    seen = str(folder) if place == folder else f"{folder} (not made yet)"
    return Finding(OK, "state folder", seen)


def check_disk(folder: Path) -> Finding:
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    free_mib = shutil.disk_usage(place).free >> 20
    seen = f"{free_mib} MiB free at {place}"
    if free_mib < _DISK_FAIL_MIB:
        return Finding(FAIL, "disk", seen, "make room: submits are refused when it is full")
    if free_mib < _DISK_WARN_MIB:
        return Finding(WARN, "disk", seen, "make room soon")
    return Finding(OK, "disk", seen)


def check_clock(now_s: float) -> Finding:
    if now_s < _EPOCH_OF_ROTA_S:
        return Finding(
            FAIL, "clock", time.strftime("%Y-%m-%d", time.gmtime(now_s)), "set the clock"
        )
    return Finding(OK, "clock", time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(now_s)))


def check_config(environment: Mapping[str, str]) -> Finding:
    from rota import config
    from rota.core.facts.errors import Rejected

    try:
        config.load(environment)
    except Rejected as error:
        return Finding(FAIL, "settings", str(error), "mend it: rota does not start like this")
    used = next((str(path) for path in config_files(environment) if path.is_file()), "defaults")
    return Finding(OK, "settings", used)


def check_cgroup(root: Path) -> Finding:
    if (root / "cgroup.controllers").exists():
        return Finding(OK, "cgroup v2", str(root))
    return Finding(WARN, "cgroup v2", "not here", "memory limits are watched, not enforced at once")


def check_nvml() -> Finding:
    try:
        import pynvml
    except ImportError:
        return Finding(
            WARN,
            "nvml",
            "nvidia-ml-py is not installed",
            "pip install 'rota[gpu]' if this machine has NVIDIA GPUs",
        )
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        return Finding(WARN, "nvml", str(error), "fine on a machine without NVIDIA GPUs")
    return Finding(OK, "nvml", counted(count, "GPUs"))


def check_server() -> tuple[Finding, dict[str, Any]]:
    try:
        client = session.connect()
        status = client.get("/status")
    except ClientError as error:
        return Finding(FAIL, "controller", str(error)), {}
    return Finding(OK, "controller", f"answers at {client.addresses[0]}"), status


def check_database(status: dict[str, Any]) -> Finding:
    """Whether what is asked for can be written down at this moment."""
    if not status:
        return Finding(WARN, "database", "unknown without a controller")
    found = session.connect().get("/status/database")
    if found["state"] == "ok":
        return Finding(OK, "database", found["name"])
    seen = f"{found['name']}: {found['problem']}"
    return Finding(FAIL, "database", seen, "jobs go on, and submits are refused until it is back")


def check_agent(status: dict[str, Any], nodes: list[dict[str, Any]]) -> Finding:
    if not status:
        return Finding(WARN, "agent", "unknown without a controller")
    up = [node["name"] for node in nodes if node.get("state") == "up"]
    if not nodes:
        advice = "'rota token create --join' here and 'rota agent --join URL' on a machine"
        return Finding(FAIL, "agent", "no node has joined yet", advice)
    if not up:
        advice = "see agent.log in its state folder; 'rota up --no-agent' starts none here"
        return Finding(FAIL, "agent", "no node is up", advice)
    told = f"{len(up)} of {counted(len(nodes), 'nodes')} up: {', '.join(up[:5])}"
    still = [str(node["name"]) for node in nodes if "stands still" in (node.get("note") or "")]
    if still:
        told = f"{told}; the agent stands still on {', '.join(still[:5])}"
        return Finding(WARN, "agent", told, "see agent.log there: a file system that hangs?")
    return Finding(OK, "agent", told)


def check_machines(status: dict[str, Any]) -> Finding:
    """Whether jobs are run at all."""
    if status.get("pretended"):
        return Finding(WARN, "machines", "pretended: nothing is executed", "real ones: 'rota up'")
    return Finding(OK, "machines", "real") if status else Finding(WARN, "machines", "unknown")


def check_keeper(folder: Path) -> Finding:
    """The keeper is the parent of every job on this machine."""
    path = folder / "agent" / "keeper.json"
    try:
        pid = int(json.loads(path.read_text(encoding="utf-8"))["pid"])
    except FileNotFoundError:
        return Finding(WARN, "keeper", "none has run here", "the agent starts it when it comes up")
    except PermissionError:
        return Finding(WARN, "keeper", "only the user of the agent may look at it")
    except (OSError, ValueError, KeyError, TypeError):
        return Finding(FAIL, "keeper", f"{path} cannot be read", "restart: rota down; rota up")
    if not os.path.exists(f"/proc/{pid}"):
        return Finding(FAIL, "keeper", f"pid {pid} is gone", "the agent starts a new one: rota up")
    return Finding(OK, "keeper", f"pid {pid}")


def check_notify(status: dict[str, Any]) -> Finding:
    """Whether messages about jobs reach their receivers."""
    if not status:
        return Finding(WARN, "notify", "unknown without a controller")
    found = session.connect().get("/notify/status")["receivers"]
    lost = [one for one in found if one["given_up"] or one["state"] != "ok"]
    if not lost:
        sent = sum(one["sent"] for one in found)
        return Finding(OK, "notify", f"{len(found)} receivers, {sent} messages sent")
    worst = max(lost, key=lambda one: (one["state"] == "down", one["given_up"]))
    seen = f"{worst['name']}: {worst['state']}, {worst['given_up']} given up: {worst['problem']}"
    return Finding(WARN, "notify", seen, "see 'rota notify' and controller.log")


def check_heads(status: dict[str, Any]) -> Finding:
    """Whether another head would take over, and whether all have the same time."""
    heads = status.get("heads") or []
    if not heads:
        return Finding(OK, "heads", "one")
    ready = [one for one in heads if not one["leads"] and one["silent_s"] <= GONE_S]
    able = [one for one in ready if not one.get("unfit")]
    told = [f"{len(able)} of {len(heads) - 1} would take over"]
    told += [f"{one['url']} {one['unfit']}" for one in ready if one.get("unfit")]
    off = [f"{one['url']}{clock}" for one in heads if (clock := clock_remark(one))]
    if off:
        return Finding(WARN, "heads", "; ".join([*told, *off]), "set the clocks by NTP")
    if len(able) < len(heads) - 1:
        return Finding(WARN, "heads", "; ".join(told), "see docs/heads.md")
    return Finding(OK, "heads", told[0])


def check_inventory(status: dict[str, Any]) -> Finding:
    """Whether the inventory of GPUs outside answers, where there is one."""
    found = status.get("inventory")
    if not found:
        return Finding(OK, "inventory", "none but our own")
    seen = f"{found['url']}: {found['state']}, GPUs in use elsewhere: {found['elsewhere']}"
    if found["state"] == "silent":
        since = found["answered_at"] or "never"
        advice = f"its last answer ({since}) stands and jobs go on; {found['problem']}"
        return Finding(WARN, "inventory", seen, advice)
    return Finding(OK, "inventory", seen, found["problem"])


def examine(environment: Mapping[str, str], cgroup_root: Path) -> list[Finding]:
    """All checks; one that breaks is a finding itself."""
    server, status = check_server()
    folder = (pretended_dir if status.get("pretended") else state_dir)(environment)
    nodes = _nodes() if status else []
    checks: list[Callable[[], Finding]] = [
        check_python,
        check_sqlite,
        lambda: check_config(environment),
        lambda: check_state(folder),
        lambda: check_disk(folder),
        lambda: check_clock(time.time()),
        lambda: server,
        lambda: check_database(status),
        lambda: check_agent(status, nodes),
        lambda: check_machines(status),
        *(() if status.get("pretended") else (lambda: check_keeper(folder),)),
        lambda: check_notify(status),
        lambda: check_inventory(status),
        lambda: check_heads(status),
        lambda: check_cgroup(cgroup_root),
        check_nvml,
    ]
    return [_guarded(check) for check in checks]


def _guarded(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except Exception as error:  # a broken check must not hide the others
        return Finding(FAIL, "check", f"{type(error).__name__}: {error}", "please report this")


def _nodes() -> list[dict[str, Any]]:
    from rota.cli.jobs.show import items

    try:
        return items(session.connect().get("/nodes"))
    except ClientError:
        return []


def finding_line(finding: Finding, *, colour: bool = False) -> str:
    """``ok    python        3.11.7``."""
    level = f"{finding.level:<5}"
    if colour:
        level = click.style(level, fg=_COLOURS[finding.level])
    advice = f"; {finding.advice}" if finding.advice else ""
    return f"{level} {finding.what:<13} {finding.seen}{advice}"


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Check this machine and the Rota on it. Exits with 1 if something fails."""
    from pathlib import Path

    findings = examine(os.environ, Path("/sys/fs/cgroup"))
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        for finding in findings:
            click.echo(finding_line(finding, colour=session.in_colour()))
    failed = any(finding.level == FAIL for finding in findings)
    return exits.NEGATIVE if failed else exits.OK
