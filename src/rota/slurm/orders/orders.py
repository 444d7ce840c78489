"""What the options of sbatch, salloc and srun ask for, checked as those commands check it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rota.slurm.call.command import Failed
from rota.slurm.words import values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: The exit code of the commands for an option that makes no sense.
BAD_VALUE = 255
BAD_GRES = "Invalid generic resource (gres) specification"


class Order(msgspec.Struct, kw_only=True):
    """One job, or one part of a heterogeneous one. Numbers that nobody named are 0."""

    options: dict[str, str] = {}
    time_min: int | None = None
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
    gpu_type: str = ""
    gpus: int = 0
    gpus_per_node: int = 0
    gpus_per_task: int = 0
    gpus_per_socket: int = 0
    nice: int = 0
    warning: tuple[str, int, int] = ("", 0, 0)

    def has(self, key: str) -> bool:
        return key in self.options

    def text(self, key: str, default: str = "") -> str:
        return self.options.get(key, default)


def read_order(program: str, options: Iterable[tuple[str, str]]) -> Order:
    """The last one of an option counts, except where one takes another back."""
    order = Order()
    for key, value in options:
        order.options.pop(_OPPOSITE.get(key, ""), None)
        order.options[key] = value
    for key, value in order.options.items():
        reader = _READERS.get(key)
        if reader is None:
            continue
        field, read, complaint = reader
        try:
            setattr(order, field, read(value))
        except ValueError:
            text, code = complaint
            line = text.format(program=program, value=value, key=key)
            raise Failed(f"{program}: error: {line}\n", code) from None
    _check_words(program, order)
    _read_pairs(program, order)
    return order


_OPPOSITE = {"requeue": "no-requeue", "no-requeue": "requeue", "mem": "mem-per-cpu"}
_OPPOSITE |= {"mem-per-cpu": "mem"}
_SPECIFICATION = ("Invalid --{key} specification", BAD_VALUE)
_NUMBER = ('Invalid numeric value "{value}" for --{key}.', 1)

_READERS: dict[str, tuple[str, Callable[[str], Any], tuple[str, int]]] = {
    "time": ("time_min", values.minutes, _SPECIFICATION),
    "mem": ("mem_mb", values.megabytes, _SPECIFICATION),
    "mem-per-cpu": ("mem_per_cpu_mb", values.megabytes, _SPECIFICATION),
    "mem-per-gpu": ("mem_per_gpu_mb", values.megabytes, _SPECIFICATION),
    "tmp": ("tmp_mb", values.megabytes, _SPECIFICATION),
    "ntasks": ("ntasks", values.whole, _NUMBER),
    "ntasks-per-node": ("ntasks_per_node", values.whole, _NUMBER),
    "ntasks-per-gpu": ("ntasks_per_gpu", values.whole, _NUMBER),
    "cpus-per-task": ("cpus_per_task", values.whole, _NUMBER),
    "cpus-per-gpu": ("cpus_per_gpu", values.whole, _NUMBER),
    "mincpus": ("mincpus", values.whole, _NUMBER),
    "gpus-per-socket": ("gpus_per_socket", lambda text: values.gpus(text)[1], _SPECIFICATION),
    "signal": ("warning", values.warning, _SPECIFICATION),
}


#: Options with words of their own -> whether a text is one of them.
_MAILS = frozenset(
    {
        *("NONE", "BEGIN", "END", "FAIL", "REQUEUE", "ALL", "INVALID_DEPEND", "STAGE_OUT"),
        *("TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS"),
    }
)
_WORDS: dict[str, Callable[[str], bool]] = {
    "open-mode": lambda text: text[:1].lower() in ("a", "t"),
    "exclusive": lambda text: text.lower() in ("", "exclusive", "user", "mcs"),
    "mail-type": lambda text: _MAILS.issuperset(text.upper().split(",")),
}


def _check_words(program: str, order: Order) -> None:
    for key, known in _WORDS.items():
        if order.has(key) and not known(order.text(key)):
            line = f"{program}: error: Invalid --{key} specification\n"
            raise Failed(line, BAD_VALUE)
    # Of sbatch it is a switch, of srun a number of seconds.
    if program == "srun" and order.has("wait") and not order.text("wait").isdecimal():
        line = _NUMBER[0].format(value=order.text("wait"), key="wait")
        raise Failed(f"srun: error: {line}\n", 1)


def _read_pairs(program: str, order: Order) -> None:
    """Options that give more than one number."""
    if order.has("nodes"):
        try:
            order.nodes_min, order.nodes_max = values.node_counts(order.text("nodes"))
        except ValueError:
            text = f'{program}: error: "{order.text("nodes")}" is not a valid node count\n'
            raise Failed(text, BAD_VALUE) from None
    for key in ("gpus", "gpus-per-node", "gpus-per-task"):
        if order.has(key):
            order.gpu_type, count = _gpus(program, order.text(key), order.gpu_type)
            setattr(order, key.replace("-", "_"), count)
    if order.has("gres"):
        _read_gres(program, order)
    if order.has("nice"):
        order.nice = _nice(order.text("nice"))


def _gpus(program: str, text: str, known: str) -> tuple[str, int]:
    """Several models in one list are added up: Rota gives a job GPUs of one model."""
    total = 0
    for part in text.split(","):
        try:
            model, count = values.gpus(part)
        except ValueError:
            raise Failed(f"{program}: error: {BAD_GRES}\n", 1) from None
        known, total = known or model, total + count
    return known, total


def _read_gres(program: str, order: Order) -> None:
    try:
        found = values.gres(order.text("gres"))
    except ValueError:
        raise Failed(f"{program}: error: {BAD_GRES}\n", 1) from None
    for model, count in found:
        order.gpu_type = order.gpu_type or model
        order.gpus_per_node += count


def _nice(text: str) -> int:
    """What is no number changes nothing, as in Slurm."""
    try:
        return int(text[:12]) if text else 100
    except ValueError:
        return 0
