"""A fence around the devices of a node: an attempt can open those that it was given, and no other.

What is not the file of a device of this node stays as it is. A program that nothing was given to
cannot open one by a name or number of its own choice, since the kernel goes by device numbers.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rota.agent.machine.bpf import attach_device_filter
from rota.agent.machine.device_program import Number, deny
from rota.agent.machine.gpus import BadGpuFile, Card, cards_of, fake_files

if TYPE_CHECKING:
    from rota.agent.machine.cgroups import Cgroups
    from rota.core.facts.node import Device, NodeSpec

#: The number under which the driver is registered with the kernel.
NVIDIA_MAJOR = 195


class Fence:
    """Knows the numbers of all device files, by the index of their device."""

    def __init__(self, numbers: dict[int, frozenset[Number]]) -> None:
        self._numbers = numbers

    def close(self, group: str, given: tuple[int, ...]) -> None:
        """Before the first process is in the group. Two parts of one card have its files both."""
        own = self._files(given)
        if others := self._files(tuple(self._numbers)) - own:
            attach_device_filter(deny(others), group)

    def _files(self, devices: tuple[int, ...]) -> frozenset[Number]:
        none: frozenset[Number] = frozenset()
        return none.union(*(self._numbers.get(device, none) for device in devices))


def put_up(
    spec: NodeSpec, cgroups: Cgroups | None, policy: str, fake_file: str, root: Path = Path("/")
) -> NodeSpec:
    """The node as the controller is told of it, with a fence where there can be one.

    ``policy``: ``auto`` goes on without, ``required`` hands out no device then, ``off``: none.
    """
    if policy == "off":
        return spec
    numbers = device_numbers(spec.devices, fake_file, root)
    if not numbers:
        return spec
    obstacle = _obstacle(numbers, cgroups)
    if cgroups is not None and not obstacle:
        cgroups.fence = Fence(numbers)
        return msgspec.structs.replace(spec, fenced=True)
    if policy == "auto":
        remark = f"GPUs are not enforced: {obstacle}"
        return msgspec.structs.replace(spec, remarks=(*spec.remarks, remark))
    remark = f"takes no GPU jobs: agent.enforce_devices is required, but {obstacle}"
    shut = tuple(msgspec.structs.replace(device, healthy=False) for device in spec.devices)
    return msgspec.structs.replace(spec, devices=shut, remarks=(*spec.remarks, remark))


def _obstacle(numbers: dict[int, frozenset[Number]], cgroups: Cgroups | None) -> str:
    """Why there can be no fence; empty: there can."""
    unknown = [index for index, files in numbers.items() if not files]
    if unknown:
        return f"the device files of GPU {unknown[0]} are not known"
    if cgroups is None:
        return "there are no control groups (version 2) here, or they are not ours"
    try:
        cgroups.try_out(Fence(numbers))
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""


def device_numbers(
    devices: tuple[Device, ...], fake_file: str = "", root: Path = Path("/")
) -> dict[int, frozenset[Number]]:
    """The files of each device by its index; made-up devices have those that they name, if any."""
    if any(device.fake for device in devices):
        named = fake_files(fake_file)
        return {
            index: frozenset(_number_of(file) for file in files)
            for index, files in enumerate(named)
            if files
        }
    return {index: _files_of(card, root) for index, card in cards_of(devices, root).items()}


def _number_of(file: str) -> Number:
    try:
        found = os.stat(file)
    except OSError as error:
        raise BadGpuFile(f"agent.fake_gpus: files: {file}: {error.strerror}") from None
    if not stat.S_ISCHR(found.st_mode):
        raise BadGpuFile(f"agent.fake_gpus: files: {file}: expected a character device")
    return os.major(found.st_rdev), os.minor(found.st_rdev)


def _files_of(card: Card, root: Path) -> frozenset[Number]:
    """``/dev/nvidiaN`` of the card, and what the kernel has for it below ``/dev/dri``."""
    found = set()
    minor = card.minor
    if minor is None and card.nvidia:
        information = root / "proc/driver/nvidia/gpus" / card.bus / "information"
        told = re.search(r"Device Minor:\s*(\d+)", _text(information))
        minor = int(told[1]) if told else None
    if minor is not None:
        found.add((NVIDIA_MAJOR, minor))
    elif card.nvidia:
        return frozenset()
    for file in (root / "sys/bus/pci/devices" / card.bus / "drm").glob("*/dev"):
        major, _, second = _text(file).strip().partition(":")
        found.add((int(major), int(second)))
    return frozenset(found)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
