"""What all showing commands say alike: their options in short, and which cluster this is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.slurm.command import Failed
from rota.slurm.getopt import NO

if TYPE_CHECKING:
    from rota.slurm.getopt import Table


def usage_of(program: str, options: Table) -> str:
    """Every option on a line of its own; longer explanations are in the documentation."""
    lines = [f"Usage: {program} [OPTIONS]"]
    shown: set[str] = set()
    for option in options.long:
        if option.key in shown:
            continue
        shown.add(option.key)
        letter = f"-{option.short}, " if option.short else "    "
        lines.append(f"  {letter}--{option.name}{'' if option.arg == NO else '=VALUE'}")
    return "\n".join(lines) + "\n"


def require_cluster(program: str, asked: dict[str, str], known: str) -> None:
    """``-M`` may name this cluster, or all there are."""
    for name in filter(None, asked.get("clusters", "").split(",")):
        if name not in ("all", known):
            raise Failed(
                f"{program}: error: No cluster '{name}' known by database.\n"
                f"{program}: error: '{name}' can't be reached now, or it is an invalid entry for "
                "--cluster.  Use 'sacctmgr list clusters' to see available clusters.\n"
            )
