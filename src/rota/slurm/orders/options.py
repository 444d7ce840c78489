"""The tables of sbatch, salloc and srun, and what of them stands in variables."""

from __future__ import annotations

from rota.slurm.call.opening import OFF
from rota.slurm.orders import later_rows, rows, step_rows
from rota.slurm.orders.row import Sheet

SECTIONS = {
    "Parallel run options": (*rows.JOB, *step_rows.RUNNING),
    "Constraint options": rows.CONSTRAINTS,
    "Consumable resources related options": rows.CONSUMABLES,
    "Affinity/Multi-core options": rows.CORES,
    "GPU scheduling options": rows.GPUS,
    "Help options": rows.HELP,
    "Other options": rows.OTHER,
    "Options of later versions": later_rows.LATER,
}
_ENDS = {
    "sbatch": "script(0) [args(0)...]",
    "salloc": "[command(0) [args(0)...]]",
    "srun": "executable(0) [args(0)...]",
}
SHEETS = {program: Sheet(program, SECTIONS, ends) for program, ends in _ENDS.items()}
#: Options of which the text is kept.
KEPT = {row.key: row for rows in SECTIONS.values() for row in rows if row.shows}


def kept_in(place: str) -> dict[str, str]:
    """What ``scontrol``, ``squeue`` or ``rest`` shows of them: its name there -> the option."""
    pairs = ((row.key, word.partition(":")) for row in KEPT.values() for word in row.shows.split())
    return {name: key for key, (where, _, name) in pairs if where == place}


def from_environment(program: str, env: dict[str, str]) -> list[tuple[str, str]]:
    """The options that variables stand for."""
    found: list[tuple[str, str]] = []
    for name, row in SHEETS[program].variables.items():
        value = env.get(name)
        if value is None:
            continue
        if row.takes:
            found.append((row.key, value))
        elif value.lower() not in OFF:
            found.append((row.key, ""))
    return found
