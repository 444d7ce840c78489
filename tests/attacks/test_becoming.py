"""Nobody gets the rights of root, or of another user, by what a job brings, names or leaves."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.agent.test_bundle_corpus import REFUSED, archive_of, entry
from tests.attacks.people import Person
from tests.journeys.box import Box, until
from tests.support.machine import missing

#: Changes what a name leads to, as fast as it can, until it is ended.
FLIP = """
import ctypes, os, sys
name, other = (os.fsencode(word) for word in sys.argv[1:])
swap = ctypes.CDLL(None).renameat2
print("flips", flush=True)
while True:
    swap(-100, name, -100, other, 2)
"""
#: What a program or a library says of whom it runs for, wherever it is run.
TELL_C = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void tell(void) {
    int fd = open("%s", O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (fd >= 0) { dprintf(fd, "%%u\\n", (unsigned)geteuid()); close(fd); }
}
"""
OPEN_GATE = """
import os, sys
os.write(os.open("gate", os.O_RDWR), b"\\n" * 99)
print("open", flush=True)
sys.stdin.read()
"""
TELL_PY = "import os\nwith open({!r}, 'a') as file:\n    file.write(f'{{os.geteuid()}}\\n')\n"
TELL_SH = 'id -u >> "{}"\n'


def put_bundle(person: Person, body: bytes) -> str:
    digest = hashlib.sha256(body).hexdigest()
    headers = {"Content-Type": "application/octet-stream"}
    status, answer = person.asks("PUT", f"/api/v1/bundles/{digest}", body, **headers)
    assert status in (200, 201, 204), answer
    return digest


def test_no_archive_of_a_user_reaches_beyond_its_folder(mallory: Person, flag: Path):
    jobs = {
        case: mallory.job(["true"], bundle=put_bundle(mallory, archive_of(members)))
        for case, (members, _) in REFUSED.items()
    }

    ended = {case: mallory.ended(job) for case, job in jobs.items()}

    assert {case: job["state"] for case, job in ended.items()} == dict.fromkeys(REFUSED, "failed")
    assert all("start_failed: bundle" in job["cause"] for job in ended.values()), ended
    assert not os.path.lexists("/etc/rota-out")
    assert list((flag.parents[1] / "work").iterdir()) == []


def test_an_archive_brings_no_file_of_another_owner_and_no_bit_that_lends_rights(mallory: Person):
    member = entry("tool", b"#!/bin/sh\nid -u\n")
    member[0].mode, member[0].uid, member[0].gid = 0o6755, 0, 0
    member[0].uname = member[0].gname = "root"
    digest = put_bundle(mallory, archive_of([member]))

    ended = mallory.ran("stat -c '%u %a' tool; ./tool", bundle=digest)

    assert mallory.output(ended["id"]).split() == [str(mallory.uid), "755", str(mallory.uid)]


#: ``{state}`` is the folder of the service, ``{alice}`` that of the victim.
CLOSED_FILES = [
    *("/etc/rota-was-here", "/etc/passwd", "/etc/shadow", "/dev/mem", "/proc/1/mem"),
    *("/proc/self/fd/1", "/proc/self/fd/2", "/proc/self/fd/3", "/proc/self/fd/4"),
    *("/dev/stdout", "/dev/fd/2", "/proc/self/mem", "/proc/self/environ"),
    *("/proc/self/oom_score_adj", "/proc/self/uid_map", "/proc/sysrq-trigger"),
    *("{state}/rota.db", "{state}/rota.sock", "{state}/job-tokens.key", "{state}/new"),
    *("{state}/agent/journal", "{state}/agent/keeper.sock", "{state}/agent/logs/new"),
    *("{state}/agent/scripts/new", "{state}/agent/rootonly/flag", "{state}/agent/rootonly/new"),
    *("{alice}/private.txt", "{alice}/new"),
]


@pytest.mark.parametrize("stream", ["output", "error"])
def test_output_goes_nowhere_that_its_user_could_not_write(
    mallory: Person, alice: Person, flag: Path, stream: str
):
    named = [
        path.format(state=mallory.state, alice=alice.work)
        for path in CLOSED_FILES
    ]  # fmt: skip
    before = {path: _look(path) for path in named if not path.startswith("/proc/self")}
    jobs = {path: mallory.job(["true"], **{stream: path}) for path in named}

    ended = {path: mallory.ended(job) for path, job in jobs.items()}

    assert {path: job["state"] for path, job in ended.items()} == dict.fromkeys(named, "failed")
    assert all("start_failed" in job["cause"] for job in ended.values()), ended
    changing = {f"{mallory.state}/rota.db", f"{mallory.state}/agent/journal"}
    after = {path: _look(path) for path in before}
    assert {p: s for p, s in after.items() if p not in changing} == {
        p: s for p, s in before.items() if p not in changing
    }
    alice.is_served_soon()


