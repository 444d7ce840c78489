"""What a machine has, read from made-up /proc and /sys folders, and made-up GPUs."""

import json
import os
from pathlib import Path

import pytest

from rota.agent.machine.discover import (
    Overrides,
    cpu_quota_milli,
    discover,
    memory_total_mib,
    numa_cpus,
    parse_cpu_list,
    reserve_mib,
)
from rota.agent.machine.foreign import strangers
from rota.agent.machine.gpus import FAKE_VARIABLE, BadGpuFile, Tolerance, discover_devices
from rota.agent.machine.readings import Fake, open_sources
from rota.core.facts.node import Device, ForeignUse

GIB = 1 << 30


@pytest.fixture(autouse=True)
def no_fake_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FAKE_VARIABLE, raising=False)


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal:       16777216 kB\nMemFree:  1 kB\n"}


def test_this_machine_has_what_the_kernel_says(tmp_path: Path):
    spec = discover(tmp_path, Overrides())

    assert spec.cpus == tuple(sorted(os.sched_getaffinity(0)))
    assert 0 < spec.cpu_milli <= 1000 * len(spec.cpus)
    assert spec.memory_mib > 0
    assert spec.disk_mib > 0
    assert spec.name == os.uname().nodename


def test_overrides_win(tmp_path: Path):
    spec = discover(
        tmp_path, Overrides("n7", cpus=1, memory_mib=77, disk_mib=88, labels={"zone": "a"})
    )

    assert (spec.name, spec.cpu_milli, len(spec.cpus)) == ("n7", 1000, 1)
    assert (spec.memory_mib, spec.disk_mib, spec.labels["zone"]) == (77, 88, "a")


def test_more_cpus_than_there_are_turn_pinning_off(tmp_path: Path):
    spec = discover(tmp_path, Overrides(cpus=512))

    assert (spec.cpu_milli, spec.cpus, spec.numa_cpus) == (512_000, (), ())


def test_memory_is_that_of_the_machine_without_a_limit(tmp_path: Path):
    assert memory_total_mib(machine(tmp_path, MEMINFO)) == 16384


@pytest.mark.parametrize(
    "files",
    [
        {"proc/self/cgroup": "0::/box/job\n", "sys/fs/cgroup/box/memory.max": str(3 * GIB),
         "sys/fs/cgroup/box/job/memory.max": "max"},
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": str(3 * GIB)},
        {"proc/self/cgroup": "4:memory:/docker/x\n0::/\n",
         "sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": str(3 * GIB),
         "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"},
        # In a container the path names a folder of the machine outside.
        {"proc/self/cgroup": "4:memory:/docker/x\n",
         "sys/fs/cgroup/memory/memory.limit_in_bytes": str(3 * GIB)},
    ],
    ids=["v2 parent", "v2 root", "v1", "v1 in a container"],
)  # fmt: skip
def test_the_tightest_limit_of_memory_counts(tmp_path: Path, files: dict[str, str]):
    assert memory_total_mib(machine(tmp_path, MEMINFO | files)) == 3072


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/box\n", "sys/fs/cgroup/box/cpu.max": "max 100000"}, None),
        ({"proc/self/cgroup": "0::/box\n", "sys/fs/cgroup/box/cpu.max": "150000 100000"}, 1500),
        ({"proc/self/cgroup": "3:cpu,cpuacct:/x\n",
          "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "50000",
          "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000"}, 500),
        ({"proc/self/cgroup": "3:cpu:/x\n", "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1",
          "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000"}, None),
    ],
    ids=["none", "v2 without limit", "v2", "v1", "v1 without limit"],
)  # fmt: skip
def test_a_cpu_quota_is_found(tmp_path: Path, files: dict[str, str], expected: int | None):
    assert cpu_quota_milli(machine(tmp_path, files)) == expected


@pytest.mark.parametrize(
    ("total", "reserve"), [(1024, 256), (4096, 512), (24_000, 1200), (1_000_000, 4096)]
)
def test_a_part_of_the_memory_is_left_to_the_system(total: int, reserve: int):
    assert reserve_mib(total) == reserve


def test_cpu_lists_of_the_kernel_are_read():
    assert parse_cpu_list("0-3,8,10-11\n") == [0, 1, 2, 3, 8, 10, 11]
    assert parse_cpu_list("\n") == []


def test_numa_domains_list_usable_cpus_by_number(tmp_path: Path):
    root = machine(tmp_path, {
        "sys/devices/system/node/node0/cpulist": "0-3\n",
        "sys/devices/system/node/node2/cpulist": "4-7\n",
        "sys/devices/system/node/possible": "0-2\n",
    })  # fmt: skip

    assert numa_cpus(root, {0, 1, 5}) == ((0, 1), (), (5,))


def test_made_up_gpus_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "gpus.json"
    gpus = [
        {"model": "A100", "memory_mib": 40960, "numa": 0, "links": [1]},
        {"model": "L4", "foreign": [{"pid": 1, "user": "x", "memory_mib": 100}]},
    ]
    file.write_text(json.dumps(gpus))
    monkeypatch.setenv(FAKE_VARIABLE, str(file))

    devices = discover_devices("", ())

    assert devices == (
        Device(0, "GPU-fake-0", "gpu", "A100", 40960, 0, (1,), fake=True),
        Device(1, "GPU-fake-1", "gpu", "L4", fake=True),
    )
    (source,) = open_sources(devices, "", tmp_path)
    assert strangers(source.look()[1], (), Tolerance()) == (ForeignUse(1, 1, "x", 100),)


def test_our_own_processes_are_not_foreign(tmp_path: Path):
    file = tmp_path / "gpus.json"
    use = [{"pid": 10, "user": "x", "memory_mib": 1}, {"pid": 11, "user": "y", "memory_mib": 2}]
    file.write_text(json.dumps([{"model": "A100", "foreign": use}]))

    found = strangers(Fake(str(file)).look()[1], {10}, Tolerance())

    assert [item.pid for item in found] == [11]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("[{", "truncated"), ('[{"modle": "A100"}]', "modle"), ('[{"memory_mib": 1}]', "model")],
)
def test_a_bad_file_of_gpus_is_named_with_its_fault(tmp_path: Path, text: str, complaint: str):
    file = tmp_path / "gpus.json"
    file.write_text(text)

    with pytest.raises(BadGpuFile, match=complaint):
        discover_devices(str(file), ())


def test_amd_cards_are_found_in_sys(tmp_path: Path):
    card = "sys/class/drm/card1/device/"
    root = machine(tmp_path, {
        card + "vendor": "0x1002\n", card + "mem_info_vram_total": str(64 * GIB),
        card + "unique_id": "abc123\n", card + "product_name": "MI250X\n",
        card + "numa_node": "1\n",
        "sys/class/drm/card0/device/vendor": "0x8086\n",
    })  # fmt: skip

    devices = [device for device in discover_devices("", (), root) if device.uuid == "abc123"]

    assert [(one.model, one.memory_mib, one.numa) for one in devices] == [("MI250X", 65536, 1)]
