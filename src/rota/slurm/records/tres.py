"""Trackable resources in Slurm's words: ``cpu=4,mem=2000M,node=1,billing=4,gres/gpu=2``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.slurm.words.amounts import size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rota.core.facts.node import Device
    from rota.slurm.records.records import HeldOnNode

#: The ids that accounting gives to the kinds; devices are numbered from 1001.
TRES_IDS = {
    "cpu": 1,
    "mem": 2,
    "energy": 3,
    "node": 4,
    "billing": 5,
    "fs/disk": 6,
    "vmem": 7,
    "pages": 8,
    "gres/gpu": 1001,
}
FIRST_MODEL_ID = 1002


def tres_text(
    cpus: int,
    memory_mib: int,
    nodes: int,
    gpus: Mapping[str, int],
    *,
    billing: bool = True,
) -> str:
    """The kinds in the order of their ids; ``gpus`` counts devices by model (``""``: any)."""
    parts = [f"cpu={cpus}"]
    if memory_mib:
        parts.append(f"mem={size_text(memory_mib)}")
    if nodes:
        parts.append(f"node={nodes}")
    if billing:
        parts.append(f"billing={cpus}")
    total = sum(gpus.values())
    if total:
        parts.append(f"gres/gpu={total}")
    parts += [f"gres/gpu:{model}={count}" for model, count in gpus.items() if model and count]
    return ",".join(parts)


def by_name(text: str) -> str:
    """The same by name, as accounting prints it: ``billing=1,cpu=1,mem=500M,node=1``."""
    return ",".join(sorted(text.split(","), key=lambda part: (_kind(part) == "", part)))


def _kind(part: str) -> str:
    return part.partition("=")[0]


def without_billing(text: str) -> str:
    """What a step holds is not billed."""
    return ",".join(part for part in text.split(",") if _kind(part) != "billing")


def model_word(model: str) -> str:
    """A device's model as GRES names it: one word in small letters."""
    words = model.replace("NVIDIA", "").replace("_", " ").lower().split()
    return "-".join(words)


def gres_text(devices: Sequence[Device]) -> str:
    """``gpu:h200:4``; ``(null)`` for a machine without devices."""
    counts = count_models(devices)
    return ",".join(_named(model, count) for model, count in counts.items()) or "(null)"


def gres_used_text(devices: Sequence[Device], used: Iterable[int]) -> str:
    """``gpu:h200:2(IDX:0-1)`` for each model, used or not."""
    busy = set(used)
    parts = []
    for model in count_models(devices):
        mine = [d.index for d in devices if model_word(d.model) == model and d.index in busy]
        parts.append(f"{_named(model, len(mine))}(IDX:{ranges(mine) or 'N/A'})")
    return ",".join(parts) or "(null)"


def held_gres(held: HeldOnNode) -> str:
    """``gpu:h200:2(IDX:0-1)``, or nothing."""
    if not held.gpus:
        return ""
    return f"{_named(held.gpu_type, len(held.gpus))}(IDX:{ranges(held.gpus)})"


def job_gres(held: Iterable[HeldOnNode]) -> str:
    """What a job holds of each model: ``gpu:h200:2``."""
    counts: dict[str, int] = {}
    for part in held:
        if part.gpus:
            counts[part.gpu_type] = counts.get(part.gpu_type, 0) + len(part.gpus)
    return ",".join(_named(model, count) for model, count in counts.items())


def _named(model: str, count: int) -> str:
    return f"gpu:{model}:{count}" if model else f"gpu:{count}"


def count_models(devices: Iterable[Device]) -> dict[str, int]:
    """Devices by model, in the order in which the models come first."""
    counts: dict[str, int] = {}
    for device in devices:
        word = model_word(device.model)
        counts[word] = counts.get(word, 0) + 1
    return counts


def ranges(numbers: Iterable[int]) -> str:
    """``0-3,6``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
