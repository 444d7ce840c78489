"""A real server in a thread, and callers that speak HTTP to it."""

import asyncio
import http.client
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvloop

from rota.api.app import Settings, make_app
from rota.api.context import Context
from rota.api.door.server import DoorServer
from rota.controller.loop import Host
from rota.core.facts.job import Job
from rota.settings.limits import UserLimits
from rota.store.api import Batch
from rota.store.memory import MemoryDisk, MemoryStore
from rota.store.writer import Writer

#: Guards against hanging only: nothing that goes well comes near it, on no machine.
WAIT_S = 60.0
USUAL = UserLimits()


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

    def __init__(
        self,
        folder: Path,
        own_uid: int,
        inbox_size: int = 10_000,
        limits: UserLimits = USUAL,
        secure: ssl.SSLContext | None = None,
    ) -> None:
        self.socket_path = str(folder / "rota.sock")
        self.port = 0
        self.disk: MemoryDisk
        self.host: Host
        self.store: TroubledStore
        self.own_uid = own_uid
        self.inbox_size = inbox_size
        self.limits = limits
        self.secure = secure
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

    def restart(self, disk: MemoryDisk | None = None) -> None:
        """The same state, read back from its disk or from a copy of it."""
        self._close_connections()
        again = self._renew(disk or self.disk)
        asyncio.run_coroutine_threadsafe(again, self.loop).result(WAIT_S)

    async def _renew(self, disk: MemoryDisk | None = None) -> None:
        await self._end()
        await self._begin(disk)
        self.context.attach(self.host, self.context.settings)

    async def _begin(self, disk: MemoryDisk | None = None) -> None:
        self.disk = disk or MemoryDisk(faulty=True)
        self.store = TroubledStore(self.disk)
        self._writer = Writer(self.store, always_in_thread=True)
        self.host = Host(self.store, self._writer, inbox_size=self.inbox_size)
        self._ticking = asyncio.create_task(self.host.run())

    async def _end(self) -> None:
        self.host.stop()
        await self._ticking
        await self.host.audit.flush()
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
        settings = Settings(version="test", own_uid=self.own_uid, limits=self.limits)
        app = make_app(self.host, settings)
        self.context = app.context
        most = self.limits.connections
        server = DoorServer(app, app.context.closing, self.secure, most)
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
    folder: Path,
    own_uid: int | None = None,
    inbox_size: int = 10_000,
    limits: UserLimits = USUAL,
    secure: ssl.SSLContext | None = None,
) -> Iterator[Running]:
    uid = os.geteuid() if own_uid is None else own_uid
    server = Running(folder, uid, inbox_size, limits, secure)
    server.start()
    try:
        yield server
    finally:
        server.stop()
