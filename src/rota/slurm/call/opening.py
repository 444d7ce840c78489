"""How every command begins: its words are read, and it may be asked about itself only.

Those of sbatch, salloc and srun are made of their table of options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.slurm.call.command import VERSION_LINE, Answer, Failed
from rota.slurm.call.getopt import NO, BadOption, parse

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from rota.slurm.call.getopt import Parsed, Table


def read_words(
    program: str,
    table: Table,
    words: Sequence[str],
    *,
    code: int = 1,
    hint: bool = True,
    permute: bool = True,
) -> Parsed:
    """Options and what is left, or getopt's refusal; few programs go without the hint."""
    try:
        return parse(table, words, program, permute=permute)
    except BadOption as bad:
        more = f'Try "{program} --help" for more information\n' if hint else ""
        raise Failed(f"{bad}\n{more}", code) from None


def about_itself(program: str, table: Table, asked: Container[str]) -> Answer | None:
    """The usage or the version, where that is all that was asked for."""
    if "help" in asked or "usage" in asked:
        return Answer(usage_of(program, table))
    if "version" in asked:
        return Answer(VERSION_LINE)
    return None


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
