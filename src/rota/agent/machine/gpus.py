"""GPUs: NVIDIA by its management library, AMD by /sys, made-up ones from a file.

Every field but the index is optional: virtual machines and old drivers answer "not supported" to
about anything. A device is known by its uuid, never by its place in a list.
"""

from __future__ import annotations

import os
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
    #: Processes that hold less than this on a device; 0: none.
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


class FakeProcess(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A made-up process of a job; pid 0: of the job that has had the GPU for longest."""

    memory_mib: int
    use_percent: float | None = None
    pid: int = 0


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
    #: What is measured of it; None: it does not say.
    use_percent: float | None = None
    memory_used_mib: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    #: Failures that it has reported so far.
    xids: tuple[int, ...] = ()
    #: What jobs have on it.
    processes: tuple[FakeProcess, ...] = ()
    #: Its driver does not answer.
    hangs: bool = False


class Card(NamedTuple):
    """Where a device is: its address on the PCI bus as the kernel writes it, NVIDIA's minor."""

    bus: str
    nvidia: bool
    minor: int | None = None


def discover_devices(
    fake_file: str, numa: tuple[tuple[int, ...], ...], root: Path = Path("/")
) -> tuple[Device, ...]:
    """The devices of this node. A file of made-up ones replaces the real ones."""
    fake_file = named_file(fake_file)
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


def named_file(fake_file: str) -> str:
    """The file of made-up GPUs, by setting or by variable; empty: they are real."""
    return fake_file or os.environ.get(FAKE_VARIABLE, "")


def fake_files(fake_file: str) -> list[tuple[str, ...]]:
    """The device files of each made-up GPU."""
    return [gpu.files for gpu in read_fake(named_file(fake_file))]


def cards_of(devices: tuple[Device, ...], root: Path = Path("/")) -> dict[int, Card]:
    """Where the real ones are, by index. An instance (MIG) is where its card is."""
    amd = {amd_uuid(folder): os.path.basename(folder.resolve()) for folder in amd_cards(root)}
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


def open_nvml() -> Any:  # noqa: ANN401
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


def ask(nvml: Any, name: str, *arguments: object) -> Any:  # noqa: ANN401
    """One question; None for whatever the driver, the card or the library does not know."""
    try:
        return getattr(nvml, name)(*arguments)
    except (nvml.NVMLError, AttributeError, UnicodeDecodeError, ValueError):
        return None


def _nvidia_devices(numa: tuple[tuple[int, ...], ...], root: Path) -> list[Device]:
    nvml = open_nvml()
    if nvml is None:
        return []
    handles: list[tuple[Any, Any]] = []
    for index in range(ask(nvml, "nvmlDeviceGetCount") or 0):
        handle = ask(nvml, "nvmlDeviceGetHandleByIndex", index)
        if handle is not None:
            handles.extend((part, handle) for part in _mig_parts(nvml, handle) or [handle])
    devices = []
    for index, (handle, card) in enumerate(handles):
        memory = ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
        devices.append(
            Device(
                index=index,
                uuid=str(ask(nvml, "nvmlDeviceGetUUID", handle) or f"GPU-{index}"),
                model=_short_model(str(ask(nvml, "nvmlDeviceGetName", handle) or "")),
                memory_mib=memory.total // MIB if memory else 0,
                numa=_nvidia_numa(nvml, card, numa, root),
                links=tuple(
                    other
                    for other, (_, peer) in enumerate(handles)
                    if other != index and peer is not card and _linked(nvml, card, peer)
                ),
                ecc_errors=uncorrected_errors(nvml, card),
                healthy=_is_healthy(nvml, card),
            )
        )
    return devices


def uncorrected_errors(nvml: Any, card: Any) -> int:  # noqa: ANN401
    """Errors in memory that could not be corrected since the driver was loaded."""
    uncorrected = getattr(nvml, "NVML_MEMORY_ERROR_TYPE_UNCORRECTED", 1)
    since_loaded = getattr(nvml, "NVML_VOLATILE_ECC", 0)
    count = ask(nvml, "nvmlDeviceGetTotalEccErrors", card, uncorrected, since_loaded)
    return int(count or 0)


def _is_healthy(nvml: Any, card: Any) -> bool:  # noqa: ANN401
    """Whether its memory can be used: no page waits to be retired, each bad row was replaced."""
    if ask(nvml, "nvmlDeviceGetRetiredPagesPendingStatus", card) == 1:
        return False
    # Corrected, uncorrected, pending, failed.
    rows = ask(nvml, "nvmlDeviceGetRemappedRows", card)
    return not (rows and rows[3])


def _mig_parts(nvml: Any, handle: Any) -> list[Any]:  # noqa: ANN401
    """A card in MIG mode is handed out by its instances."""
    mode = ask(nvml, "nvmlDeviceGetMigMode", handle)
    if not mode or mode[0] != 1:
        return []
    parts = (
        ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        for number in range(ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0)
    )
    return [part for part in parts if part is not None]


def _short_model(name: str) -> str:
    """``NVIDIA A100-SXM4-40GB`` is what people call an A100."""
    words = name.removeprefix("NVIDIA").replace("Tesla", "").replace("GeForce", "").strip()
    return words.partition("-")[0].strip() if words[:1] in "ABHLPTV" else words


def _nvidia_numa(nvml: Any, card: Any, numa: tuple[tuple[int, ...], ...], root: Path) -> int:  # noqa: ANN401
    number = ask(nvml, "nvmlDeviceGetNumaNodeId", card)
    if isinstance(number, int) and 0 <= number < max(1, len(numa)):
        return number
    if bus := _bus(nvml, card):
        number = read_int(root / "sys/bus/pci/devices" / bus / "numa_node")
        if number is not None and number >= 0:
            return number
    words = ask(nvml, "nvmlDeviceGetCpuAffinity", card, 64)
    if words is None:
        return -1
    near = {64 * at + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1}
    holding = [at for at, cpus in enumerate(numa) if near & set(cpus)]
    return holding[0] if len(holding) == 1 else -1


def _bus(nvml: Any, card: Any) -> str:  # noqa: ANN401
    pci = ask(nvml, "nvmlDeviceGetPciInfo", card)
    if pci is None:
        return ""
    bus = pci.busId.decode() if isinstance(pci.busId, bytes) else str(pci.busId)
    # The library writes eight digits for the domain, the kernel four.
    return bus.lower()[-12:]


def _nvidia_card(uuid: str) -> Card:
    nvml = open_nvml()
    card = ask(nvml, "nvmlDeviceGetHandleByUUID", uuid) if nvml else None
    if card is not None and uuid.startswith("MIG-"):
        card = ask(nvml, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", card)
    if card is None:
        return Card("", nvidia=True)
    return Card(_bus(nvml, card), True, ask(nvml, "nvmlDeviceGetMinorNumber", card))


def _linked(nvml: Any, card: Any, peer: Any) -> bool:  # noqa: ANN401
    index = getattr(nvml, "NVML_P2P_CAPS_INDEX_NVLINK", None)
    if index is None:
        return False
    status: int | None = ask(nvml, "nvmlDeviceGetP2PStatus", card, peer, index)
    return status == 0


def amd_cards(root: Path) -> list[Path]:
    """The folders of cards with memory of their own, in the order of their numbers."""
    cards = sorted(
        (root / "sys/class/drm").glob("card[0-9]*/device"),
        key=lambda folder: int("".join(filter(str.isdecimal, folder.parent.name)) or 0),
    )
    return [
        folder
        for folder in cards
        if read_text(folder / "vendor") == _AMD_VENDOR
        and "-" not in folder.parent.name
        and read_int(folder / "mem_info_vram_total")
    ]


def amd_uuid(folder: Path) -> str:
    return read_text(folder / "unique_id") or os.path.basename(os.path.realpath(folder))


def _amd_devices(first_index: int, root: Path) -> list[Device]:
    return [
        Device(
            index=index,
            uuid=amd_uuid(folder),
            model=read_text(folder / "product_name") or "AMD",
            memory_mib=(read_int(folder / "mem_info_vram_total") or 0) // MIB,
            numa=-1 if (number := read_int(folder / "numa_node")) is None else number,
        )
        for index, folder in enumerate(amd_cards(root), first_index)
    ]


def read_text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def read_int(file: Path) -> int | None:
    text = read_text(file)
    return int(text) if text.lstrip("-").isdecimal() else None
