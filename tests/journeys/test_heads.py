"""Several heads on one PostgreSQL: one leads, and when it is gone the next one goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from cryptography.fernet import Fernet

from rota.client.aio.line import AsyncLine
from rota.client.errors import ClientError
from rota.client.http import ANSWER_TIMEOUT_S, Client, new_key
from rota.heads import GONE_S
from rota.store.heads import Lookout
from rota.store.postgres import CONNECT_TIMEOUT_S, LEADER_LOCK, TAKE_OVER
from tests.journeys.box import Box, UnixConnection, until
from tests.support.postgres import PostgresServer

#: Faults of the storm; ``script/storm --heads 100`` asks for more.
FAULTS = int(os.environ.get("ROTA_HEAD_STORMS", "6"))
#: From so many faults on it is the large storm; jobs that are submitted after each fault.
MANY, AT_ONCE = 20, 3
#: So many jobs run through all of it.
RUNNING = 200 if FAULTS >= MANY else 40
#: So long a submit may be held up by a fault, where there are many of them.
HELD_UP_MAX_S = 5.0
PYTHONPATH = os.environ.get("PYTHONPATH", "")
#: So many submit one job after the other while the lead is handed over.
SUBMITTERS = 4


class Heads:
    """Two heads and an agent that knows both."""

    def __init__(self, root: Path, url: str, *, tls: str = "off") -> None:
        key = root / "seal.key"
        key.write_bytes(Fernet.generate_key())
        key.chmod(0o600)
        self.root = root
        self.boxes = [Box(root / name) for name in ("a", "b")]
        for box in self.boxes:
            box.env |= {
                "ROTA_SERVER_DATABASE": url,
                "ROTA_SERVER_SECRETS_KEY_FILE": str(key),
                "ROTA_SERVER_TLS": tls,
                "ROTA_SERVER_LEASE_S": "60",
            }
        self.agents: list[subprocess.Popen[bytes]] = []
        self.clients: list[Client] = []

    def up(self) -> None:
        for box in self.boxes:
            box.up("--standby")

    def url(self, box: Box) -> str:
        return str(json.loads((box.state / "controller.json").read_text())["url"])

    @property
    def urls(self) -> str:
        return ",".join(self.url(box) for box in self.boxes)

    def leads(self, box: Box) -> bool:
        return box.rota("status", check=False).returncode == 0

    @property
    def leader(self) -> Box:
        found: Box = until(lambda: next(filter(self.leads, self.boxes), None), "a head that leads")
        return found

    @property
    def other(self) -> Box:
        leader = self.leader
        return next(box for box in self.boxes if box is not leader)

    def pid(self, box: Box) -> int:
        return int((box.state / "controller.lock").read_text())

    def join(self, cpus: int = 8) -> None:
        made = self.leader.rota("token", "create", "--join", "--json").stdout
        token = self.root / "join.token"
        token.write_text(json.loads(made)["token"])
        state = self.root / "node"
        env = {**self.boxes[0].env, "ROTA_STATE_DIR": str(state), "ROTA_AGENT_CPUS": str(cpus)}
        command = [sys.executable, "-m", "rota.cli.main", "agent", "--join", self.urls]
        command += ["--token-file", str(token), "--name", "node"]
        with (self.root / "agent.log").open("w") as log:
            self.agents.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))
        until(lambda: '"up"' in self.leader.rota("nodes", "--json").stdout, "the node")

    def client(self) -> Client:
        made = self.leader.rota("token", "create", "--json").stdout
        token = json.loads(made)["token"]
        client = Client.from_environment({"ROTA_URL": self.urls, "ROTA_TOKEN": token})
        self.clients.append(client)
        return client

    def close(self) -> None:
        for client in self.clients:
            client.close()
        for agent in self.agents:
            agent.terminate()
            agent.wait()
        for box in self.boxes:
            box.down()


@pytest.fixture
def new_heads(tmp_path: Path, postgres_url: str) -> Iterator[Callable[..., Heads]]:
    made: list[Heads] = []

    def make(**options: str) -> Heads:
        made.append(Heads(tmp_path, postgres_url, **options))
        made[-1].up()
        return made[-1]

    yield make
    for heads in made:
        heads.close()


def submit(client: Client, work: Path, command: str) -> int:
    body = {"command": command, "workdir": str(work)}
    return int(client.post("/jobs", body, key=new_key())["id"])


def ended(client: Client, job: int) -> str:
    until(lambda: client.get(f"/jobs/{job}")["state"] in ("completed", "failed"), f"job {job}")
    return str(client.get(f"/jobs/{job}")["state"])


def test_the_second_head_stands_by_and_says_who_leads(new_heads: Callable[..., Heads]) -> None:
    heads = new_heads()
    first, second = heads.boxes

    until(lambda: "stands by" in first.rota("status").stdout, "both heads in the status")
    refused = second.rota("status", check=False)

    assert f"{heads.url(first)} leads, {heads.url(second)} stands by" in first.rota("status").stdout
    page = UnixConnection(first.state / "rota.sock")
    page.request("GET", "/web/feed/care")
    told = json.loads(page.getresponse().read())
    page.close()
    assert {"level": "ok", "what": "heads", "seen": "1 of 1 stand by", "advice": ""} in told[
        "findings"
    ]
    told = told["heads"]
    assert [(head["url"], head["leads"]) for head in told] == [
        (heads.url(first), True),
        (heads.url(second), False),
    ]
    assert 0.0 <= told[1]["silent_s"] <= GONE_S
    assert refused.returncode != 0
    assert refused.stderr.strip() == f"rota: this head stands by; {heads.url(first)} leads"


def test_a_head_that_stands_by_can_be_read_and_says_how_far_behind_it_is(
    new_heads: Callable[..., Heads],
) -> None:
    heads = new_heads()
    first, second = heads.boxes
    token = heads.client().token
    job = int(json.loads(first.rota("submit", "--hold", "--json", "--", "true").stdout)["id"])
    reader = Client([heads.url(second)], token)
    reader.max_lag = "20"

    def listed() -> list[int]:
        with contextlib.suppress(ClientError):
            return [one["id"] for one in reader.get("/jobs")["items"]]
        return []

    until(lambda: job in listed(), "the job in the list of the head that stands by")
    raw = ask(heads.url(second), f"/api/v1/jobs/{job}", token, "Rota-Max-Lag: 20")
    figures = ask(heads.url(second), "/metrics", token)
    first.rota("cancel", str(job))
    until(lambda: reader.get(f"/jobs/{job}")["state"] == "cancelled", "the news of its end")
    reader.close()

    assert raw.startswith("HTTP/1.1 200 OK\r\n")
    assert 0 <= float(raw.partition("Rota-Lag: ")[2].split()[0]) < 20
    assert figures.startswith("HTTP/1.1 200 OK\r\n")
    assert "rota_jobs" in figures
    until(lambda: " s behind" in first.rota("status").stdout, "the lag in the status")
    # Who does not say that an old answer will do, asks for what is to come, or is nobody.
    for path, *more in (
        (f"/api/v1/jobs/{job}", ""),
        (f"/api/v1/jobs/{job}", "Rota-Max-Lag: 0"),
        (f"/api/v1/jobs/{job}/logs", "Rota-Max-Lag: 20"),
    ):
        refused = ask(heads.url(second), path, token, *more)
        assert refused.startswith("HTTP/1.1 503 ")
        assert f"this head stands by; {heads.url(first)} leads" in refused
        assert ("lies on their nodes" in refused) == path.endswith("/logs")
    nobody = ask(heads.url(second), f"/api/v1/jobs/{job}", "wrong", "Rota-Max-Lag: 20")
    assert nobody.startswith("HTTP/1.1 401 ")


def ask(url: str, path: str, token: str, *headers: str) -> str:
    """A bare request, and all of the answer."""
    parts = urlsplit(url)
    lines = [f"GET {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", *headers]
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as sock:
        sock.sendall("\r\n".join([*filter(None, lines), "", ""]).encode())
        said = b""
        while part := sock.recv(65536):
            said += part
    return said.decode()


def answer_of(url: str) -> float | None:
    """How long a head took to say that it stands by; None: nobody is there."""
    began_s = time.monotonic()
    try:
        assert "this head stands by" in ask(url, "/api/v1/jobs", "any")
    except OSError:
        return None
    return time.monotonic() - began_s


@pytest.mark.parametrize("tls", ["off", "on"])
def test_a_job_and_its_node_go_on_when_the_leader_is_killed(
    new_heads: Callable[..., Heads], tls: str
) -> None:
    heads = new_heads(tls=tls)
    heads.join()
    client, work = heads.client(), heads.boxes[0].work
    running = submit(
        client, work, "echo once >> ran; while [ ! -e go ]; do sleep 0.1; done; exit 0"
    )
    until(lambda: (work / "ran").exists(), "the job's first line")
    first = heads.leader

    os.kill(heads.pid(first), signal.SIGKILL)
    new = submit(client, work, "echo new > new")

    assert ended(client, new) == "completed"
    assert heads.leader is not first
    (work / "go").touch()
    assert ended(client, running) == "completed"
    assert (work / "ran").read_text() == "once\n"


#: What Python reads at its start: another machine, whose wall clock is an hour ahead.
AHEAD = """
import time
import rota.keeper.processes
rota.keeper.processes.boot_id = lambda: "another machine"
_right = time.time
time.time = lambda: _right() + 3600.0
"""


def test_a_limit_holds_though_the_clock_of_the_next_head_is_an_hour_ahead(
    tmp_path: Path, postgres_url: str
) -> None:
    heads = Heads(tmp_path, postgres_url)
    first, second = heads.boxes
    (tmp_path / "sitecustomize.py").write_text(AHEAD)
    second.env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(tmp_path), PYTHONPATH]))
    try:
        heads.up()
        heads.join()
        client, work = heads.client(), first.work
        body = {"command": "while [ ! -e go ]; do sleep 0.1; done", "workdir": str(work)}
        job = client.post("/jobs", {**body, "time_limit_s": 600}, key=new_key())["id"]
        until(lambda: client.get(f"/jobs/{job}")["state"] == "running", "the job")
        until(lambda: "3600 s ahead" in first.rota("status").stdout, "a word of the clock")
        doctor = first.rota("doctor", check=False).stdout

        os.kill(heads.pid(first), signal.SIGKILL)
        until(lambda: heads.leads(second), "the second head")
        later = submit(client, work, "true")

        assert f"{heads.url(second)}, its clock 3600 s ahead of the database's" in doctor
        assert ended(client, later) == "completed"
        assert client.get(f"/jobs/{job}")["state"] == "running"
        (work / "go").touch()
        assert ended(client, job) == "completed"
    finally:
        heads.close()


def test_a_head_with_another_key_is_refused_and_one_that_lost_it_is_not_picked(
    tmp_path: Path, postgres_url: str
) -> None:
    heads = Heads(tmp_path, postgres_url)
    first, second = heads.boxes
    right, own = (tmp_path / "seal.key").read_bytes(), tmp_path / "own.key"
    own.write_bytes(Fernet.generate_key())
    own.chmod(0o600)
    second.env["ROTA_SERVER_SECRETS_KEY_FILE"] = str(own)
    try:
        first.up("--standby")
        refused = second.rota("up", "--detach", "--standby", check=False)
        own.write_bytes(right)
        second.up("--standby")
        until(lambda: "s behind" in first.rota("status").stdout, "a head that can take over")

        own.write_bytes(Fernet.generate_key())
        until(lambda: "cannot take over" in first.rota("status").stdout, "a word of the key")
        kept = first.rota("failover", check=False)
        own.write_bytes(right)
        until(lambda: "cannot take over" not in first.rota("status").stdout, "the key again")
        first.rota("failover")
        until(lambda: heads.leads(second), "the successor")

        assert refused.returncode == 2
        assert "the database was sealed with a key that is not there" in refused.stderr
        assert kept.returncode == 2
        assert "no head can take over" in kept.stderr
    finally:
        heads.close()


def test_a_job_whose_packed_folder_stayed_with_the_old_leader_is_held(
    new_heads: Callable[..., Heads],
) -> None:
    heads = new_heads()
    heads.join()
    first, second = heads.boxes
    project = heads.root / "project"
    project.mkdir()
    (project / "train.sh").write_text("echo trained > $OUT\n")
    env = {"OUT": str(heads.root / "out")}
    words = ("--env", "OUT", "--bundle", str(project), "--hold", "--", "sh", "train.sh")
    job = first.submit(*words, env=env)
    until(lambda: "s behind" in first.rota("status").stdout, "a head that can take over")
    first.rota("failover")
    until(lambda: heads.leads(second), "the successor")

    second.rota("release", str(job))
    until(lambda: "is not on the head that leads" in second.why(job), "the job to be held")
    shutil.copytree(first.state / "bundles", second.state / "bundles")
    second.rota("release", str(job))

    assert second.ended(job)["state"] == "completed"
    assert (heads.root / "out").read_text() == "trained\n"


def test_a_hand_over_refuses_nobody(new_heads: Callable[..., Heads]) -> None:
    heads = new_heads()
    heads.join()
    client, work = heads.client(), heads.boxes[0].work
    until(lambda: "s behind" in heads.leader.rota("status").stdout, "a head that stands by")
    first, done, refused = heads.leader, threading.Event(), list[str]()
    jobs: dict[int, float] = {}

    def keep_submitting() -> None:
        own = client.twin()
        while not done.is_set():
            began_s = time.monotonic()
            try:
                job = submit(own, work, "echo $ROTA_JOB_ID >> ran")
                jobs[job] = time.monotonic() - began_s
            except ClientError as error:
                refused.append(str(error))
            done.wait(0.05)
        own.close()

    threads = [threading.Thread(target=keep_submitting) for _ in range(SUBMITTERS)]
    for thread in threads:
        thread.start()
    said = first.rota("failover").stdout
    until(lambda: heads.leads(heads.boxes[1]), "the successor")
    after = len(jobs)
    until(lambda: len(jobs) > after + 5 * SUBMITTERS, "jobs for the successor")
    done.set()
    for thread in threads:
        thread.join()

    spoken = submit(client, work, "echo spoken")
    print(f"{len(jobs)} submits beside a hand-over, the slowest took {max(jobs.values()):.2f} s")
    assert said == f"{heads.url(heads.boxes[1])} takes over\n"
    assert refused == []
    assert {ended(client, job) for job in (*jobs, spoken)} == {"completed"}
    assert Counter(_ran(work)) == Counter([*jobs])
    # A reader that knows only the head that stands by now is sent to the other one for logs.
    page, far = f"/api/v1/jobs/{spoken}", "Rota-Max-Lag: 20"
    until(lambda: " 200 OK" in ask(heads.url(first), page, client.token, far), "a head to read")
    knows = {"ROTA_URL": heads.url(first), "ROTA_TOKEN": client.token, "ROTA_MAX_LAG": "20"}
    assert first.rota("logs", str(spoken), env=knows).stdout == "spoken\n"
    assert asyncio.run(read_by(Client.from_environment(knows), spoken)) == (True, b"spoken\n")


async def read_by(client: Client, job: int) -> tuple[bool, bytes]:
    """Whether the head that was named answers for itself, and what it leads to of a log."""
    line, named = AsyncLine(client), client.addresses[0]
    try:
        assert (await line.call("GET", f"/jobs/{job}"))["id"] == job
        itself = line.url == named
        async with line.stream(f"/jobs/{job}/logs", {}) as parts:
            return itself, b"".join([part async for part in parts])
    finally:
        await line.close()


def test_a_leader_that_hangs_is_deposed_and_stands_by_when_it_wakes(
    new_heads: Callable[..., Heads],
) -> None:
    heads = new_heads()
    first, second = heads.boxes
    client, work = heads.client(), first.work
    until(lambda: "stands by" in first.rota("status").stdout, "a head that stands by")
    submit(client, work, "true")
    pid = heads.pid(first)

    os.kill(pid, signal.SIGSTOP)
    began_s = time.monotonic()
    try:
        # It has a connection to the head that hangs, and hears nothing from it.
        job = submit(client, work, "true")
        held_up_s = time.monotonic() - began_s
    finally:
        os.kill(pid, signal.SIGCONT)

    assert held_up_s < ANSWER_TIMEOUT_S / 2
    assert heads.leads(second)
    assert client.get(f"/jobs/{job}")["state"] == "queued"
    until(lambda: not heads.leads(first), "the first head to step down")
    until(lambda: heads.url(first) in second.rota("status").stdout, "the first head to stand by")


class Cable:
    """A way to a server that can be cut: what is on it is neither delivered nor refused."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._whole = threading.Event()
        self._whole.set()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._door.getsockname()[1])
        threading.Thread(target=self._take, daemon=True).start()

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def close(self) -> None:
        self._door.close()

    def _take(self) -> None:
        while True:
            try:
                near, _ = self._door.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                self._whole.wait()
                other.sendall(data)
        # Both ways at once: to close an end that the other thread waits for would say nothing.
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        one.close()


