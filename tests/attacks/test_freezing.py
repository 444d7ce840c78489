"""Nobody stops the service, a node, or the work of others; what hangs costs its own user."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.agent.hurdles import HOLD_FILE, STOP_ALL, VAST_ENVIRONMENT, dead_file_system
from tests.agent.test_bundle_corpus import archive_of, entry
from tests.attacks.people import SOON_S, Person, processes_of
from tests.journeys.box import Box, UnixConnection, until
from tests.support.machine import missing

#: So many connections without a word, or that only listen.
SILENT = 150
#: The controller may keep so much of what was asked and taken back.
KEPT_MIB = 40


@contextlib.contextmanager
def asking(person: Person, path: str, times: int) -> Iterator[None]:
    """The same question many times at once, whose answers nobody waits for."""
    connections = []
    for _ in range(times):
        connection = UnixConnection(person.state / "rota.sock", SOON_S, person.user)
        connection.request("GET", f"/api/v1{path}")
        connections.append(connection)
    try:
        yield
    finally:
        for connection in connections:
            connection.close()


@contextlib.contextmanager
def all_stopped(person: Person) -> Iterator[None]:
    """Whatever is the user's stands still, until the block ends."""
    with person.busy(STOP_ALL):
        yield
    for pid in processes_of(person.uid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def bundle_of(person: Person) -> str:
    body = archive_of([entry("x", b"x")])
    digest = hashlib.sha256(body).hexdigest()
    headers = {"Content-Type": "application/octet-stream"}
    person.asks("PUT", f"/api/v1/bundles/{digest}", body, **headers)
    return digest


def test_who_stops_all_processes_of_their_own_stops_nobody_elses_work(
    mallory: Person, alice: Person
):
    """Starters, readers, unpackers and what weighs saved work: all are the user's for a while."""
    saved = mallory.ran('echo saved > "$ROTA_CHECKPOINT_DIR/model"; echo said')
    kept = alice.ran('echo saved > "$ROTA_CHECKPOINT_DIR/model"; echo said')
    digest = bundle_of(mallory)

    with (
        all_stopped(mallory),
        asking(mallory, f"/jobs/{saved['id']}/logs?tail=1", 12),
        asking(mallory, "/checkpoints", 12),
    ):
        for _ in range(6):
            mallory.job(["true"], bundle=digest)
            mallory.job(["true"])
        began_s = time.monotonic()
        alice.is_served_soon()
        status, listed = alice.api("GET", "/checkpoints")
        text = alice.output(kept["id"])
        victim = alice.job(["sleep", "300"])
        alice.reach(victim, "running")
        alice.api("DELETE", f"/jobs/{victim}")
        alice.ended(victim)
        took_s = time.monotonic() - began_s

    assert status == 200
    assert kept["id"] in [item["id"] for item in listed["items"]]
    assert text == "said\n"
    assert took_s < SOON_S


def test_a_file_system_that_does_not_answer_holds_the_jobs_that_name_it(
    mallory: Person, alice: Person
):
    (mallory.work / "dead").mkdir()
    with dead_file_system(mallory.work / "dead") as dead:
        jobs = [
            mallory.job(**fields)
            for fields in (
                {"command": ["true"], "workdir": str(dead / "in")},
                {"command": ["true"], "output": str(dead / "out")},
                {"command": [str(dead / "tool")]},
            )
            for _ in range(3)
        ]

        alice.is_served_soon()
        still = {mallory.api("GET", f"/jobs/{job}")[1]["state"] for job in jobs}

    assert not still & {"completed", "failed"}
    assert {mallory.ended(job)["state"] for job in jobs} == {"failed"}


@pytest.mark.parametrize("what", ["saved work", "bundle"])
def test_a_file_system_that_a_job_mounts_over_its_folder_holds_nobody(
    mallory: Person, alice: Person, what: str
):
    """With FUSE users mount what they like over folders of their own."""
    fields = {"bundle": bundle_of(mallory)} if what == "bundle" else {}
    variable = "$ROTA_BUNDLE_DIR" if what == "bundle" else "$ROTA_CHECKPOINT_DIR"
    job = mallory.job(f"echo {variable}; cd /; exec sleep 300", **fields)
    folder = Path(until(lambda: mallory.output(job), "the job to say where").strip())

    with dead_file_system(folder):
        mallory.api("DELETE", f"/jobs/{job}")
        ended = mallory.ended(job)
        alice.is_served_soon()
        with asking(mallory, "/checkpoints", 8):
            listed = alice.api("GET", "/checkpoints")
        mallory.is_served_soon()

    assert ended["state"] == "cancelled"
    assert listed[0] == 200


def test_a_program_that_is_held_back_holds_its_own_start(mallory: Person, alice: Person):
    program = mallory.work / "tool"
    shutil.copy("/bin/true", program)
    os.chown(program, mallory.uid, mallory.uid)

    with mallory.busy(HOLD_FILE, str(program)):
        jobs = [mallory.job([str(program)]) for _ in range(4)]
        alice.is_served_soon()

    assert {mallory.ended(job)["state"] for job in jobs} == {"completed"}


def test_processes_without_end_are_counted_and_go_with_their_job(mallory: Person, alice: Person):
    bomb = "bomb() { bomb | bomb & }; bomb; while :; do sleep 0.1; done"
    job = mallory.job(["bash", "-c", bomb], ulimits={"nproc": 100}, grace_s=1)
    mallory.reach(job, "running")
    until(lambda: len(processes_of(mallory.uid)) > 20, "the processes")

    alice.is_served_soon()
    mallory.api("DELETE", f"/jobs/{job}")
    ended = mallory.ended(job)

    assert ended["state"] == "cancelled"
    until(lambda: not processes_of(mallory.uid), "all of them to be gone")


def test_processes_that_show_gigabytes_as_their_environment_delay_nobody(
    mallory: Person, alice: Person
):
    """They left their job, and another one of the user lives: it may be of either."""
    mallory.reach(mallory.job(["sleep", "300"]), "running")
    script = mallory.write("vast.py", VAST_ENVIRONMENT)
    said = [mallory.work / f"said{number}" for number in range(4)]
    lines = [f"(python3 -I -S {script} {path} '' &)" for path in said]
    wait = " ".join(f"until [ -s {path} ]; do sleep 0.05; done;" for path in said)
    mallory.ended(mallory.job("; ".join((*lines, wait))))
    if (words := {path.read_text() for path in said}) != {"shown"}:
        missing(f"PR_SET_MM_MAP: {words}")

    began_s = time.monotonic()
    alice.is_served_soon()
    alice.is_served_soon()

    assert time.monotonic() - began_s < SOON_S


@pytest.mark.parametrize(
    ("write", "find"),
    [
        ("truncate -s 2T /proc/self/fd/1; echo end", "end"),
        ("head -c 50000000 /dev/zero | tr '\\0' a; echo end", "end"),
        ("yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | head -c 5000000; echo end", "end"),
    ],
    ids=["two terabytes of holes", "a line without end", "many lines"],
)
def test_a_log_of_any_size_is_answered_soon_and_delays_nobody(
    mallory: Person, alice: Person, write: str, find: str
):
    job = mallory.ran(write, output="log")["id"]
    questions = [
        f"/jobs/{job}/logs?tail=1",
        f"/jobs/{job}/logs?tail=100000",
        f"/jobs/{job}/logs?search={find}",
        f"/jobs/{job}/logs?regex=1&search=(a%2B)%2B%24",
        f"/jobs/{job}/logs?follow=true",
    ]

    with contextlib.ExitStack() as stack:
        for question in questions:
            stack.enter_context(asking(mallory, question, 3))
        alice.is_served_soon()
    began_s = time.monotonic()
    status, tail = mallory.asks("GET", f"/api/v1/jobs/{job}/logs?tail=1", timeout_s=SOON_S)

    assert status == 200
    assert b"end\n" in tail[-2000:]
    assert time.monotonic() - began_s < SOON_S


def test_a_flood_of_questions_keeps_nobody_out(mallory: Person, alice: Person):
    flood = b"GET /api/v1/jobs?limit=200 HTTP/1.1\r\nHost: x\r\n\r\n" * 500
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            local = UnixConnection(mallory.state / "rota.sock", SOON_S, mallory.user)
            local.connect()
            stack.callback(local.close)
            local.sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                local.sock.send(flood)

        alice.is_served_soon()


def test_an_expression_that_takes_long_to_read_is_not_read_by_the_controller(
    mallory: Person, alice: Person
):
    """Each of these is nearly the whole of Unicode in both cases: seconds to compile."""
    job = mallory.ran("echo aaaa")["id"]
    costly = "(?i)" + "".join(f"[{chr(0x100 + n)}-{chr(0x10FFFF - n)}]" for n in range(190))
    query = f"/jobs/{job}/logs?regex=1&search={quote(costly)}"

    status, answer = mallory.api("GET", f"/jobs/{job}/logs?regex=1&search=(")
    with asking(mallory, query, 8):
        began_s = time.monotonic()
        alice.is_served_soon()
        took_s = time.monotonic() - began_s

    assert took_s < SOON_S
    assert (status, answer["field"]) == (400, "search")
    assert "is no regular expression" in answer["detail"]


def test_connections_without_a_word_keep_nobody_out(mallory: Person, alice: Person):
    host, _, port = mallory.url.partition("://")[2].partition(":")
    with contextlib.ExitStack() as stack:
        for number in range(SILENT):
            silent = stack.enter_context(socket.create_connection((host, int(port))))
            silent.sendall(b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nX-Slow: " + b"y" * number)
            local = UnixConnection(mallory.state / "rota.sock", SOON_S, mallory.user)
            local.connect()
            stack.callback(local.close)
            local.sock.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nX-Slow: ")

        alice.is_served_soon()


def test_listeners_that_do_not_listen_keep_nobody_out(mallory: Person, alice: Person):
    """Streams of events and terminals that are opened and not read."""
    job = mallory.job("exec sleep 300", pty=True)
    mallory.reach(job, "running")
    shake = (
        f"GET /api/v1/jobs/{job}/attach HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n"
    )
    with contextlib.ExitStack() as stack:
        for _ in range(SILENT):
            for words in (shake, "GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n"):
                local = UnixConnection(mallory.state / "rota.sock", SOON_S, mallory.user)
                local.connect()
                stack.callback(local.close)
                local.sock.sendall(words.encode())

        alice.is_served_soon()


BODIES = {
    "deep array": b"[" * 5_000_000,
    "deep object": b'{"command": ["true"], "env": ' + b'{"a":' * 1_000_000,
    "long": b'{"command": ["true"], "name": "' + b"x" * 80_000_000 + b'"}',
    "many words": b'{"command": [' + b'"a",' * 3_000_000 + b'"a"]}',
    "many variables": b'{"command": ["true"], "env": {'
    + b",".join(b'"v%d": ""' % number for number in range(300_000))
    + b"}}",
    "numbers": b'{"command": ["true"], "time_limit_s": ' + b"9" * 1_000_000 + b"}",
    "no text": b'{"command": ["true"], "name": "\xff\xfe"}',
    "half a pair": b'{"command": ["true"], "name": "\\ud800"}',
    "half a pair elsewhere": b'{"command": ["true"], "array": ["\\ud800"]}',
    "ranges": b'{"command": ["true"], "array": "' + b"0-9," * 1_000_000 + b'1"}',
}


@pytest.mark.parametrize("kind", BODIES)
def test_a_body_that_cannot_be_right_is_refused_in_one_line_and_soon(
    mallory: Person, alice: Person, kind: str
):
    began_s = time.monotonic()

    try:
        status, answer = mallory.asks("POST", "/api/v1/jobs", BODIES[kind], timeout_s=SOON_S)
    except OSError:
        status, answer = 413, b"{}"  # It hung up before it had heard all of it.

    assert status in (400, 413), answer[:200]
    assert len(answer) < 5000
    assert time.monotonic() - began_s < SOON_S
    alice.is_served_soon()


def test_arrays_that_are_cancelled_leave_nothing_in_memory(town: Box, mallory: Person):
    before = resident_mib(town.living("controller"))

    for _ in range(8):
        job = mallory.job(["true"], array="0-999999", hold=True)
        assert mallory.api("DELETE", f"/jobs/{job}")[0] in (200, 202)

    assert resident_mib(town.living("controller")) - before < KEPT_MIB


def resident_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) >> 10


def test_three_starts_that_fail_by_a_users_fault_leave_the_node_in_service(
    town: Box, mallory: Person, alice: Person
):
    broken = [
        {"ulimits": {"nofile": 1 << 60}}, {"workdir": "/no/such"}, {"output": "/no/such/file"},
        {"bundle": "0" * 64}, {"command": ["/no/such"]}, {"image": "no-such-image"},
    ]  # fmt: skip

    for fields in broken * 3:
        status, answer = mallory.api(
            "POST", "/jobs", {"command": ["true"], "workdir": str(mallory.work), **fields}
        )
        if status == 201:
            mallory.ended(answer["id"])

    assert {node["state"] for node in town.api("GET", "/nodes")[1]["items"]} == {"up"}
    alice.is_served_soon()


def test_no_process_of_the_service_can_be_stopped_or_looked_into(town: Box, mallory: Person):
    """Those that became the attacker for an errand among them."""
    job = mallory.ran("echo said")["id"]
    mallory.output(job)
    script = """
import ctypes, os, sys
reached = []
libc = ctypes.CDLL(None, use_errno=True)
for pid in map(int, sys.argv[1:]):
    if libc.ptrace(0x4206, pid, 0, 0) == 0:
        reached.append(f"ptrace {pid}")
    for name in ("mem", "environ", "maps", "fd/0", "root", "cwd", "exe"):
        try:
            (os.readlink if name in ("root", "cwd", "exe") else open)(f"/proc/{pid}/{name}")
            reached.append(f"{name} {pid}")
        except OSError:
            pass
print(reached)
"""
    ours = [town.living(part) for part in ("supervisor", "controller", "agent", "keeper")]
    readers = processes_of(mallory.uid)
    assert readers, "a reader waits for the next question"

    assert mallory.python(script, *map(str, ours + readers)) == "[]\n"
    killing = f"import os\nfor pid in {ours}:\n    os.kill(pid, 19)"
    with pytest.raises(AssertionError, match="Operation not permitted"):
        mallory.python(killing)


def test_who_types_without_end_into_a_terminal_that_nobody_reads_fills_no_memory(
    town: Box, mallory: Person, alice: Person
):
    job = mallory.job("exec sleep 300", pty=True)
    mallory.reach(job, "running")
    before = resident_mib(town.living("agent"))
    python = f"""
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect({str(mallory.state / "rota.sock")!r})
s.sendall(b"GET /api/v1/jobs/{job}/attach HTTP/1.1\\r\\nHost: x\\r\\nUpgrade: websocket\\r\\n"
          b"Connection: Upgrade\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n"
          b"Sec-WebSocket-Version: 13\\r\\n\\r\\n")
s.recv(4096)
piece = bytes([0x82, 0xFF]) + (65536).to_bytes(8, "big") + bytes(4) + b"x" * 65536
s.settimeout(3)
try:
    for _ in range(2000):
        s.sendall(piece)
except OSError:
    pass
print("typed")
"""
    mallory.python(python)

    alice.is_served_soon()
    assert resident_mib(town.living("agent")) - before < KEPT_MIB
