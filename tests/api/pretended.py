"""A pretended agent: speaks an agent's part over a real WebSocket and starts nothing."""

import io
import os
import threading
import time
from contextlib import ExitStack

import msgspec
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, unix_connect

from rota.as_user.scan import Scan
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.states import Cause
from rota.rpc.messages import (
    PROTOCOL,
    AgentMessage,
    Desired,
    Hello,
    Observed,
    Seen,
    SessionRefused,
    Sighting,
    Wanted,
    Welcome,
    decode_to_agent,
    encode,
)
from rota.rpc.visits import FoundLine, LogFound, LogPart, ReadLog, SearchLog
from tests.api.running import WAIT_S


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
            greeted = self._changed.wait_for(lambda: self._number or self.refused, WAIT_S)
            assert greeted, f"the controller did not answer the hello of {spec.name}"

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
            elif isinstance(message, SessionRefused):
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

    @property
    def session(self) -> int:
        return self._session

    def tell(self, message: AgentMessage) -> None:
        """Anything else that agents say."""
        self.socket.send(encode(message))

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
            found = self._changed.wait_for(find, WAIT_S)
            assert found, f"job {job_id} was not launched; wanted are {self.wanted}"
            return found

    def stopping(self, uid: str) -> Wanted:
        """Wait until the controller wants an attempt to end."""
        with self._changed:
            asked = self._changed.wait_for(
                lambda: uid in self.wanted and self.wanted[uid].stop is not None, WAIT_S
            )
            assert asked, f"{uid} was not told to stop; wanted are {self.wanted}"
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
        """For the job's sake: it ends."""
        why = {"cause": Cause.START_FAILED, "detail": "output file /x: permission denied"}
        with self._changed:
            self._observe([Seen(uid, Sighting.ENDED, ended_s=time.time(), **why)])

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
