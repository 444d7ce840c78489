"""A real server in a thread, callers that speak HTTP to it, and a pretended agent."""

import asyncio
import http.client
import io
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, unix_connect

from rota.agent.log_scan import Scan
from rota.api.app import Settings, make_app
from rota.api.context import Context
from rota.api.server import Server
from rota.controller.loop import Host
from rota.core.job import Job
from rota.core.node import Device, NodeSpec
from rota.core.states import Cause
from rota.rpc.messages import (
    PROTOCOL,
    Desired,
    Hello,
    Observed,
    Refused,
    Seen,
    Sighting,
    Wanted,
    Welcome,
    decode_to_agent,
    encode,
)
from rota.rpc.visits import FoundLine, LogFound, LogPart, ReadLog, SearchLog
from rota.store.api import Batch
from rota.store.memory import MemoryDisk, MemoryStore
from rota.store.writer import Writer

WAIT_S = 10.0


class Answer:
    """Status, headers and body of one answer."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("rota", timeout=WAIT_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Caller:
    """One kept connection, as whoever the connection and the token say."""

    def __init__(self, connection: http.client.HTTPConnection, token: str = "") -> None:
        self.connection = connection
        self.token = token

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        payload = body
        if body is not None and not isinstance(body, bytes):
            payload = json.dumps(body).encode()
        target = path if path.startswith("//") or not path.startswith("/") else _full(path)
        self.connection.request(method, target, payload, sent)
        return Answer(self.connection.getresponse())

    def get(self, path: str, **headers: str) -> Answer:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.call("POST", path, body, **headers)

    def put(self, path: str, body: Any) -> Answer:
        return self.call("PUT", path, body)

    def patch(self, path: str, body: Any) -> Answer:
        return self.call("PATCH", path, body)

    def delete(self, path: str) -> Answer:
        return self.call("DELETE", path)

    def submit(self, command: Any = "true", **fields: Any) -> int:
        answer = self.post("/jobs", {"command": command, **fields})
        assert answer.status == 201, answer.body
        return int(answer.json["id"])

    def job(self, job_id: object) -> Any:
        return self.get(f"/jobs/{job_id}").json

    def list(self, **query: object) -> Any:
        words = "&".join(f"{name}={value}" for name, value in query.items())
        answer = self.get(f"/jobs?{words}")
        assert answer.status == 200, answer.body
        return answer.json

    def until(self, job_id: int, *states: str) -> Any:
        """The job once it is in one of the states."""
        deadline_s = time.monotonic() + WAIT_S
        while True:
            job = self.job(job_id)
            if job["state"] in states:
                return job
            assert time.monotonic() < deadline_s, f"job {job_id} is still {job['state']}"
            time.sleep(0.002)


def _full(path: str) -> str:
    outside = ("/healthz", "/readyz", "/metrics", "/docs", "/openapi.json", "/api/")
    return path if path.startswith(outside) else f"/api/v1{path}"


class TroubledStore(MemoryStore):
    """A store whose commits can be held up, and whose reads can break."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk)
        self.may_commit = threading.Event()
        self.may_commit.set()
        self.broken = False

    def commit(self, batch: Batch) -> None:
        assert self.may_commit.wait(WAIT_S)
        super().commit(batch)

    def job(self, job_id: int) -> Job | None:
        if self.broken:
            raise RuntimeError("the disk says quack")
        return super().job(job_id)