def _look(path: str) -> tuple[int, ...]:
    try:
        status = os.lstat(path)
    except OSError:
        return ()
    return status.st_uid, status.st_mode, status.st_size, status.st_nlink


def test_a_job_enters_no_folder_that_its_user_could_not(mallory: Person, alice: Person, flag: Path):
    closed = alice.work / "closed"
    closed.mkdir(mode=0o700)
    os.chown(closed, alice.uid, alice.uid)
    (mallory.work / "link").symlink_to(closed)
    folders = ["/root", "/proc/1/cwd", str(closed), str(mallory.work / "link"), str(flag.parent),
               str(mallory.state / "agent" / "bundles")]  # fmt: skip

    ended = [mallory.ran("pwd; ls", workdir=folder) for folder in folders]

    causes = [job["cause"] for job in ended]
    assert all("permission denied" in cause for cause in causes), causes


def test_folders_and_links_that_change_places_lead_no_output_astray(
    mallory: Person, alice: Person, flag: Path
):
    """Between the look at a path and its use the name leads elsewhere, again and again."""
    for name, target in (("a", flag.parent), ("b", alice.work)):
        mallory.python(
            "import os, sys; os.mkdir(sys.argv[1]); os.symlink(sys.argv[3], sys.argv[2])",
            name, f"{name}-link", str(target),
        )  # fmt: skip
    held = {path.name for path in alice.work.iterdir()}

    with mallory.busy(FLIP, "a", "a-link"), mallory.busy(FLIP, "b", "b-link"):
        jobs = [
            mallory.job("echo out; echo err >&2; id -u > mine", workdir=str(mallory.work / "b"),
                        output=f"{mallory.work}/a/out%j", error=f"{mallory.work}/b/sub/err%j")
            for _ in range(40)
        ]  # fmt: skip
        states = {mallory.ended(job)["state"] for job in jobs}
        for job in jobs:
            mallory.api("GET", f"/jobs/{job}/logs")
            mallory.api("GET", f"/jobs/{job}/logs?stream=stderr&tail=1")

    assert states <= {"completed", "failed"}
    assert {path.name for path in alice.work.iterdir()} == held
    made = [p for p in mallory.work.rglob("*") if not p.is_symlink()]
    assert {path.lstat().st_uid for path in made} == {mallory.uid}


def test_a_program_that_its_user_may_not_run_is_not_run_by_whatever_name(
    mallory: Person, flag: Path
):
    program = flag.parents[1] / "root-tool"
    program.write_text("#!/bin/sh\ntouch /etc/rota-was-here\n")
    program.chmod(0o700)
    (mallory.work / "tool").symlink_to(program)
    ways = [
        ([str(program)], {}),
        (["./tool"], {}),
        (["tool"], {"variables": {"PATH": "."}}),
        (["tool"], {"variables": {"PATH": str(mallory.work)}}),
    ]

    ended = [mallory.ran(command, **fields) for command, fields in ways]  # type: ignore[arg-type]

    program.unlink()
    assert [job["exit_code"] for job in ended] == [126] * len(ways), [j["cause"] for j in ended]
    assert not os.path.exists("/etc/rota-was-here")


def planted(mallory: Person) -> tuple[Path, dict[str, str]]:
    """Variables that make programs load what the attacker wrote, and where that tells of it."""
    told = mallory.write("told", "", 0o666)
    mallory.python("import os; os.mkdir('evil')")
    mallory.write("evil/sitecustomize.py", TELL_PY.format(str(told)))
    mallory.write("evil/usercustomize.py", TELL_PY.format(str(told)))
    shell = mallory.write("evil/rc", TELL_SH.format(told))
    for name in ("sh", "python3", "python", "id", "podman", "apptainer", "env"):
        mallory.write(f"evil/{name}", f"#!/bin/dash\n{TELL_SH.format(told)}", 0o755)
    evil = str(mallory.work / "evil")
    variables = {
        **dict.fromkeys(("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH"), evil),
        **dict.fromkeys(("BASH_ENV", "ENV", "PYTHONSTARTUP"), str(shell)),
        "PYTHONUSERBASE": evil,
    }
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        missing("needs a C compiler")
    library = mallory.work / "evil" / "tell.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-xc", "-", "-o", str(library)],
        input=TELL_C % told, text=True, check=True,
    )  # fmt: skip
    return told, variables | dict.fromkeys(("LD_PRELOAD", "LD_AUDIT"), str(library))


