"""Control groups on a temporary folder that stands in for a delegated one."""

from pathlib import Path

import pytest

from rota.agent.machine.cgroups import Cgroups, CgroupsUnusable, open_cgroups, size_text
from tests.agent.support import keeper


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    return tmp_path


def test_the_controllers_are_handed_down(root: Path):
    Cgroups(root)

    assert (root / "cgroup.subtree_control").read_text() == "+cpu +cpuset +memory"


def test_a_group_carries_its_limits(root: Path):
    group = Path(Cgroups(root).make("u1", memory_mib=512, cpu_milli=1500))

    assert group == root / "attempt-u1"
    assert (group / "memory.max").read_text() == str(512 << 20)
    assert (group / "memory.oom.group").read_text() == "1"
    assert (group / "cpu.max").read_text() == "150000 100000"


def test_pinned_cpus_are_a_limit_too(root: Path):
    group = Path(Cgroups(root).make("u1", cpus=(0, 2, 3)))

    assert (group / "cpuset.cpus").read_text() == "0,2,3"
    assert not (group / "cpuset.mems").exists()


def test_without_limits_none_are_written(root: Path):
    group = Path(Cgroups(root).make("u1"))

    assert list(group.iterdir()) == []


def test_a_kill_by_the_kernel_is_told_in_words(root: Path):
    groups = Cgroups(root)
    group = Path(groups.make("u1", memory_mib=4096))

    (group / "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 0\n")
    before = groups.out_of_memory("u1")
    (group / "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\n")
    after = groups.out_of_memory("u1")

    assert before == ""
    assert after == "used all of 4G"
    assert groups.out_of_memory("unknown") == ""


def test_the_peak_is_rounded_up(root: Path):
    groups = Cgroups(root)
    group = Path(groups.make("u1"))
    (group / "memory.peak").write_text(str((7 << 10) + 1))

    assert groups.peak_kib("u1") == 8
    assert groups.peak_kib("unknown") == 0


def test_an_empty_group_is_removed_and_a_missing_one_is_no_trouble(root: Path):
    groups = Cgroups(root)
    groups.make("u1")

    groups.left.update(["u1"])
    groups.tidy()
    groups.left.update(["u1", "unknown"])
    groups.tidy()

    assert not (root / "attempt-u1").exists()


def test_a_group_whose_processes_are_still_dying_goes_with_the_next_one(root: Path):
    groups = Cgroups(root)
    dying = Path(groups.make("u1"), "process")
    dying.write_text("")
    groups.make("u2")
    groups.left.update(["u1"])
    groups.tidy()

    dying.unlink()
    groups.left.update(["u2"])
    groups.tidy()

    assert not (root / "attempt-u1").exists()
    assert not (root / "attempt-u2").exists()


def own_groups(machine: Path, above: str = "sys/fs/cgroup") -> tuple[Path, Cgroups]:
    """A folder of our own. The kernel's files vanish with their folder."""
    own = machine / above / "rota-abc"
    own.mkdir(parents=True)
    (own.parent / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    files = [own / "cgroup.controllers", own / "cgroup.subtree_control"]
    files[0].write_text("cpu memory\n")
    groups = open_cgroups("", "abc", machine)
    assert groups is not None
    for file in files:
        file.unlink()
    return own, groups


def in_group(machine: Path, path: str) -> None:
    (machine / "proc/self").mkdir(parents=True)
    (machine / "proc/self/cgroup").write_text(f"0::{path}\n")
    (machine / "run/systemd/system").mkdir(parents=True)


def test_the_groups_of_a_delegated_unit_are_made_in_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    in_group(tmp_path, "/system.slice/rota.service/rota")

    own, groups = own_groups(tmp_path, "sys/fs/cgroup/system.slice/rota.service")

    assert groups.root == own
    handed = own.parent / "cgroup.subtree_control"
    assert handed.read_text() == "+cpu +cpuset +memory"
    assert not caplog.records


def test_a_unit_that_was_not_delegated_is_left_alone_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    in_group(tmp_path, "/system.slice/rota.service")

    own, groups = own_groups(tmp_path)

    assert groups.root == own
    assert "which is systemd's: use a unit with Delegate=" in caplog.text


def test_the_folder_of_an_agent_that_leaves_goes_with_it(tmp_path: Path):
    own, groups = own_groups(tmp_path)
    groups.make("u1")
    groups.left.update(["u1"])

    groups.close()

    assert not own.exists()


def test_the_folder_stays_while_a_job_runs_in_it(tmp_path: Path):
    own, groups = own_groups(tmp_path)
    group = groups.make("u1", memory_mib=64)

    groups.close()

    assert (own / "attempt-u1").is_dir()
    assert (Path(group) / "memory.max").exists()


def test_a_folder_that_was_delegated_to_the_agent_stays(root: Path):
    delegated = root / "delegated"
    delegated.mkdir()
    (delegated / "cgroup.controllers").write_text("memory\n")
    groups = open_cgroups(str(delegated), "abc")
    assert groups is not None
    for file in list(delegated.iterdir()):
        file.unlink()

    groups.close()

    assert delegated.is_dir()


def test_a_folder_that_is_no_cgroup_is_refused(tmp_path: Path):
    with pytest.raises(CgroupsUnusable, match="No such file"):
        Cgroups(tmp_path / "nowhere")


def test_a_root_without_the_memory_controller_is_refused(tmp_path: Path):
    (tmp_path / "cgroup.controllers").write_text("hugetlb\n")

    with pytest.raises(CgroupsUnusable, match="no memory controller"):
        Cgroups(tmp_path)


def test_a_job_joins_its_group_before_it_runs_and_the_group_is_killed_after_it(root: Path):
    with keeper() as own:
        group = root / "group"
        group.mkdir()
        (group / "cgroup.procs").write_text("")

        own.shell("member", "echo hello", cgroup=str(group))

        assert own.ended("member")["code"] == 0
        assert own.text("member") == "hello\n"
        assert (group / "cgroup.procs").read_text() == "0"
        assert (group / "cgroup.kill").read_text() == "1"


def test_a_group_that_cannot_be_joined_is_named(root: Path):
    with keeper() as own:
        own.spawn("outsider", "true", cgroup=str(root / "none"))

        assert own.ended("outsider")["error"] == (f"cgroup {root}/none: no such file or directory")


@pytest.mark.parametrize(
    ("mib", "text"), [(512, "512M"), (1023.6, "1024M"), (4096, "4G"), (5222, "5.1G")]
)
def test_sizes_read_well(mib: float, text: str):
    assert size_text(mib) == text