def test_a_leader_that_lost_its_way_to_the_database_gives_way(
    tmp_path: Path, postgres_url: str
) -> None:
    cable = Cable(urlsplit(postgres_url).port or 5432)
    heads = Heads(tmp_path, postgres_url)
    first, second = heads.boxes
    there = f":{urlsplit(postgres_url).port}/"
    first.env["ROTA_SERVER_DATABASE"] = postgres_url.replace(there, f":{cable.port}/")
    try:
        heads.up()
        until(lambda: "stands by" in first.rota("status").stdout, "a head that stands by")
        heads.join()
        client, work = heads.client(), second.work

        cable.cut()
        job = submit(client, work, "true")

        # It is started again, cannot reach the database yet, and keeps no caller waiting for that.
        assert until(lambda: answer_of(heads.url(first)), "an answer") < CONNECT_TIMEOUT_S
        assert heads.leads(second)
        assert ended(client, job) == "completed"
        cable.mend()
        until(lambda: heads.url(first) in second.rota("status").stdout, "the first head again")
    finally:
        cable.mend()
        heads.close()
        cable.close()


def takes_the_lead(connection: psycopg.Connection, lookout: Lookout) -> bool:
    """Has the lock now; if another has it, that one is deposed."""
    row = connection.execute("SELECT pg_try_advisory_lock(%s)", (LEADER_LOCK,)).fetchone()
    taken = row is not None and bool(row[0])
    if not taken:
        lookout.depose()
    return taken