def test_no_variable_of_a_job_makes_a_root_process_load_what_the_user_wrote(mallory: Person):
    told, variables = planted(mallory)
    digest = put_bundle(mallory, archive_of([entry("x", b"x")]))
    ways = [
        {"command": ["/bin/true"]},
        {"script": "#!/bin/sh\n/bin/true\n"},
        {"command": ["/bin/true"], "pty": True},
        {"command": ["/bin/true"], "bundle": digest},
        {"command": ["/bin/true"], "ulimits": {"nofile": 99}, "stdin": "x"},
        {"command": ["/bin/true"], "health": {"port": "web"}, "ports": ["web"]},
    ]

    for fields in ways:
        for kind in ("env", "variables"):
            job = mallory.ran(**fields, **{kind: variables})
            mallory.api("GET", f"/jobs/{job['id']}/logs?tail=3")
            mallory.api("GET", f"/jobs/{job['id']}/logs?search=x")

    assert set(told.read_text().split()) == {str(mallory.uid)}


def test_nothing_that_a_user_puts_in_the_place_of_a_file_is_taken_for_one(
    mallory: Person, alice: Person
):
    os.mkfifo(mallory.work / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(mallory.work / "socket"))
    (mallory.work / "folder").mkdir()
    (mallory.work / "loop").symlink_to("loop")
    (mallory.work / "long").symlink_to("x" * 4000)
    for name in ("pipe", "socket", "folder"):
        os.chown(mallory.work / name, mallory.uid, mallory.uid)
    names = ["pipe", "socket", "folder", "loop", "long", "x" * 300]

    ended = [mallory.ran(["true"], **{way: name}) for name in names for way in ("output", "error")]

    listener.close()
    assert {job["state"] for job in ended} == {"failed"}
    assert all("start_failed" in job["cause"] for job in ended)
    alice.is_served_soon()


def test_nothing_can_be_put_into_the_folders_of_the_service(mallory: Person, flag: Path):
    """A job knows the names of its own files there, and owns some of them."""
    script = f"""
cd {mallory.state}/agent
for place in . logs scripts work bundles checkpoints ..; do
    ln -s /etc/passwd $place/new; ln "$0" $place/new; mkdir $place/new; touch $place/new
    mv "$0" $place/moved; mv logs/$ROTA_ATTEMPT_UID.out $place/moved
done
rm -f logs/$ROTA_ATTEMPT_UID.out "$0"; chmod 777 . logs scripts work
mv "$ROTA_CHECKPOINT_DIR" "$ROTA_CHECKPOINT_DIR.old"; rmdir "$ROTA_CHECKPOINT_DIR"
ln -sfT /etc "$ROTA_CHECKPOINT_DIR"
echo still here
"""
    before = _modes(mallory.state)

    ended = mallory.ran(script="#!/bin/sh" + script)

    assert mallory.output(ended["id"]) == "still here\n"
    found = _modes(mallory.state)
    assert {path: mode for path, mode in found.items() if path in before} == before
    assert not [p for p in mallory.state.rglob("*") if p.name in ("new", "moved") or p.is_symlink()]


def _modes(state: Path) -> dict[Path, tuple[int, int]]:
    folders = [state, *(path for path in (state / "agent").iterdir() if path.is_dir())]
    return {path: (path.stat().st_uid, path.stat().st_mode) for path in folders}


