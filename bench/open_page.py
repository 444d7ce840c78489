"""``python -m bench.open_page SOCKET [JOB]``: an open web page without a browser, until killed.

It is the first page, or with a job the page of that job, which runs and is measured. Prints
``open`` when it hears the news, and a word for each part that it has drawn anew.
"""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable

#: As in ``paced`` of the page's ``api.js``.
REST, MOST_S = 100, 5.0


class Connection(http.client.HTTPConnection):
    """HTTP over a unix socket: the kernel says who looks."""

    def __init__(self, path: str) -> None:
        super().__init__("rota")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


class Paced(threading.Thread):
    """Asks again when something changed, the rarer the longer an answer takes."""

    def __init__(self, path: str, least_s: float, deed: Callable[[Connection], None]) -> None:
        super().__init__(daemon=True)
        self._connection = Connection(path)
        self._least_s = least_s
        self._deed = deed
        self.wanted = threading.Event()
        self.start()

    def run(self) -> None:
        while self.wanted.wait():
            self.wanted.clear()
            began_s = time.monotonic()
            self._deed(self._connection)
            print(self._deed.__name__, flush=True)
            took_s = time.monotonic() - began_s
            rest_s = min(MOST_S, max(self._least_s, REST * took_s)) - took_s
            time.sleep(max(0.0, rest_s))


def read(connection: Connection, path: str) -> None:
    connection.request("GET", path)
    connection.getresponse().read()


def look_at_job(path: str, job: str) -> None:
    """What the page of a job that runs asks for, as often as it does."""

    def draw(connection: Connection) -> None:
        for part in ("", "/metrics", "/curves?task=0", "/why", "/events"):
            read(connection, f"/api/v1/jobs/{job}{part}")

    def progress(connection: Connection) -> None:
        read(connection, f"/api/v1/jobs/{job}/progress?task=0")

    drawing, asking = Paced(path, 0.5, draw), Paced(path, 2.0, progress)
    print("open", flush=True)
    for second in itertools.count():
        if second % 5 == 0:
            drawing.wanted.set()
        if second % 2 == 0:
            asking.wanted.set()
        time.sleep(1.0)


def look_at_all(path: str) -> None:
    """What the first page asks for."""
    touched: set[str] = set()

    def nodes(connection: Connection) -> None:
        names = ",".join(touched)
        touched.clear()
        read(connection, f"/web/feed/nodes?names={quote(names)}")

    def later(connection: Connection) -> None:
        read(connection, "/web/feed/ahead")
        read(connection, "/api/v1/status")

    def queue(connection: Connection) -> None:
        read(connection, "/web/feed/queue?page=0")

    strips, rows, plan = Paced(path, 0.3, nodes), Paced(path, 0.5, queue), Paced(path, 2.0, later)
    news = Connection(path)
    news.request("GET", "/web/live")
    answer = news.getresponse()
    print("open", flush=True)
    for each in (strips, rows, plan):
        each.wanted.set()
    while line := answer.readline():
        if not line.startswith(b"data: "):
            continue
        told = json.loads(line.removeprefix(b"data: "))
        touched.update(told["nodes"] or ())
        if touched:
            strips.wanted.set()
        if told["jobs"] is None or told["jobs"]:
            rows.wanted.set()
        plan.wanted.set()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        look_at_job(*sys.argv[1:3])
    else:
        look_at_all(sys.argv[1])