def test_a_leader_that_was_cut_off_before_its_first_word_is_deposed(
    new_heads: Callable[..., Heads], postgres_url: str
) -> None:
    heads = new_heads()
    client, work = heads.client(), heads.boxes[0].work
    for box in heads.boxes:
        os.kill(heads.pid(box), signal.SIGSTOP)
    with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as silent:
        # It takes the lead as a head does that is lost right after. The lock may go to the head
        # that stands by first, which stands still: that one is deposed, too.
        with contextlib.closing(Lookout(postgres_url.partition("://")[2])) as lookout:
            until(lambda: takes_the_lead(silent, lookout), "the lead")
        silent.execute(TAKE_OVER)
        for box in heads.boxes:
            os.kill(heads.pid(box), signal.SIGCONT)

        job = submit(client, work, "true")

        with pytest.raises(psycopg.OperationalError, match="terminating connection"):
            silent.execute("SELECT 1")
    assert client.get(f"/jobs/{job}")["state"] == "queued"


class Storm:
    """Takes the lead away, in one of three ways, and submits until another head has it."""

    def __init__(self, root: Path, server: PostgresServer, url: str) -> None:
        self._server, self._url = server, url
        there = f":{urlsplit(url).port}/"
        self.heads = Heads(root, url)
        self.cables = [Cable(urlsplit(url).port or 5432) for _ in self.heads.boxes]
        for box, cable in zip(self.heads.boxes, self.cables, strict=True):
            box.env["ROTA_SERVER_DATABASE"] = url.replace(there, f":{cable.port}/")
        #: By kind of fault: how long the slowest submit after one was held up.
        self.held_up_s = dict.fromkeys(("kill", "hang-up", "cut"), 0.0)

    def strike(self, kind: str, submit_some: Callable[[], None]) -> None:
        leader = self.heads.leader
        cable = self.cables[self.heads.boxes.index(leader)]
        until(lambda: "stands by" in leader.rota("status", check=False).stdout, "a successor")
        if kind == "kill":
            os.kill(self.heads.pid(leader), signal.SIGKILL)
        elif kind == "hang-up":
            self._server.terminate(self._url)
        else:
            cable.cut()
        began_s = time.monotonic()
        submit_some()
        self.held_up_s[kind] = max(self.held_up_s[kind], time.monotonic() - began_s)
        cable.mend()

    def close(self) -> None:
        for cable in self.cables:
            cable.mend()
        self.heads.close()
        for cable in self.cables:
            cable.close()


