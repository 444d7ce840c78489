"""What a row of the table of options says, and how usage and help are made of rows."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.slurm.call.getopt import OptionEntry, OptionTable, read_entry
from rota.slurm.call.opening import explained, usage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

#: The exit code of the commands for an option that makes no sense.
BAD_VALUE = 255
EVERY = ("sbatch", "salloc", "srun")
_PREFIX = {"sbatch": "SBATCH_", "salloc": "SALLOC_", "srun": "SLURM_"}


class Status(StrEnum):
    """What becomes of an option."""

    ACTED = "acted on"
    KEPT = "kept and shown"
    IGNORED = "ignored, with a warning"
    REFUSED = "refused"


class Complaint(NamedTuple):
    """What is said of a value that cannot be read; ``{value}`` and ``{key}`` are filled in."""

    text: str
    code: int


SPECIFICATION = Complaint("Invalid --{key} specification", BAD_VALUE)
NUMBER = Complaint('Invalid numeric value "{value}" for --{key}.', 1)


class OptionRow(NamedTuple):
    """One option of sbatch, salloc or srun: all that is known about it."""

    #: ``"x name|alias=VALUE"``: letter, names and argument; ``=?VALUE`` where it may be left out.
    line: str
    #: What it does, in one line; of one that is refused, why.
    says: str
    status: Status = Status.ACTED
    #: The commands that have it.
    of: tuple[str, ...] = EVERY
    #: What makes a value of the text; ``ValueError`` leads to the complaint.
    read: Callable[[str], Any] | None = None
    complaint: Complaint = SPECIFICATION
    #: Where the value goes: fields of the order, of the request for a job, of its label.
    order: str = ""
    job: str = ""
    detail: str = ""
    #: The variable that tells the job what was asked for.
    sets: str = ""
    #: Variables that stand for it: ``ACCOUNT`` is SBATCH_ACCOUNT for sbatch, SALLOC_ACCOUNT for
    #: salloc and SLURM_ACCOUNT for srun; ``srun:SRUN_EXPORT_ENV`` is one of a single command.
    env: str = ""
    #: The option that it takes back.
    instead_of: str = ""
    #: The options that a value of it stands for.
    means: Callable[[str], list[tuple[str, str]]] | None = None
    #: Whether versions after 22.05 brought it.
    later: bool = False
    #: What slurmrestd calls it, where that is not its name.
    rest: str = ""
    #: Where its text is shown again, and by which name: ``scontrol:Network squeue:network
    #: rest:mcs_label``. What stands there otherwise says that Rota has nothing of the kind.
    shows: str = ""

    @property
    def key(self) -> str:
        return self.entry.names[0]

    @property
    def takes(self) -> str:
        """Nothing, ``=VALUE`` or ``[=VALUE]``."""
        return self.entry.takes

    @property
    def entry(self) -> OptionEntry:
        return read_entry(f"{self.line}: {self.says}")

    @property
    def field(self) -> str:
        """Its name in a job of slurmrestd."""
        return self.rest or self.key.replace("-", "_")

    def variables(self, program: str) -> list[str]:
        found = []
        for word in self.env.split():
            of, mark, name = word.rpartition(":")
            if mark and of == program:
                found.append(name)
            elif not mark and program in self.of:
                found.append(_PREFIX[program] + name)
        return found

    def value(self, text: str) -> Any:  # noqa: ANN401 - whatever the reader makes of it
        if self.read is not None:
            return self.read(text)
        return text if self.takes else True


class Sheet:
    """The options of one command, in sections: its parser and what it says about itself."""

    def __init__(
        self, program: str, sections: Mapping[str, Iterable[OptionRow]], ends: str
    ) -> None:
        self.program = program
        self._ends = ends
        self._sections = {
            title: [row for row in rows if program in row.of] for title, rows in sections.items()
        }
        rows = [row for rows in self._sections.values() for row in rows]
        self.rows = {row.key: row for row in rows}
        lines = {row.key: f"{row.line}: {row.says}" for row in rows}
        self.table = OptionTable(
            *(lines[row.key] for row in rows if not row.later),
            later=[lines[row.key] for row in rows if row.later],
        )
        #: Variable -> the row that it stands for.
        self.variables = {name: row for row in rows for name in row.variables(program)}

    @cached_property
    def help(self) -> str:
        """``--help``: a line for each option."""
        lines = [f"Usage: {self.program} [OPTIONS(0)...] [ : [OPTIONS(N)...]] {self._ends}"]
        for title, rows in self._sections.items():
            lines += ["", f"{title}:", *map(_explained, rows)]
        return "\n".join([*lines, ""])

    @cached_property
    def usage(self) -> str:
        """``--usage``: their names only."""
        return usage_of(self.program, self.table, self._ends)


def _explained(row: OptionRow) -> str:
    told = row.status in (Status.IGNORED, Status.REFUSED)
    return explained(row.entry, f" ({row.status})" if told else "")
