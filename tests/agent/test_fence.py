"""The fence around the devices of a node: whose files, what the kernel refuses, what is told."""

from __future__ import annotations

import json
import os
import sys
import uuid
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from rota.agent.attempts.launch import Launcher, LaunchFailed
from rota.agent.machine.cgroups import Cgroups
from rota.agent.machine.fence import Fence, device_numbers, put_up
from rota.agent.machine.gpus import BadGpuFile
from rota.core.facts.node import Device, NodeSpec
from rota.rpc.messages import Launch
from rota.session.instructions import Spawn
from tests.support.cgroups import version_2
from tests.support.machine import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

NULL, ZERO, FULL = (1, 3), (1, 5), (1, 7)
OPENED, NOT_PERMITTED = 0, 1


def join_cgroup(cgroup: str) -> None:
    """The calling process goes into the group."""
    Path(cgroup, "cgroup.procs").write_bytes(b"0")


@pytest.fixture
def group() -> Iterator[Path]:
    """An empty control group of the real kernel."""
    top = version_2()
    if os.geteuid() != 0 or top is None:
        missing("needs root and a mount of version 2 of control groups")
    folder = top / f"rota-test-{uuid.uuid4().hex}"
    folder.mkdir()
    yield folder
    folder.rmdir()


def opens(group: Path, device: str, user: int = 0) -> int:
    """The error number that a process of the group gets; 0: it could open the device."""
    child = os.fork()
    if child == 0:
        code = 255
        try:
            join_cgroup(str(group))
            os.setuid(user)
            os.close(os.open(device, os.O_RDWR))
            code = OPENED
        except OSError as error:
            code = error.errno or 255
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("user", [0, 65534])
def test_a_process_opens_the_device_that_it_was_given_and_no_other_of_the_node(
    group: Path, user: int
):
    fence = Fence({0: frozenset([ZERO]), 1: frozenset([FULL])})

    fence.close(str(group), (0,))

    assert opens(group, "/dev/zero", user) == OPENED
    assert opens(group, "/dev/full", user) == NOT_PERMITTED
    assert opens(group, "/dev/null", user) == OPENED


def test_a_file_of_another_name_for_a_device_is_refused_as_well(group: Path, tmp_path: Path):
    other = tmp_path / "mine"
    os.mknod(other, 0o020666, os.makedev(*FULL))
    fence = Fence({0: frozenset([FULL])})

    before = opens(group, str(other))
    fence.close(str(group), ())

    assert before == OPENED
    assert opens(group, str(other)) == NOT_PERMITTED


def test_two_parts_of_one_card_share_its_files_and_a_third_job_gets_none(group: Path):
    fence = Fence({0: frozenset([ZERO]), 1: frozenset([ZERO]), 2: frozenset([FULL])})

    fence.close(str(group), (1,))

    assert opens(group, "/dev/zero") == OPENED
    assert opens(group, "/dev/full") == NOT_PERMITTED


def test_a_group_that_is_fenced_twice_is_fenced(group: Path):
    fence = Fence({0: frozenset([ZERO]), 1: frozenset([FULL])})

    fence.close(str(group), (1,))
    fence.close(str(group), (1,))

    assert opens(group, "/dev/zero") == NOT_PERMITTED
    assert opens(group, "/dev/full") == OPENED


def test_a_job_that_has_all_devices_needs_no_program(tmp_path: Path):
    fence = Fence({0: frozenset([ZERO]), 1: frozenset([FULL])})

    fence.close(str(tmp_path / "no such group"), (0, 1))

    with pytest.raises(OSError, match="device filter: "):
        fence.close(str(tmp_path / "no such group"), (0,))


def test_an_attempt_that_cannot_be_kept_from_the_devices_of_others_does_not_start(tmp_path: Path):
    (tmp_path / "cgroup.controllers").write_text("memory\n")
    groups = Cgroups(tmp_path)
    groups.fence = Fence({0: frozenset([ZERO]), 1: frozenset([FULL])})
    launcher = Launcher(tmp_path / "agent", groups)
    launch = Launch("u.0.1", 1, "", ("true",), "/", {}, devices=(0,))

    both = launcher.line(Spawn("u.0.2", replace(launch, uid="u.0.2", devices=(0, 1))))
    with pytest.raises(LaunchFailed, match=f"{tmp_path}/attempt-u.0.1: device filter: "):
        launcher.line(Spawn("u.0.1", launch))

    assert json.loads(both)["cgroup"] == str(tmp_path / "attempt-u.0.2")


@pytest.fixture
def gpus(tmp_path: Path) -> str:
    file = tmp_path / "gpus.json"
    cards = [{"model": "A100", "files": ["/dev/zero"]}, {"model": "A100", "files": ["/dev/full"]}]
    file.write_text(json.dumps(cards))
    return str(file)


NODE = NodeSpec(
    "n1", 1000, 1000, devices=tuple(Device(at, f"GPU-{at}", fake=True) for at in range(2))
)


def test_where_there_can_be_no_fence_the_node_says_so_and_hands_out_its_gpus(gpus: str):
    told = put_up(NODE, None, "auto", gpus)

    assert told.remarks == (
        "GPUs are not enforced: there are no control groups (version 2) here, or they are not ours",
    )
    assert told.devices == NODE.devices
    assert not told.fenced


