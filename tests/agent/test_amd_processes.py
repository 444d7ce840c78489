"""Which processes are on AMD cards, read from a tree of files as the kernel writes them."""

from pathlib import Path

import pytest

from rota.agent.machine.amd_processes import SEARCH_EVERY, AmdProcesses, CardUse
from rota.agent.machine.readings import DeviceHolder, open_sources
from rota.core.facts.node import Device

FIRST, SECOND = "0000:03:00.0", "0000:83:00.0"


class Machine:
    """A made-up machine with two cards, and a clock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_s = 100.0
        (root / "proc").mkdir()
        self.processes = AmdProcesses({FIRST: 0, SECOND: 1}, root, lambda: self.now_s)

    def opens(self, pid: int, number: int, *lines: str, place: str = "/dev/dri/renderD128") -> None:
        folder = self.root / "proc" / str(pid)
        for name in ("fd", "fdinfo"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        link = folder / "fd" / str(number)
        link.unlink(missing_ok=True)
        link.symlink_to(place)
        (folder / "fdinfo" / str(number)).write_text("pos:\t0\nflags:\t02\n" + "\n".join(lines))

    def computes(self, pid: int) -> None:
        (self.root / "sys/class/kfd/kfd/proc" / str(pid)).mkdir(parents=True)

    def looks(self, after_s: float = 0.0) -> list[CardUse]:
        self.now_s += after_s
        return self.processes.look()


def client(number: int, card: str, kib: int, **engines_ns: int) -> list[str]:
    return [
        "drm-driver:\tamdgpu",
        f"drm-pdev:\t{card}",
        f"drm-client-id:\t{number}",
        f"drm-memory-vram:\t{kib} KiB",
        *(f"drm-engine-{name}:\t{ns} ns" for name, ns in engines_ns.items()),
    ]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_process_has_its_memory_on_each_card_that_it_has_open(machine: Machine):
    machine.opens(41, 3, *client(7, FIRST, 2048 * 1024))
    machine.opens(41, 4, *client(8, FIRST, 1024 * 1024))
    machine.opens(41, 5, *client(9, SECOND, 512 * 1024))
    machine.opens(42, 1, place="/dev/null")

    assert machine.looks() == [CardUse(0, 41, 3072, None), CardUse(1, 41, 512, None)]


def test_a_card_that_was_passed_on_under_another_number_counts_once(machine: Machine):
    machine.opens(41, 3, *client(7, FIRST, 2048 * 1024))
    machine.opens(41, 9, *client(7, FIRST, 2048 * 1024))

    assert machine.looks() == [CardUse(0, 41, 2048, None)]


def test_what_is_resident_counts_before_what_was_asked_for(machine: Machine):
    lines = [*client(7, FIRST, 8192 * 1024), "drm-resident-vram:\t100 MiB"]
    machine.opens(41, 3, *lines)

    assert machine.looks() == [CardUse(0, 41, 100, None)]


def test_use_is_the_time_of_the_engines_since_the_last_look(machine: Machine):
    machine.opens(41, 3, *client(7, FIRST, 1024, gfx=1_000_000_000, compute=0))
    machine.looks()
    machine.opens(41, 3, *client(7, FIRST, 1024, gfx=2_000_000_000, compute=500_000_000))

    assert machine.looks(after_s=5.0) == [CardUse(0, 41, 1, 30.0)]
    assert machine.looks(after_s=5.0) == [CardUse(0, 41, 1, 0.0)]


def test_a_process_that_computes_is_seen_at_once_and_any_other_within_a_minute(machine: Machine):
    machine.looks()
    machine.opens(41, 3, *client(7, FIRST, 1024))
    machine.opens(42, 3, *client(8, SECOND, 1024))
    machine.computes(42)

    seen = [[use.pid for use in machine.looks()] for _ in range(SEARCH_EVERY)]

    assert seen == [*[[42]] * (SEARCH_EVERY - 1), [41, 42]]


def test_programs_that_only_ask_and_lines_that_say_nothing_hold_nothing(machine: Machine):
    machine.opens(41, 3, *client(7, FIRST, 0))
    machine.opens(42, 3, "drm-pdev:\tnowhere", "drm-memory-vram:\t5 KiB")
    machine.opens(43, 3, *client(9, FIRST, 0), "drm-resident-vram:\tmany KiB")
    machine.opens(44, 3)

    assert machine.looks() == []


def test_the_cards_of_a_node_are_looked_at_with_their_processes(machine: Machine):
    card = machine.root / "sys/devices" / FIRST
    card.mkdir(parents=True)
    for name, text in {"vendor": "0x1002", "unique_id": "a1", "mem_info_vram_total": "9"}.items():
        (card / name).write_text(text + "\n")
    (machine.root / "sys/class/drm/card1").mkdir(parents=True)
    (machine.root / "sys/class/drm/card1/device").symlink_to(card)
    machine.opens(41, 3, *client(7, FIRST, 2048))

    (source,) = open_sources((Device(5, "a1"),), "", machine.root)

    assert source.look()[1] == [DeviceHolder(5, 41, 2)]
