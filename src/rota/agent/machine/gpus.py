"""GPUs: NVIDIA by its management library, AMD by /sys, made-up ones from a file.

Every field but the index is optional: virtual machines and old drivers answer "not supported" to
about anything. A device is known by its uuid, never by its place in a list.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rota.core.facts.node import Device, ForeignUse

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
FAKE_VARIABLE = "ROTA_FAKE_GPUS"
#: The kernel keeps no more of the name of a process.
NAME_MAX = 15
_AMD_VENDOR = "0x1002"


class BadGpuFile(Exception):
    """The file with made-up GPUs cannot be used; the text says why."""


class Tolerance(msgspec.Struct, frozen=True):
    """Which processes outside Rota do not count, although they are on a device."""

    names: frozenset[str] = frozenset()
    pids: frozenset[int] = frozenset()
    #: Whoever holds less than this on a device; 0: nobody.
    below_mib: int = 0

    @classmethod
    def of(cls, text: str, below_mib: int = 0) -> Tolerance:
        """From names and pids with commas or blanks between them: ``Xorg, 4242``."""
        words = text.replace(",", " ").split()
        pids = frozenset(int(word) for word in words if word.isdecimal())
        names = frozenset(word[:NAME_MAX] for word in words if not word.isdecimal())
        return cls(names, pids, below_mib)

    def covers(self, use: ForeignUse, name_of: Callable[[int], str]) -> bool:
        """``name_of`` is asked for the name of a process only if names matter."""
        if use.pid in self.pids or use.memory_mib < self.below_mib:
            return True
        return bool(self.names) and name_of(use.pid) in self.names


class FakeUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A made-up process of somebody else on a made-up GPU."""

    pid: int
    user: str
    memory_mib: int
    name: str = ""


class FakeGpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the file: ``[{"model": "A100", "memory_mib": 40960}, …]``."""

    model: str
    memory_mib: int = 0
    numa: int = -1
    links: tuple[int, ...] = ()
    foreign: tuple[FakeUse, ...] = ()
    uuid: str = ""
    kind: str = "gpu"
    ecc_errors: int = 0
    healthy: bool = True
    #: Real device files that stand for it, so that the fence around them can be seen at work.
    files: tuple[str, ...] = ()


class Card(NamedTuple):
    """Where a device is: its address on the PCI bus as the kernel writes it, NVIDIA's minor."""

    bus: str
    nvidia: bool
    minor: int | None = None


def discover_devices(
    fake_file: str, numa: tuple[tuple[int, ...], ...], root: Path = Path("/")
) -> tuple[Device, ...]:
    """The devices of this node. A file of made-up ones replaces the real ones."""
    fake_file = fake_file or os.environ.get(FAKE_VARIABLE, "")
    if fake_file:
        return tuple(
            Device(
                index,
                gpu.uuid or f"GPU-fake-{index}",
                gpu.kind,
                gpu.model,
                gpu.memory_mib,
                gpu.numa,
                gpu.links,
                fake=True,
                ecc_errors=gpu.ecc_errors,
                healthy=gpu.healthy,
            )
            for index, gpu in enumerate(read_fake(fake_file))
        )
    nvidia = _nvidia_devices(numa, root)
    return (*nvidia, *_amd_devices(len(nvidia), root))


def fake_files(fake_file: str) -> list[tuple[str, ...]]:
    """The device files of each made-up GPU."""
    return [gpu.files for gpu in read_fake(fake_file or os.environ.get(FAKE_VARIABLE, ""))]


def cards_of(devices: tuple[Device, ...], root: Path = Path("/")) -> dict[int, Card]:
    """Where the real ones are, by index. An instance (MIG) is where its card is."""
    amd = {_amd_uuid(folder): os.path.basename(folder.resolve()) for folder in _amd_cards(root)}
    return {
        device.index: Card(amd[device.uuid], nvidia=False)
        if device.uuid in amd
        else _nvidia_card(device.uuid)
        for device in devices
    }


def read_fake(file: str) -> list[FakeGpu]:
    try:
        return msgspec.json.decode(Path(file).read_bytes(), type=list[FakeGpu])
    except OSError as error:
        raise BadGpuFile(
            f"agent.fake_gpus: {file}: {error.strerror}; expected a number of GPUs or a file"
        ) from None
    except msgspec.MsgspecError as error:
        raise BadGpuFile(f"agent.fake_gpus: {file}: {error}") from None