@pytest.mark.timeout(300 + 60 * FAULTS)
def test_nothing_is_lost_or_doubled_while_leaders_are_struck(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    storm = Storm(tmp_path, postgres_server, postgres_url)
    heads, work = storm.heads, storm.heads.boxes[0].work
    chance, expected = random.Random(FAULTS), dict[int, int]()
    os.mkfifo(work / "gate")
    try:
        heads.up()
        heads.join(cpus=RUNNING + 8)
        client = heads.client()

        def begin(then: str) -> None:
            code = chance.randrange(5)
            job = submit(client, work, f"echo $ROTA_JOB_ID >> ran; {then}; exit {code}")
            expected[job] = code

        for _ in range(RUNNING):
            begin("read line < gate")
        until(lambda: len(_ran(work)) == RUNNING, "all jobs to run", 300.0)
        for fault in range(FAULTS):
            storm.strike([*storm.held_up_s][fault % 3], lambda: begin("sleep 0.1"))
            for _ in range(AT_ONCE - 1):
                begin(f"sleep {chance.random()}")
        os.close(os.open(work / "gate", os.O_WRONLY))
        found = {job: (ended(client, job), client.get(f"/jobs/{job}")) for job in expected}
    finally:
        storm.close()
    slowest = ", ".join(f"{kind} {held_s:.1f} s" for kind, held_s in storm.held_up_s.items())
    print(f"{FAULTS} faults, {RUNNING} jobs ran, {len(expected)} in all; held up: {slowest}")

    # A machine that runs a whole suite beside it may take longer.
    assert FAULTS < MANY or max(storm.held_up_s.values()) <= HELD_UP_MAX_S
    assert {job: (state, told["exit_code"]) for job, (state, told) in found.items()} == {
        job: ("failed" if code else "completed", code) for job, code in expected.items()
    }
    assert Counter(_ran(work)) == Counter([*expected])


def _ran(work: Path) -> list[int]:
    path = work / "ran"
    return [*map(int, path.read_text().split())] if path.exists() else []


def test_heads_need_a_server_and_a_key(new_box: Callable[..., Box], postgres_url: str) -> None:
    box = new_box()

    alone = box.rota("up", "--detach", "--standby", check=False)
    unsealed = box.rota(
        "up", "--detach", "--standby", check=False, env={"ROTA_SERVER_DATABASE": postgres_url}
    )

    assert alone.returncode == unsealed.returncode == 2
    assert "--standby: heads share a database on a server" in alone.stderr
    assert "set server.secrets_key_file" in unsealed.stderr


def test_a_rota_with_one_head_hands_over_to_nobody(home: Box) -> None:
    refused = home.rota("failover", check=False)

    assert refused.returncode == 2
    assert "this Rota has one head" in refused.stderr
