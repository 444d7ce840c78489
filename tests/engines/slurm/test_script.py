"""The batch script, run by a shell without a Slurm."""

import asyncio
import os
import signal
import subprocess
import time

import pytest

from rota.backends.api import EngineRefused
from rota.backends.orders import Gang
from rota.backends.slurm.folders import Folders
from rota.backends.slurm.script import check, script
from tests.engines.slurm.site import WAIT_S, order_for


@pytest.fixture(params=["perl", "shell"])
def path(request, tmp_path):
    """Where the script looks for its own programs: with perl, or without it."""
    if request.param == "perl":
        return "/usr/bin:/bin"
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("base64", "cat", "chmod", "dirname", "env", "ln", "mkdir", "mv", "realpath", "rm"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    return str(folder)


def started(order, tmp_path, path):
    """The script as Slurm would start it: from a file, with words of its own around it."""
    file = tmp_path / "batch"
    file.write_text(script(order, lambda uid: str(tmp_path / uid)))
    environment = {"PATH": path, "SLURM_JOB_ID": "5", "SLURM_EXPORT_ENV": "NONE", "JUNK": "x"}
    return subprocess.Popen(["/bin/bash", file], env=environment, cwd="/")


def ran(order, tmp_path, path="/usr/bin:/bin"):
    """Its wait status, and the folder that it left."""
    status = started(order, tmp_path, path).wait(WAIT_S)
    return status, tmp_path / order.uid


@pytest.mark.parametrize(
    ("text", "status", "left"),
    [
        ("exit 0", 0, "exit 0"),
        ("exit 3", 3, "exit 3"),
        ("exit 255", 255, "exit 255"),
        ("kill -9 $$", -9, "signal 9"),
        ("kill -TERM $$", -15, "signal 15"),
    ],
)
def test_it_ends_as_its_program_did_and_writes_it_down(tmp_path, path, text, status, left):
    order = order_for(("/bin/bash", "-c", text))

    ended, folder = ran(order, tmp_path, path)

    assert (ended, (folder / "exit").read_text()) == (status, f"{left}\n")


def test_with_perl_a_code_above_128_is_no_signal(tmp_path):
    ended, folder = ran(order_for(("/bin/bash", "-c", "exit 137")), tmp_path)

    assert (ended, (folder / "exit").read_text()) == (137, "exit 137\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_to_the_script_leaves_it_waiting_for_its_program(tmp_path, path, number):
    gate = tmp_path / "gate"
    text = f"echo up; until [ -e {gate} ]; do sleep 0.05; done; exit 5"
    order = order_for(("/bin/bash", "-c", text))
    process = started(order, tmp_path, path)
    printed = tmp_path / order.uid / "stdout"
    deadline_s = time.monotonic() + WAIT_S
    while not printed.exists() or printed.read_text() != "up\n":
        assert time.monotonic() < deadline_s, "the program did not begin"
        time.sleep(0.02)

    process.send_signal(number)
    gate.touch()

    assert process.wait(WAIT_S) == 5


def test_the_program_finds_its_environment_and_nothing_else(tmp_path, path):
    given = {
        "PATH": "/usr/bin:/bin",
        "IFS": "x",
        "LINES": "a\n'b'\n",
        "SLURM_JOB_ID": "9",
        "SLURM_OURS": "1",
        "PERL5OPT": "-Mnosuch",
        "PWD": "/somewhere",
    }
    order = order_for(("env", "-0"), environment=given, workdir=str(tmp_path))

    status, folder = ran(order, tmp_path, path)

    found = dict(line.split("=", 1) for line in (folder / "stdout").read_text().split("\0") if line)
    assert status == 0
    own = {"SLURM_JOB_ID": "5", "ROTA_PROGRESS_FILE": str(folder / "progress")}
    assert found == given | own


def test_signals_are_as_a_program_expects_them(tmp_path, path):
    order = order_for(("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"))

    _, folder = ran(order, tmp_path, path)

    assert {line.split()[1] for line in (folder / "stdout").read_text().splitlines()} == {"0" * 16}


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"workdir": "/no where"}, "job working folder /no where: no such directory"),
        ({"argv": ("./nosuch",)}, "job command not found: ./nosuch"),
        ({"argv": ("/etc/passwd",)}, "job cannot execute /etc/passwd: permission denied"),
        ({"stdout": "/no/where"}, "job output file /no/where: cannot be written"),
        (
            {"stderr": "/dev/null/x", "outputs": "append"},
            "job error output file /dev/null/x: its folder cannot be made",
        ),
    ],
)
def test_a_start_that_fails_is_written_down_with_its_reason(tmp_path, path, wish, why):
    status, folder = ran(order_for(**wish), tmp_path, path)

    assert (status, (folder / "exit").read_text()) == (253, f"start {why}\n")


