"""From the description of a Slurm site to files for Rota: settings, nodes, and a script.

What Rota has no place for is said in words, so that nobody finds out later.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from rota.digits import is_digits
from rota.slurm.words.amounts import size_text

if TYPE_CHECKING:
    from rota.slurm.site.site_import import ImportedSite, SiteNode, SitePartition

_HEAD = "# Made from a slurm.conf by `rota slurm import`.\n"
#: Tier 1 is the default priority of a queue; each further tier counts this much more.
TIER_STEP = 10


def files_of(site: ImportedSite) -> dict[str, str]:
    """Name of a file -> its text."""
    found = {"rota.toml": _settings(site), "setup.sh": _script(site)}
    found |= {f"nodes/{node.name}.toml": _node(node) for node in site.nodes}
    return found


def _settings(site: ImportedSite) -> str:
    """What holds for the controller."""
    values = site.settings
    weighed = values.get("prioritytype", "").endswith("multifactor")
    policy = "multifactor" if weighed else "easy"
    if values.get("schedulertype", "").endswith("builtin"):
        policy = "fcfs"
    lines = [_HEAD, "[scheduling]", f'policy = "{policy}"']
    half_life_s = seconds_of(values.get("prioritydecayhalflife", ""))
    if weighed and half_life_s:
        lines += ["", "[scheduling.share]", f"half_life_s = {half_life_s}"]
    return "\n".join(lines) + "\n"


def seconds_of(text: str) -> int:
    """``7-0``, ``14-00:00:00``, ``12:00:00`` or minutes; 0 for none."""
    days, dash, clock = text.rpartition("-")
    parts = clock.split(":")
    numbers = [*parts, days] if dash else parts
    if not all(is_digits(part) and len(part) < 7 for part in numbers):
        return 0
    hours, minutes, seconds = 0, 0, 0
    if dash:
        hours, minutes, seconds = ([int(part) for part in parts] + [0, 0])[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = (int(part) for part in parts)
    else:
        minutes = int(parts[0])
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds


def _node(node: SiteNode) -> str:
    """The settings of one machine's agent; devices are found by the agent itself."""
    lines = [_HEAD, "[agent]", f"name = {_quoted(node.name)}", f'cpus = "{node.cpus}"']
    if node.memory_mib:
        lines.append(f'memory = "{size_text(node.memory_mib).lower()}"')
    if node.gpus:
        model = f"{node.gpu_type} " if node.gpu_type else ""
        lines.append(f"# {node.gpus} {model}GPUs were counted there; the agent finds them itself.")
    if node.features:
        lines += ["", "[agent.labels]"]
        lines += [f'{_quoted(feature)} = "true"' for feature in node.features]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


def _script(site: ImportedSite) -> str:
    """Commands that make queues, projects and quotas on a running Rota."""
    lines = ["#!/bin/sh", _HEAD.rstrip(), "set -e", ""]
    lines += [_queue(part) for part in site.partitions if part.name != "default"]
    for account in site.accounts:
        parent = f" --parent {shlex.quote(account.parent)}" if account.parent else ""
        name = shlex.quote(account.name)
        lines.append(f"rota project add {name} --shares {account.shares}{parent}")
        lines += _quota(f"--project {name}", account.limits)
    seen: set[str] = set()
    for user in site.users:
        if user.limits and user.name not in seen:
            seen.add(user.name)
            lines += _quota(f"--user {shlex.quote(user.name)}", user.limits)
    return "\n".join(lines) + "\n"


def _queue(part: SitePartition) -> str:
    priority = min(100, 50 + TIER_STEP * (part.tier - 1))
    states = {"DOWN": "paused", "DRAIN": "closed", "INACTIVE": "closed"}
    state = f" --state {states[part.state]}" if part.state in states else ""
    return f"rota queue-admin add {shlex.quote(part.name)} --priority {priority}{state}"


def _quota(whose: str, limits: dict[str, str]) -> list[str]:
    """One command with all limits that Rota keeps."""
    words: list[str] = []
    for key, value in limits.items():
        if key in ("grpjobs", "maxjobs"):
            words.append(f"--jobs {shlex.quote(value)}")
        elif key in ("grpsubmitjobs", "maxsubmitjobs"):
            words.append(f"--queued {shlex.quote(value)}")
        elif key == "grptres":
            words += _tres(value)
        elif key == "grptresmins" and (minutes := _amounts(value).get("gres/gpu")):
            words.append(f"--gpu-hours {max(1, int(minutes) // 60)}")
    return [f"rota quota set {whose} {' '.join(words)}"] if words else []


def _tres(text: str) -> list[str]:
    amounts = _amounts(text)
    options = (("cpu", "--cpus", ""), ("mem", "--mem", "m"), ("gres/gpu", "--gpus", ""))
    return [
        f"{option} {amounts[kind].rstrip('MmGg')}{_unit(amounts[kind], unit)}"
        for kind, option, unit in options
        if kind in amounts
    ]


def _unit(amount: str, usual: str) -> str:
    return amount[-1].lower() if amount[-1:].isalpha() else usual


def _amounts(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(","))
    return {kind: amount for kind, mark, amount in pairs if mark and is_digits(amount[:1])}


def notes_of(site: ImportedSite) -> list[str]:
    """What the new site does not do as the old one did."""
    notes = list(site.strange)
    every = {node.name for node in site.nodes}
    for part in site.partitions:
        if part.nodes and set(part.nodes) != every:
            notes.append(
                f"partition {part.name} had {len(part.nodes)} of {len(every)} nodes; queues share "
                "all nodes: label the nodes, and let its jobs ask for the label (-C)"
            )
        if part.max_time and part.max_time.upper() not in ("UNLIMITED", "INFINITE"):
            notes.append(
                f"partition {part.name} had MaxTime={part.max_time}; queues have no longest time"
            )
    return notes