def test_saved_work_full_of_links_is_weighed_and_dropped_and_nothing_else_is(
    mallory: Person, flag: Path
):
    """While it is removed, a folder in it and a link to root's folder change places."""
    job = mallory.ran(
        'cd "$ROTA_CHECKPOINT_DIR" || exit 1; mkdir deep; ln -s / deep/top;'
        f" ln -s {flag} flag; ln -s {flag.parent} link; mkfifo pipe; echo saved > model;"
        " mkdir -p a/b/c; touch a/b/c/1 a/b/c/2; pwd"
    )
    saved = Path(mallory.output(job["id"]).strip())
    assert (saved / "model").exists()

    with mallory.busy(FLIP, str(saved / "a"), str(saved / "link")):
        listed = mallory.api("GET", "/checkpoints")
        dropped = mallory.api("DELETE", f"/jobs/{job['id']}/checkpoint")
    if dropped[1].get("problems"):
        dropped = mallory.api("DELETE", f"/jobs/{job['id']}/checkpoint")

    assert listed[0] == 200
    assert dropped[0] == 200, dropped
    until(lambda: not saved.exists(), "the folder to go")


def test_a_part_of_saved_work_that_is_dropped_lies_in_its_folder(mallory: Person, alice: Person):
    theirs = alice.ran('echo weights > "$ROTA_CHECKPOINT_DIR/model"; echo $ROTA_CHECKPOINT_DIR')
    victim = Path(alice.output(theirs["id"]).strip())
    job = mallory.job("echo $ROTA_CHECKPOINT_DIR; exec sleep 300")
    mallory.reach(job, "running")

    for path in (f"../{victim.name}/model", str(victim / "model"), f"x/../../{victim.name}"):
        for _ in range(3):
            mallory.api("POST", f"/jobs/{job}/checkpoint", {"path": path, "step": 1, "keep": 1})
    mallory.is_served_soon()

    assert (victim / "model").read_text() == "weights\n"


def test_folders_and_logs_that_are_used_again_are_used_by_the_same_user_alone(
    mallory: Person, alice: Person
):
    """The attacker holds on to what its jobs had, open and under other names, and waits."""
    script = (
        'chmod 777 "$ROTA_CHECKPOINT_DIR"; echo "$ROTA_CHECKPOINT_DIR" >> seen;'
        f' echo {mallory.state}/agent/logs/$ROTA_ATTEMPT_UID.out >> seen;'
        " read go < gate"
    )  # fmt: skip
    mallory.python("import os; os.mkfifo('gate')")
    jobs = [mallory.job(script) for _ in range(4)]
    until(lambda: len(mallory.read("seen").split()) == 2 * len(jobs), "the jobs to say where")
    hold = """
import os, sys
files = [open(name) if os.path.isfile(name) else os.open(name, 0) for name in sys.argv[1:]]
print("holds", flush=True)
sys.stdin.readline()
for each in files:
    print(each.read() if hasattr(each, "read") else os.listdir(each))
"""
    with mallory.busy(hold, *mallory.read("seen").split()) as holder:
        with mallory.busy(OPEN_GATE):
            for job in jobs:
                mallory.ended(job)

        ended = [
            alice.ran('stat -c "%u %a" "$ROTA_CHECKPOINT_DIR"; echo TOPSECRET;'
                      ' echo TOPSECRET > "$ROTA_CHECKPOINT_DIR/model"')
            for _ in range(8)
        ]  # fmt: skip
        held, _ = holder.communicate("go\n")

    assert {alice.output(job["id"]).splitlines()[0] for job in ended} == {f"{alice.uid} 700"}
    assert "TOPSECRET" not in held
    assert "model" not in held


def test_a_limit_is_never_above_what_the_service_itself_has(mallory: Person):
    """Root could raise it: for a real-time priority that starves a node, for endless processes."""
    script = "ulimit -Hr; ulimit -He; chrt -f 99 true 2>/dev/null && echo real-time"

    for name, value in (("rtprio", 99), ("nice", 40), ("nproc", -1), ("memlock", -1)):
        ended = mallory.ran(["bash", "-c", script], ulimits={name: value})

        if ended["state"] == "failed" and "start_failed" in ended["cause"]:
            assert f"ulimit {name}={value}: above the hard limit" in ended["cause"]
        else:
            assert "real-time" not in mallory.output(ended["id"])


def test_nothing_is_imported_from_the_folder_that_the_service_was_started_in(
    town: Box, mallory: Person
):
    """An admin may have been in a folder of a user's when it was."""
    told = mallory.write("told", "", 0o666)
    planted = [town.work / name for name in ("msgspec.py", "rota.py", "pyte.py")]
    for path in planted:
        path.write_text(TELL_PY.format(str(told)))
    mallory.ran(["true"])

    answer = town.api("POST", "/policy:replay", {"policy": "sjf"})

    for path in planted:
        path.unlink()
    assert answer[0] == 200, answer
    assert told.read_text() == ""
