"""What the options of sbatch, salloc and srun ask for, checked as those commands check it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rota.slurm.call.command import CommandFailed
from rota.slurm.orders.row import BAD_VALUE, Status
from rota.slurm.words.amounts import full_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.slurm.orders.row import OptionRow, Sheet


#: How much memory is said in one of three ways.
_MEMORIES = frozenset({"mem", "mem-per-cpu", "mem-per-gpu"})
_RULE = f"{'-' * 20} {'-' * 20}"
_ONE_MEMORY = "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."


class JobOrder(msgspec.Struct, kw_only=True):
    """One job, or one part of a heterogeneous one. Numbers that nobody named are 0."""

    options: dict[str, str] = {}
    #: Fields of the request for a job, of its label, and variables that tell what was asked for.
    job: dict[str, Any] = {}
    detail: dict[str, Any] = {}
    sets: dict[str, str] = {}
    #: What to tell the caller of options that have no effect.
    warnings: list[str] = []
    time_limit_s: int = 0
    mem_mb: int | None = None
    mem_per_cpu_mb: int = 0
    mem_per_gpu_mb: int = 0
    tmp_mb: int = 0
    nodes_min: int = 0
    nodes_max: int = 0
    ntasks: int = 0
    ntasks_per_node: int = 0
    ntasks_per_gpu: int = 0
    cpus_per_task: int = 0
    cpus_per_gpu: int = 0
    mincpus: int = 0
    #: GPUs, in all four spellings, each with the model that it names.
    gpus: int = 0
    node_gpus: int = 0
    gres_gpus: int = 0
    gpus_per_task: int = 0
    gpus_model: str = ""
    node_model: str = ""
    gres_model: str = ""
    task_model: str = ""
    distribution: str = "block"
    relative: int = 0
    wait_s: int = 0

    @property
    def gpus_per_node(self) -> int:
        return self.node_gpus + self.gres_gpus

    @property
    def gpu_type(self) -> str:
        return self.gpus_model or self.node_model or self.task_model or self.gres_model

    def has(self, key: str) -> bool:
        return key in self.options

    def text(self, key: str, default: str = "") -> str:
        return self.options.get(key, default)


def read_order(
    sheet: Sheet, options: Iterable[tuple[str, str]], named: Iterable[str] = ()
) -> JobOrder:
    """The last one of an option counts, except where one takes another back.

    A variable stands for an option silently; of what is ``named`` and has no effect is told.
    """
    order = JobOrder()
    named = tuple(named)
    if len(_MEMORIES.intersection(named)) > 1:
        raise CommandFailed(f"{sheet.program}: fatal: {_ONE_MEMORY}\n")
    verbose = 0
    for key, value in _spelled_out(sheet, options):
        verbose += key == "verbose"
        if opposite := sheet.rows[key].instead_of:
            order.options.pop(opposite, None)
        order.options[key] = value
    if verbose:
        order.options["verbose"] = str(verbose)
        if order.has("quiet"):
            said = "don't specify both --verbose (-v) and --quiet (-Q)"
            raise CommandFailed(f"{sheet.program}: error: {said}\n", 1)
    for key, value in order.options.items():
        _read(sheet, order, sheet.rows[key], value)
    if not order.has("quiet"):
        order.warnings = [
            f"{sheet.program}: warning: --{key} has no effect here\n"
            for key in dict.fromkeys(named)
            if sheet.rows[key].status is Status.IGNORED and order.text(key).lower() != "none"
        ]
    return order


def defined(program: str, order: JobOrder) -> str:
    """The options as ``-v`` tells them; nothing without it."""
    if not order.has("verbose"):
        return ""
    shown = dict(order.options)
    if order.time_limit_s:
        shown["time"] = full_duration(order.time_limit_s)
    named = [f"{key:<20}: {value or 'set'}" for key, value in sorted(shown.items())]
    lines = ("defined options", _RULE, *named, _RULE, "end of defined options")
    return "".join(f"{program}: {line}\n" for line in lines)


def _spelled_out(sheet: Sheet, options: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """With the options that others stand for."""
    for key, value in options:
        yield key, value
        row = sheet.rows[key]
        if row.means is None:
            continue
        try:
            yield from row.means(value)
        except ValueError:
            raise _complaint(sheet, row, value) from None


def _complaint(sheet: Sheet, row: OptionRow, text: str) -> CommandFailed:
    line = row.complaint.text.format(value=text, key=row.key, program=sheet.program)
    return CommandFailed(f"{sheet.program}: error: {line}\n", row.complaint.code)


def _read(sheet: Sheet, order: JobOrder, row: OptionRow, text: str) -> None:
    if row.status is Status.REFUSED:
        line = f"{sheet.program}: error: --{row.key} is not possible here: {row.says}\n"
        raise CommandFailed(line, BAD_VALUE)
    try:
        value = row.value(text)
    except ValueError:
        raise _complaint(sheet, row, text) from None
    fields = row.order.split()
    for field, part in zip(fields, value if len(fields) > 1 else (value,), strict=False):
        setattr(order, field, part)
    if row.job:
        order.job[row.job] = value
    # What is shown of several values at once is how they were written.
    shown = value if isinstance(value, int | str) else text
    if row.detail:
        order.detail[row.detail] = shown
    if row.shows:
        order.detail.setdefault("kept", {})[row.key] = text or "1"
    if row.sets and shown:
        order.sets[row.sets] = str(shown)