def test_where_a_fence_is_required_and_cannot_be_no_gpu_is_handed_out(gpus: str):
    told = put_up(NODE, None, "required", gpus)

    assert told.remarks == (
        "takes no GPU jobs: agent.enforce_devices is required, but "
        "there are no control groups (version 2) here, or they are not ours",
    )
    assert not any(device.usable for device in told.devices)


def test_what_the_kernel_does_not_take_is_named(gpus: str, tmp_path: Path):
    (tmp_path / "cgroup.controllers").write_text("memory\n")
    groups = Cgroups(tmp_path)

    told = put_up(NODE, groups, "auto", gpus)

    assert told.remarks[0].startswith(
        f"GPUs are not enforced: {tmp_path}/attempt-trial: device filter: "
    )
    assert groups.fence is None
    assert not (tmp_path / "attempt-trial").exists()


def test_a_fence_that_is_off_and_a_node_without_device_files_are_left_as_they_are(
    gpus: str, tmp_path: Path
):
    plain = tmp_path / "plain.json"
    plain.write_text('[{"model": "A100"}, {"model": "A100"}]')

    assert put_up(NODE, None, "off", gpus) == NODE
    assert put_up(NODE, None, "required", str(plain)) == NODE
    assert put_up(NodeSpec("n1", 1000, 1000), None, "required", "") == NodeSpec("n1", 1000, 1000)


@pytest.mark.parametrize(
    ("file", "problem"),
    [("/dev/none", "No such file or directory"), ("/dev", "expected a character device")],
)
def test_a_made_up_gpu_stands_for_device_files_only(file: str, problem: str, tmp_path: Path):
    gpus = tmp_path / "gpus.json"
    gpus.write_text(json.dumps([{"model": "A100", "files": [file]}]))

    with pytest.raises(BadGpuFile, match=f"^agent.fake_gpus: files: {file}: {problem}$"):
        put_up(NODE, None, "auto", str(gpus))


def library(minors: dict[str, int | None]) -> ModuleType:
    """NVIDIA's library, as far as it says where a card is. An instance names its card."""

    class NVMLError(Exception):
        pass

    def known(uuid: str) -> str:
        if uuid.partition("@")[2] or uuid in minors:
            return uuid
        raise NVMLError

    def minor(uuid: str) -> int:
        if (number := minors[uuid]) is None:
            raise NVMLError
        return number

    module = ModuleType("pynvml")
    module.NVMLError = NVMLError  # type: ignore[attr-defined]
    module.nvmlInit = lambda: None  # type: ignore[attr-defined]
    module.nvmlDeviceGetHandleByUUID = known  # type: ignore[attr-defined]
    module.nvmlDeviceGetDeviceHandleFromMigDeviceHandle = (  # type: ignore[attr-defined]
        lambda uuid: uuid.partition("@")[2]
    )
    module.nvmlDeviceGetMinorNumber = minor  # type: ignore[attr-defined]
    module.nvmlDeviceGetPciInfo = lambda uuid: SimpleNamespace(  # type: ignore[attr-defined]
        busId=f"00000000:{list(minors).index(uuid):02X}:00.0".encode()
    )
    return module


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_card_has_a_file_of_its_driver_and_those_for_drawing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setitem(sys.modules, "pynvml", library({"GPU-a": 3, "GPU-b": None}))
    drawing = tmp_path / "sys/bus/pci/devices/0000:00:00.0/drm"
    write(drawing / "card1/dev", "226:1\n")
    write(drawing / "renderD128/dev", "226:128\n")
    told = tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0/information"
    write(told, "Model: \t\t H200\nDevice Minor: \t 5\n")

    found = device_numbers((Device(0, "GPU-a"), Device(1, "GPU-b")), root=tmp_path)

    assert found == {0: {(195, 3), (226, 1), (226, 128)}, 1: {(195, 5)}}


def test_an_instance_has_the_files_of_its_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "pynvml", library({"GPU-a": 0, "GPU-b": 1}))
    parts = (Device(0, "MIG-x@GPU-b"), Device(1, "MIG-y@GPU-b"), Device(2, "GPU-a"))

    found = device_numbers(parts, root=tmp_path)

    assert found == {0: {(195, 1)}, 1: {(195, 1)}, 2: {(195, 0)}}


def test_a_card_whose_files_nobody_knows_stops_the_fence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setitem(sys.modules, "pynvml", library({"GPU-a": 0, "GPU-b": None}))
    devices = (Device(0, "GPU-a"), Device(1, "GPU-b"))

    told = put_up(NodeSpec("n1", 1000, 1000, devices=devices), None, "auto", "", tmp_path)

    assert told.remarks == ("GPUs are not enforced: the device files of GPU 1 are not known",)


def test_an_amd_card_has_the_files_for_drawing_and_the_one_that_all_share_stays_open(
    tmp_path: Path,
):
    card = tmp_path / "sys/bus/pci/devices/0000:c1:00.0"
    write(card / "vendor", "0x1002\n")
    write(card / "mem_info_vram_total", str(64 << 30))
    write(card / "unique_id", "abc\n")
    write(card / "drm/card0/dev", "226:0\n")
    write(card / "drm/renderD128/dev", "226:128\n")
    link = tmp_path / "sys/class/drm/card0/device"
    link.parent.mkdir(parents=True)
    link.symlink_to(card)

    found = device_numbers((Device(0, "abc"),), root=tmp_path)

    assert found == {0: {(226, 0), (226, 128)}}