def foreign_use(
    devices: tuple[Device, ...],
    own_pids: Callable[[], set[int]],
    fake_file: str = "",
    tolerance: Tolerance = Tolerance(),  # noqa: B008 - frozen
) -> tuple[ForeignUse, ...]:
    """Processes on the devices that are not ours. ``own_pids`` is asked only if there are any.

    Those that do not count are told as well, and marked, so that people can see them.
    """
    fake_file = fake_file or os.environ.get(FAKE_VARIABLE, "")
    names: dict[int, str] = {}
    if fake_file:
        found = []
        for index, gpu in enumerate(read_fake(fake_file)):
            found += [ForeignUse(index, use.pid, use.user, use.memory_mib) for use in gpu.foreign]
            names |= {use.pid: use.name for use in gpu.foreign if use.name}
    else:
        found = _nvidia_use(devices)
    if not found:
        return ()
    ours = own_pids()

    def name_of(pid: int) -> str:
        return names.get(pid) or _read(Path(f"/proc/{pid}/comm"))

    return tuple(
        msgspec.structs.replace(use, ignored=True) if tolerance.covers(use, name_of) else use
        for use in found
        if use.pid not in ours
    )


def _nvml() -> Any:  # noqa: ANN401
    """The library, ready for use, or None. It stays open: opening costs more than all calls."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _ask(nvml: Any, name: str, *arguments: object) -> Any:  # noqa: ANN401
    """One question; None for whatever the driver, the card or the library does not know."""
    try:
        return getattr(nvml, name)(*arguments)
    except (nvml.NVMLError, AttributeError, UnicodeDecodeError, ValueError):
        return None


def _nvidia_devices(numa: tuple[tuple[int, ...], ...], root: Path) -> list[Device]:
    nvml = _nvml()
    if nvml is None:
        return []
    handles: list[tuple[Any, Any]] = []
    for index in range(_ask(nvml, "nvmlDeviceGetCount") or 0):
        handle = _ask(nvml, "nvmlDeviceGetHandleByIndex", index)
        if handle is not None:
            handles.extend((part, handle) for part in _mig_parts(nvml, handle) or [handle])
    devices = []
    for index, (handle, card) in enumerate(handles):
        memory = _ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
        devices.append(
            Device(
                index=index,
                uuid=str(_ask(nvml, "nvmlDeviceGetUUID", handle) or f"GPU-{index}"),
                model=_short_model(str(_ask(nvml, "nvmlDeviceGetName", handle) or "")),
                memory_mib=memory.total // MIB if memory else 0,
                numa=_nvidia_numa(nvml, card, numa, root),
                links=tuple(
                    other
                    for other, (_, peer) in enumerate(handles)
                    if other != index and peer is not card and _linked(nvml, card, peer)
                ),
                ecc_errors=_ecc_errors(nvml, card),
                healthy=_is_healthy(nvml, card),
            )
        )
    return devices


def _ecc_errors(nvml: Any, card: Any) -> int:  # noqa: ANN401
    """Errors in memory that could not be corrected since the driver was loaded."""
    uncorrected = getattr(nvml, "NVML_MEMORY_ERROR_TYPE_UNCORRECTED", 1)
    since_loaded = getattr(nvml, "NVML_VOLATILE_ECC", 0)
    count = _ask(nvml, "nvmlDeviceGetTotalEccErrors", card, uncorrected, since_loaded)
    return int(count or 0)


def _is_healthy(nvml: Any, card: Any) -> bool:  # noqa: ANN401
    """Whether its memory can be used: no page waits to be retired, each bad row was replaced."""
    if _ask(nvml, "nvmlDeviceGetRetiredPagesPendingStatus", card) == 1:
        return False
    # Corrected, uncorrected, pending, failed.
    rows = _ask(nvml, "nvmlDeviceGetRemappedRows", card)
    return not (rows and rows[3])


def _mig_parts(nvml: Any, handle: Any) -> list[Any]:  # noqa: ANN401
    """A card in MIG mode is handed out by its instances."""
    mode = _ask(nvml, "nvmlDeviceGetMigMode", handle)
    if not mode or mode[0] != 1:
        return []
    parts = (
        _ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        for number in range(_ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0)
    )
    return [part for part in parts if part is not None]


def _short_model(name: str) -> str:
    """``NVIDIA A100-SXM4-40GB`` is what people call an A100."""
    words = name.removeprefix("NVIDIA").replace("Tesla", "").replace("GeForce", "").strip()
    return words.partition("-")[0].strip() if words[:1] in "ABHLPTV" else words


def _nvidia_numa(nvml: Any, card: Any, numa: tuple[tuple[int, ...], ...], root: Path) -> int:  # noqa: ANN401
    number = _ask(nvml, "nvmlDeviceGetNumaNodeId", card)
    if isinstance(number, int) and 0 <= number < max(1, len(numa)):
        return number
    if bus := _bus(nvml, card):
        number = _read_int(root / "sys/bus/pci/devices" / bus / "numa_node")
        if number is not None and number >= 0:
            return number
    words = _ask(nvml, "nvmlDeviceGetCpuAffinity", card, 64)
    if words is None:
        return -1
    near = {64 * at + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1}
    holding = [at for at, cpus in enumerate(numa) if near & set(cpus)]
    return holding[0] if len(holding) == 1 else -1


def _bus(nvml: Any, card: Any) -> str:  # noqa: ANN401
    pci = _ask(nvml, "nvmlDeviceGetPciInfo", card)
    if pci is None:
        return ""
    bus = pci.busId.decode() if isinstance(pci.busId, bytes) else str(pci.busId)
    # The library writes eight digits for the domain, the kernel four.
    return bus.lower()[-12:]


def _nvidia_card(uuid: str) -> Card:
    nvml = _nvml()
    card = _ask(nvml, "nvmlDeviceGetHandleByUUID", uuid) if nvml else None
    if card is not None and uuid.startswith("MIG-"):
        card = _ask(nvml, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", card)
    if card is None:
        return Card("", nvidia=True)
    return Card(_bus(nvml, card), True, _ask(nvml, "nvmlDeviceGetMinorNumber", card))


def _linked(nvml: Any, card: Any, peer: Any) -> bool:  # noqa: ANN401
    index = getattr(nvml, "NVML_P2P_CAPS_INDEX_NVLINK", None)
    if index is None:
        return False
    status: int | None = _ask(nvml, "nvmlDeviceGetP2PStatus", card, peer, index)
    return status == 0


def _nvidia_use(devices: tuple[Device, ...]) -> list[ForeignUse]:
    if not any(device.uuid.startswith(("GPU-", "MIG-")) for device in devices):
        return []
    nvml = _nvml()
    if nvml is None:
        return []
    found: dict[tuple[int, int], ForeignUse] = {}
    for device in devices:
        handle = _ask(nvml, "nvmlDeviceGetHandleByUUID", device.uuid)
        if handle is None:
            continue
        for kind in ("Compute", "Graphics"):
            for use in _ask(nvml, f"nvmlDeviceGet{kind}RunningProcesses", handle) or ():
                found[device.index, use.pid] = ForeignUse(
                    device.index, use.pid, owner_of(use.pid), (use.usedGpuMemory or 0) // MIB
                )
    return list(found.values())


def owner_of(pid: int) -> str:
    """The name of a process's user, or its number, or empty when it is gone."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _amd_cards(root: Path) -> list[Path]:
    """The folders of cards with memory of their own, in the order of their numbers."""
    cards = sorted(
        (root / "sys/class/drm").glob("card[0-9]*/device"),
        key=lambda folder: int("".join(filter(str.isdecimal, folder.parent.name)) or 0),
    )
    return [
        folder
        for folder in cards
        if _read(folder / "vendor") == _AMD_VENDOR
        and "-" not in folder.parent.name
        and _read_int(folder / "mem_info_vram_total")
    ]


def _amd_uuid(folder: Path) -> str:
    return _read(folder / "unique_id") or os.path.basename(os.path.realpath(folder))


def _amd_devices(first_index: int, root: Path) -> list[Device]:
    return [
        Device(
            index=index,
            uuid=_amd_uuid(folder),
            model=_read(folder / "product_name") or "AMD",
            memory_mib=(_read_int(folder / "mem_info_vram_total") or 0) // MIB,
            numa=-1 if (number := _read_int(folder / "numa_node")) is None else number,
        )
        for index, folder in enumerate(_amd_cards(root), first_index)
    ]


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _read_int(file: Path) -> int | None:
    text = _read(file)
    return int(text) if text.lstrip("-").isdecimal() else None
