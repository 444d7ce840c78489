"""The table of options for people: ``python -m rota.slurm.orders.page > docs/slurm-options.md``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rota.slurm.orders.options import SECTIONS
from rota.slurm.orders.row import EVERY, Status

if TYPE_CHECKING:
    from rota.slurm.orders.row import OptionRow

_HEAD = """\
# The options of sbatch, salloc and srun

Made of the table that the commands themselves read (`python -m rota.slurm.orders.page`); a test
compares the two. *Acted on* has its effect, *kept and shown* has none but is shown again, *ignored*
is taken with a line on stderr (none with `-Q`, nor where the value is `none`), *refused* ends the
command with 255. A variable wins over the script and gives way to the command line; one of an
option that is ignored is taken without a word.

What differs from Slurm is at the end: [ignored and refused](#ignored-and-refused).
"""
_TABLE = ("| option | commands | variables | what it does | status |", "|---|---|---|---|---|")


def page() -> str:
    parts = [_HEAD]
    for title, rows in SECTIONS.items():
        lines = [f"## {title}", "", *_TABLE, *map(_line, sorted(rows, key=lambda row: row.key))]
        parts.append("\n".join([*lines, ""]))
    return "\n".join([*parts, _differences()])


def _line(row: OptionRow) -> str:
    names = [f"`--{row.key}{_plain(row.takes)}`", *(f"`--{name}`" for name in row.entry.names[1:])]
    letter = [f"`-{row.entry.letter}`"] if row.entry.letter else []
    of = "all" if row.of == EVERY else ", ".join(row.of)
    names_of = (row.variables(program) for program in EVERY)
    variables = ", ".join(f"`{name}`" for names in names_of for name in names)
    says = row.says[:1].upper() + row.says[1:]
    return (
        f"| {', '.join([*letter, *names])} | {of} | {variables} | {_plain(says)} | {row.status} |"
    )


def _plain(text: str) -> str:
    """A bar would begin the next column."""
    return text.replace("|", "\\|")


def _differences() -> str:
    lines = ["## Ignored and refused", ""]
    for status in (Status.IGNORED, Status.REFUSED):
        rows = [row for rows in SECTIONS.values() for row in rows if row.status is status]
        names = ", ".join(f"`--{name}`" for name in sorted({row.key for row in rows}))
        lines += [f"* {status.capitalize()}: {names}."]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.stdout.write(page())