class Running:
    """A server and the ways to it."""

    def __init__(self, folder: Path, own_uid: int, inbox_size: int = 10_000) -> None:
        self.socket_path = str(folder / "rota.sock")
        self.port = 0
        self.disk: MemoryDisk
        self.host: Host
        self.store: TroubledStore
        self.own_uid = own_uid
        self.inbox_size = inbox_size
        self.loop: asyncio.AbstractEventLoop
        self.context: Context
        self._stop: asyncio.Event
        self._writer: Writer
        self._ticking: asyncio.Task[None]
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._callers: list[Caller] = []
        self._streams: list[http.client.HTTPResponse] = []

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(WAIT_S)

    def stop(self) -> None:
        self._close_connections()
        with suppress(RuntimeError):  # It may have been told before, and be gone by now.
            self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def _close_connections(self) -> None:
        for caller in self._callers:
            caller.connection.close()
        for response in self._streams:
            response.close()
        self._callers.clear()
        self._streams.clear()

    def begin_stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    def renew(self) -> None:
        """An empty state behind the same sockets: building the app takes longer than most tests."""
        self._close_connections()
        asyncio.run_coroutine_threadsafe(self._renew(), self.loop).result(WAIT_S)

    async def _renew(self) -> None:
        await self._end()
        await self._begin()
        self.context.attach(self.host)

    async def _begin(self) -> None:
        self.disk = MemoryDisk(faulty=True)
        self.store = TroubledStore(self.disk)
        self._writer = Writer(self.store, always_in_thread=True)
        self.host = Host(self.store, self._writer, inbox_size=self.inbox_size)
        self._ticking = asyncio.create_task(self.host.run())

    async def _end(self) -> None:
        self.host.stop()
        await self._ticking
        await self._writer.close()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        await self._begin()
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(self.socket_path)
        os.chmod(self.socket_path, 0o666)
        tcp = socket.create_server(("127.0.0.1", 0))
        self.port = tcp.getsockname()[1]
        app = make_app(self.host, Settings(version="test", own_uid=self.own_uid))
        self.context = app.context
        server = Server(app, app.context.closing)
        await server.start([unix, tcp])
        self._started.set()
        await self._stop.wait()
        await server.stop()
        await self._end()

    def local(self, token: str = "") -> Caller:
        """Over the unix socket: the kernel says who we are."""
        self._callers.append(Caller(UnixConnection(self.socket_path), token))
        return self._callers[-1]

    def network(self, token: str = "") -> Caller:
        """Over TCP: nobody without a token."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        self._callers.append(Caller(connection, token))
        return self._callers[-1]

    def stream(self, path: str, token: str = "") -> http.client.HTTPResponse:
        """An answer to read bit by bit, on a connection of its own."""
        connection = self.local(token).connection
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", _full(path), headers=headers)
        self._streams.append(connection.getresponse())
        return self._streams[-1]

    def as_user(self, user: str, access: str = "user") -> Caller:
        """With a fresh token of somebody."""
        made = self.local().post("/tokens", {"user": user, "access": access})
        assert made.status == 201, made.body
        return self.network(made.json["token"])


@contextmanager
def running(
    folder: Path, own_uid: int | None = None, inbox_size: int = 10_000
) -> Iterator[Running]:
    server = Running(folder, os.geteuid() if own_uid is None else own_uid, inbox_size)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class PretendedAgent:
    """Speaks an agent's part over a real WebSocket: starts nothing, reports what it is told to."""

    def __init__(
        self,
        socket_path: str,
        cpus: int = 4,
        name: str = "box",
        gpus: int = 0,
        machine: NodeSpec | None = None,
    ) -> None:
        self.logs: dict[tuple[str, str], bytes] = {}
        self.wanted: dict[str, Wanted] = {}
        self.log_requests: list[ReadLog] = []
        self.searches: list[SearchLog] = []
        self.search_error = ""
        #: Where logs begin whose oldest part is gone.
        self.begins: dict[str, int] = {}
        self._changed = threading.Condition()
        self._number = 0
        self._session = 0
        self.refused = ""
        self._open = ExitStack()
        self.socket = self._open.enter_context(connect(socket_path))
        spec = machine or NodeSpec(
            name=name,
            cpu_milli=1000 * cpus,
            memory_mib=8192,
            disk_mib=1000,
            devices=tuple(
                Device(n, f"GPU-{n}", model="A100", memory_mib=1000) for n in range(gpus)
            ),
        )
        self.socket.send(
            encode(Hello(PROTOCOL, spec, f"inc-{spec.name}", "boot", "test", os.getpid()))
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        with self._changed:
            assert self._changed.wait_for(lambda: self._number or self.refused, WAIT_S)

    def _listen(self) -> None:
        try:
            for frame in self.socket:
                assert isinstance(frame, bytes)
                self._take(decode_to_agent(frame))
        except ConnectionClosed:
            pass

    def _take(self, message: object) -> None:
        with self._changed:
            if isinstance(message, Welcome):
                self._session = message.session
            elif isinstance(message, Refused):
                self.refused = message.reason
            elif isinstance(message, ReadLog):
                self._read(message)
            elif isinstance(message, SearchLog):
                self._search(message)
            elif isinstance(message, Desired):
                if message.full:
                    self.wanted.clear()
                    self._observe([], full=True)
                self.wanted |= {want.uid: want for want in message.attempts}
                for uid in message.gone:
                    self.wanted.pop(uid, None)
            self._changed.notify_all()

    def _read(self, message: ReadLog) -> None:
        self.log_requests.append(message)
        body = self.logs.get((message.uid, message.stream), b"")
        begin = message.offset
        if message.lines:
            kept = body.splitlines(keepends=True)[-message.lines :]
            begin = len(body) - sum(map(len, kept))
        begin = max(begin, self.begins.get(message.uid, 0))
        part = body[begin : begin + message.limit]
        self.socket.send(encode(LogPart(message.request, begin, part, len(body))))

    def _search(self, message: SearchLog) -> None:
        """As the real one does it, without its process."""
        self.searches.append(message)
        body = self.logs.get((message.uid, message.stream), b"")
        asked = msgspec.structs.asdict(message) | {"size": len(body)}
        found = Scan(io.BytesIO(body), asked).run()
        lines = [FoundLine(n, hit, text.encode("latin-1")) for n, hit, text in found.pop("lines")]
        answer = LogFound(message.request, tuple(lines), **found, error=self.search_error)
        self.socket.send(encode(answer))

    def _observe(self, seen: list[Seen], full: bool = False) -> None:
        self._number += 1
        self.socket.send(encode(Observed(self._session, self._number, tuple(seen), full)))

    def launched(self, job_id: int, ending: str = "") -> str:
        """The uid of the attempt that the controller wants for a job; one that ends so."""

        def find() -> str:
            return next(
                (
                    uid
                    for uid, want in self.wanted.items()
                    if want.launch is not None
                    and want.launch.job == job_id
                    and uid.endswith(ending)
                ),
                "",
            )

        with self._changed:
            assert self._changed.wait_for(find, WAIT_S), f"job {job_id} was not launched"
            return find()

    def stopping(self, uid: str) -> Wanted:
        """Wait until the controller wants an attempt to end."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: uid in self.wanted and self.wanted[uid].stop is not None, WAIT_S
            )
            return self.wanted[uid]

    def suspended(self, uid: str, wanted: bool = True) -> bool:
        """Wait until the controller wants an attempt suspended, or not any more."""
        with self._changed:
            return self._changed.wait_for(
                lambda: uid in self.wanted and self.wanted[uid].suspended is wanted, WAIT_S
            )

    def report_start(self, uid: str, **ports: int) -> None:
        with self._changed:
            seen = Seen(uid, Sighting.RUNNING, pid=1234, started_s=time.time(), ports=ports)
            self._observe([seen])

    def report_end(self, uid: str, code: int = 0) -> None:
        now_s = time.time()
        with self._changed:
            self._observe(
                [Seen(uid, Sighting.ENDED, started_s=now_s, ended_s=now_s, exit_code=code)]
            )

    def report_failed_start(self, uid: str) -> None:
        with self._changed:
            seen = Seen(uid, Sighting.ENDED, ended_s=time.time(), cause=Cause.START_FAILED)
            self._observe([seen])

    def report_unhealthy(self, uid: str, detail: str) -> None:
        with self._changed:
            now_s, cause = time.time(), Cause.UNHEALTHY
            seen = Seen(uid, Sighting.ENDED, started_s=now_s, ended_s=now_s, signal=15)
            self._observe([msgspec.structs.replace(seen, cause=cause, detail=detail)])

    def write(self, uid: str, body: bytes, stream: str = "stdout") -> None:
        with self._changed:
            self.logs[uid, stream] = self.logs.get((uid, stream), b"") + body

    def close(self) -> None:
        self._open.close()
        self._thread.join(WAIT_S)


def connect(socket_path: str, path: str = "/api/v1/agent") -> ClientConnection:
    return unix_connect(socket_path, f"ws://rota{path}", max_size=None, compression=None)
