"""How every command begins: its words are read, and it may be asked about itself only.

Those of sbatch, salloc and srun are made of their table of options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.slurm.call.command import VERSION_LINE, Answer, CommandFailed
from rota.slurm.call.getopt import BadOption, parse

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from rota.slurm.call.getopt import OptionEntry, OptionTable, Parsed

#: Longer lines are broken; where explanations begin.
_WIDTH = 80
_COLUMN = 27
#: An option without a value is off when its variable says so.
OFF = frozenset({"0", "no", "false"})


def read_words(
    program: str,
    table: OptionTable,
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
        raise CommandFailed(f"{bad}\n{more}", code) from None


def fill_in(
    table: OptionTable,
    asked: dict[str, str],
    env: Mapping[str, str],
    variables: Mapping[str, str],
) -> None:
    """Options that nobody typed, from the variables that stand for them."""
    flags = {entry.names[0] for entry in table.entries if not entry.takes}
    for key, variable in variables.items():
        value = env.get(variable)
        if value is None or key in asked or (key in flags and value.lower() in OFF):
            continue
        asked[key] = value


def about_itself(
    program: str, table: OptionTable, asked: Container[str], ends: str = ""
) -> Answer | None:
    """The help, the usage or the version, where that is all that was asked for."""
    if "help" in asked:
        return Answer(help_of(program, table, ends))
    if "usage" in asked:
        return Answer(usage_of(program, table, ends))
    if "version" in asked:
        return Answer(VERSION_LINE)
    return None


def help_of(program: str, table: OptionTable, ends: str = "") -> str:
    """``--help``: a line for each option."""
    lines = [f"Usage: {program} [OPTIONS] {ends}".rstrip(), *map(explained, table.entries)]
    return "\n".join([*lines, ""])


def usage_of(program: str, table: OptionTable, ends: str = "") -> str:
    """``--usage``: their names only."""
    head = f"Usage: {program}"
    lines = [head]
    for entry in table.entries:
        word = f"[{_dashed(entry.names[0])}{entry.takes}]"
        if len(lines[-1]) + 1 + len(word) > _WIDTH:
            lines.append(" " * len(head))
        lines[-1] += f" {word}"
    return "\n".join([*lines, *([f"{' ' * len(head)} {ends}"] if ends else []), ""])


def explained(entry: OptionEntry, note: str = "") -> str:
    """A line of ``--help``."""
    name = entry.names[0]
    if len(name) == 1:
        return f"  {f'-{name} {entry.value}':<{_COLUMN}} {entry.says}{note}"
    letter = f"-{entry.letter}," if entry.letter else "   "
    return f"  {f'{letter} --{name}{entry.takes}':<{_COLUMN}} {entry.says}{note}"


def _dashed(name: str) -> str:
    return f"--{name}" if len(name) > 1 else f"-{name}"


def require_cluster(program: str, asked: dict[str, str], known: str) -> None:
    """``-M`` may name this cluster, or all there are."""
    for name in filter(None, asked.get("clusters", "").split(",")):
        if name not in ("all", known):
            raise CommandFailed(
                f"{program}: error: No cluster '{name}' known by database.\n"
                f"{program}: error: '{name}' can't be reached now, or it is an invalid entry for "
                "--cluster.  Use 'sacctmgr list clusters' to see available clusters.\n"
            )