def test_what_an_earlier_start_wrote_down_does_not_count(tmp_path, path):
    order = order_for(("/bin/bash", "-c", "exit 4"))
    folder = tmp_path / order.uid
    folder.mkdir()
    (folder / "exit").write_text("start node of old\n")

    ran(order, tmp_path, path)

    assert (folder / "exit").read_text() == "exit 4\n"


@pytest.mark.root
def test_a_folder_of_somebody_else_is_not_used(tmp_path, path):
    order = order_for()
    folder = tmp_path / order.uid
    folder.mkdir()
    os.chown(folder, 65534, 65534)

    status, _ = ran(order, tmp_path, path)

    assert status == 253
    assert list(folder.iterdir()) == []


@pytest.mark.root
@pytest.mark.parametrize("through_a_link", [False, True])
@pytest.mark.parametrize("gang", [None, Gang(("a", "b"))])
def test_a_folder_below_that_of_somebody_else_is_not_used(tmp_path, path, gang, through_a_link):
    """They could take it away later, and put one of their own in its place."""
    tmp_path.chmod(0o1777)
    theirs, named = tmp_path / "theirs", tmp_path / "named"
    theirs.mkdir(mode=0o777)
    if through_a_link:
        named.symlink_to(theirs)
    else:
        theirs = theirs.rename(named)
        os.chown(theirs, 65534, 65534)
    text = script(order_for(uid="a", gang=gang), lambda uid: str(named / uid))

    done = subprocess.run(["/bin/bash"], input=text, text=True, env={"PATH": path})

    assert done.returncode == 253
    assert not (theirs / "a" / "job").exists()
    assert not (theirs / "a" / "task").exists()


@pytest.mark.root
def test_no_job_is_handed_in_for_a_user_whose_folder_is_somebody_elses(tmp_path):
    folders = Folders(str(tmp_path))
    (tmp_path / "nobody").mkdir()
    (tmp_path / "daemon").symlink_to("/")

    for user in ("nobody", "daemon"):
        with pytest.raises(EngineRefused, match=f"{user}: it is not a folder of user {user}'s own"):
            asyncio.run(folders.prepare(user))


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"image": "a"}, "a container image: jobs in Slurm cannot have one"),
        ({"terminal": True}, "a terminal: jobs in Slurm cannot have one"),
        ({"environment": {"a.b": "1"}}, "environment: 'a.b' cannot be set in Slurm"),
        ({"environment": {"UID": "1"}}, "environment: 'UID' cannot be set in Slurm"),
        ({"ulimits": {"nosuch": 1}}, "ulimit nosuch: not known in Slurm; known limits: as, core"),
        ({"argv": ("a=b",)}, "command: 'a=b' has a = in its name"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(wish, words):
    with pytest.raises(EngineRefused, match=words) as refused:
        check(order_for(**wish).launch)

    assert "\n" not in str(refused.value)


def test_the_script_of_a_gang_is_a_shells(tmp_path):
    order = order_for(uid="a", gang=Gang(("a", "b"), per_node=2), environment={"Q": "it's"})
    text = script(order, lambda uid: f"/x/{uid}")

    checked = subprocess.run(["/bin/bash", "-n"], input=text, text=True, capture_output=True)

    assert (checked.returncode, checked.stderr) == (0, "")
    assert "--ntasks=2" in text


@pytest.mark.parametrize("value", ["a\r\nb'c\\d", "\r", "caf\udce9", "\udcff'\r\n"])
def test_line_ends_of_dos_and_bytes_that_are_no_text_come_through(tmp_path, value):
    """``sbatch`` refuses a script with the ones, and JSON cannot carry the others."""
    order = order_for(("/usr/bin/printenv", "-0", "GIVEN"), environment={"GIVEN": value})

    text = script(order, lambda uid: str(tmp_path / uid))
    _, folder = ran(order, tmp_path)

    assert "\r" not in text
    assert text.encode()
    assert (folder / "stdout").read_bytes() == value.encode(errors="surrogateescape") + b"\0"


def test_a_job_finds_a_place_in_its_folder_for_what_it_says_of_itself(tmp_path):
    words = 'echo 1 >>"$ROTA_PROGRESS_FILE"'

    _, folder = ran(order_for(("/bin/sh", "-c", words)), tmp_path)

    assert (folder / "progress").read_text() == "1\n"
    assert folder.stat().st_mode & 0o077 == 0


def test_each_member_of_a_gang_has_a_place_of_its_own(tmp_path):
    order = order_for(("/bin/true",), gang=Gang(("a", "b")))

    written = script(order, lambda uid: str(tmp_path / uid))

    assert written.index("folder=${folders[$SLURM_PROCID]}") < written.index("ROTA_PROGRESS_FILE=")
