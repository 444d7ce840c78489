"""The fields that bodies are made of, and their ranges."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rota.api.bodies.mib import TakesMib

#: Numbers that fit everywhere: JSON, both databases, every kernel interface.
BIG = 2**53 - 1

Whole = Annotated[int, Meta(ge=0, le=BIG)]
Seconds = Annotated[float, Meta(ge=0, le=3_200_000_000)]
Short = Annotated[str, Meta(max_length=200)]
Line = Annotated[str, Meta(max_length=4096)]
JobRef = int | str
Words = Annotated[list[Line], Meta(max_length=1000)]
JobType = Literal["", "training", "inference", "workflow"]


def says(text: str) -> Meta:
    """What a field means, for the documentation."""
    return Meta(description=text)


class Resources(
    TakesMib,
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    omit_defaults=True,
):
    """What one task asks for."""

    cpus: Annotated[
        float, Meta(ge=0.001, le=1_000_000), says("CPUs, as a whole or broken number")
    ] = 1
    memory_mib: Annotated[
        Whole | UnsetType, says("Memory in MiB; enforced. 0: no limit, nothing set aside")
    ] = UNSET
    memory_mb: Whole = 0
    gpus: Annotated[
        float,
        Meta(ge=0, le=100_000),
        says("How many GPUs (or other devices); below 1 a share of one, such as 0.5"),
    ] = 0
    gpu_type: Annotated[Short, says("Only this model, such as A100; empty or `auto`: any")] = ""
    gpu_memory_mib: Annotated[
        Whole | UnsetType, says("Memory on each GPU in MiB; required with `shared`")
    ] = UNSET
    gpu_memory_mb: Whole = 0
    shared: Annotated[bool, says("May share its GPUs with other shared jobs")] = False
    disk_mib: Annotated[Whole | UnsetType, says("Disk on the node in MiB")] = UNSET
    disk_mb: Whole = 0
    device: Annotated[Literal["", "gpu", "tpu"], says("The kind of device; empty: gpu")] = ""
    gpu_indices: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=65_535)], ...],
        says("Only GPUs with these numbers on their node, as `rota gpus` lists them"),
    ] = ()


class ResourcesPatch(
    TakesMib, msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """What shall change of what one task asks for; absent fields stay as they are."""

    cpus: float | UnsetType = UNSET
    memory_mib: int | UnsetType = UNSET
    memory_mb: int | UnsetType = UNSET
    gpus: float | UnsetType = UNSET
    gpu_type: str | UnsetType = UNSET
    gpu_memory_mib: int | UnsetType = UNSET
    gpu_memory_mb: int | UnsetType = UNSET
    shared: bool | UnsetType = UNSET
    disk_mib: int | UnsetType = UNSET
    disk_mb: int | UnsetType = UNSET
    device: Literal["", "gpu", "tpu"] | UnsetType = UNSET
    gpu_indices: tuple[int, ...] | UnsetType = UNSET
