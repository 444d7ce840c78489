"""A job on another machine: its logs, its terminal and its ports, all through the controller."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from rota.agent.visits.logs import drop_beginning
from tests.journeys.box import DEADLINE_S, until
from tests.journeys.site import Site
from tests.journeys.test_attach import Screen

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Serves what it is asked for, twice as large as asked, until it is told to end.
SERVICE = """
import http.server, sys
class Pages(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(2 * len(body)))
        self.end_headers()
        self.wfile.write(body + body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
print("listens on", server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One node, which only the network leads to."""
    made = Site(tmp_path_factory.mktemp("site"))
    made.join("far")
    until(lambda: made.is_up("far"), "the node")
    yield made
    made.close()


@pytest.fixture
def service(site: Site) -> Iterator[tuple[int, int]]:
    """A job that serves, and its port."""
    job = site.head.job([sys.executable, "-c", SERVICE])
    # Its line may be on its way still.
    said = until(lambda: site.head.output(job).endswith("\n") and site.head.output(job), "its port")
    site.head.reach(job, "running")
    yield job, int(said.split()[-1])
    site.head.api("DELETE", f"/jobs/{job}")


class Forwarded:
    """``rota forward`` in the background."""

    def __init__(self, site: Site, *args: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rota.cli.main", "forward", *map(str, args)],
            env=site.head.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        self.port = int(re.findall(r":(\d+) ->", self.said)[0])

    def double(self, body: bytes) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        connection.request("POST", "/", body)
        answer = connection.getresponse().read()
        connection.close()
        return answer

    def stop(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        _, stderr = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, stderr


def test_a_service_in_a_job_on_another_node_is_reached_over_many_connections_at_once(
    site: Site, service: tuple[int, int]
):
    job, port = service
    forwarded = Forwarded(site, job, f"0:{port}")
    bodies = [bytes([number]) * 500_000 for number in range(6)]
    answers: dict[int, bytes] = {}

    def call(number: int) -> None:
        answers[number] = forwarded.double(bodies[number])

    threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)

    assert forwarded.said.endswith(f"-> port {port} of job {job} on far\n")
    assert answers == {number: 2 * body for number, body in enumerate(bodies)}
    assert forwarded.stop() == (0, "")


def test_a_closed_port_is_one_line_and_the_end_of_the_job_ends_it(
    site: Site, service: tuple[int, int]
):
    job, _ = service
    forwarded = Forwarded(site, job, "0:1")

    with pytest.raises((http.client.HTTPException, OSError)):
        forwarded.double(b"x")
    site.head.api("DELETE", f"/jobs/{job}")
    _, stderr = forwarded.process.communicate(timeout=DEADLINE_S)

    assert forwarded.process.returncode == 0
    assert stderr.splitlines() == [
        f"rota: nothing listens on port 1 of job {job} yet; "
        "connections are refused until something does (--wait)",
        "rota: nothing listens on port 1 of the job's node",
        f"rota: job {job} has ended",
    ]


def test_what_cannot_be_forwarded_is_refused_in_one_line(site: Site):
    held = site.head.job(["true"], hold=True)

    waits = site.head.refusal("forward", str(held), "8888")
    unknown = site.head.refusal("forward", "99999", "8888")
    running = site.head.job(["sleep", "60"])
    site.head.reach(running, "running")
    odd = site.head.refusal("forward", str(running), "80:web:3")
    no_task = site.head.refusal("forward", str(running), "8888", "--task", "7")
    ended = site.head.ran(["true"])["id"]
    late = site.head.refusal("forward", str(ended), "8888")
    site.head.api("DELETE", f"/jobs/{running}")

    assert late == f"rota: job {ended} has ended (completed), and its ports with it"
    assert waits == (
        f"rota: job {held} is held and has no ports yet; --wait waits until it listens"
    )
    assert unknown == "rota: there is no job 99999"
    assert odd.startswith("rota: port: '80:web:3' is not valid; expected [LOCAL:]REMOTE")
    assert no_task == f"rota: job {running} has no task 7"


def test_a_terminal_on_another_node_is_attached_to(site: Site):
    job = site.head.job(["sh", "-c", "echo ready; read line; echo got:$line"], pty=True)
    site.head.reach(job, "running")
    screen = Screen(site.head, "attach", str(job))
    try:
        screen.until(b"ready")
        screen.type(b"hello\r")
        screen.until(b"got:hello")

        assert screen.left() == 0
    finally:
        screen.close()


def test_lines_are_searched_on_the_other_node_and_the_last_byte_is_there(site: Site):
    count = 30_000
    script = f"i=0; seq 1 {count} | sed 's/^/step /'; printf 'the very last'"
    job = site.head.job(["sh", "-c", script])
    site.head.ended(job)

    hits = site.head.rota("logs", str(job), "--regex", r"^step 1?9{4}$", "-n", "-C", "1")
    last = site.head.rota("logs", str(job), "--search", "VERY last", "-i")
    none = site.head.rota("logs", str(job), "--search", "loss", check=False)
    first = site.head.rota("logs", str(job), "--search", "step", "--limit", "2")

    assert hits.stdout.splitlines() == [
        "9998-step 9998",
        "9999:step 9999",
        "10000-step 10000",
        "--",
        "19998-step 19998",
        "19999:step 19999",
        "20000-step 20000",
    ]
    assert last.stdout == "the very last\n"
    assert (none.returncode, none.stdout) == (1, "")
    assert first.stdout == "step 1\nstep 2\n"
    assert "first 2 hits" in first.stderr
    assert site.head.output(job).endswith(f"step {count}\nthe very last")


def test_a_log_whose_oldest_part_is_gone_says_so(site: Site):
    job = site.head.job(["sh", "-c", "seq 1 100000"])
    uid = site.head.ended(job)["attempts"][0]["uid"]
    whole = site.head.output(job)
    drop_beginning(str(site.root / "far" / "agent" / "logs" / f"{uid}.out"), 100_000)

    shown = site.head.rota("logs", str(job))
    found = site.head.rota("logs", str(job), "--search", "99999")

    assert whole.endswith(shown.stdout)
    assert len(shown.stdout) <= 100_000
    assert f"its first {len(whole) - len(shown.stdout)} bytes are gone" in shown.stderr
    assert found.stdout == "99999\n"


def test_options_of_a_search_without_one_are_refused(site: Site):
    assert "--context goes with --search" in site.head.refusal("logs", "1", "-C", "2")
    assert "not both" in site.head.refusal("logs", "1", "--search", "a", "--regex", "b")
    assert "goes without" in site.head.refusal("logs", "1", "--search", "a", "-f")


#: Speaks to Rota from inside a job: who am I, a checkpoint, a child and its end.
INSIDE = """
import os, subprocess, sys
import rota
ctx = rota.context()
ctx.checkpoint(["epoch-1"])
with ctx.cluster() as cluster:
    child = cluster.submit(pow, 2, 10, name="child")
    print("child", child.result(timeout=60))
rota_ = [sys.executable, "-m", "rota.cli.main"]
listed = subprocess.run([*rota_, "show", str(ctx.job_id)], capture_output=True, text=True)
print(listed.returncode, listed.stderr.strip())
refused = subprocess.run([*rota_, "token", "create"], capture_output=True, text=True)
print(refused.returncode, refused.stderr.strip())
print(os.environ["ROTA_URL"].split(":")[0])
"""


def test_a_job_on_another_node_speaks_to_rota_with_a_token_of_its_own(site: Site):
    job = site.head.job([sys.executable, "-c", INSIDE])

    ended = site.head.ended(job)
    lines = site.head.output(job).splitlines()

    assert ended["state"] == "completed", site.head.output(job, "stderr")
    assert lines[0] == "child 1024"
    assert lines[1].strip() == "0"
    assert lines[2].startswith(f"2 rota: job {job} may not do this with its own token")
    assert lines[3] == "https"
    _, children = site.head.api("GET", f"/jobs?label=parent={job}")
    assert [child["name"] for child in children["items"]] == ["child"]
    _, saved = site.head.api("GET", f"/jobs/{job}/checkpoint")
    assert saved["data"] == ["epoch-1"]


#: Listens on its named port and says which one that is.
NAMED = """
import os, socket
server = socket.create_server(("", int(os.environ["ROTA_PORT_WEB_UI"])))
print("ready", os.environ["ROTA_PORT_WEB_UI"], os.environ["ROTA_PORT_METRICS"], flush=True)
while True:
    peer, _ = server.accept()
    peer.sendall(b"hello from " + os.environ["ROTA_JOB_ID"].encode())
    peer.close()
"""


def test_named_ports_are_free_on_the_node_and_found_by_name(site: Site):
    submit = ("--port", "web-ui", "--port", "metrics", "--", sys.executable, "-c", NAMED)
    first, second = site.head.submit(*submit), site.head.submit(*submit)
    said = [
        until(lambda job=job: site.head.output(job), "the job to listen").split()
        for job in (first, second)
    ]
    for job in (first, second):
        site.head.reach(job, "running")

    _, found = site.head.api("GET", "/endpoints?name=web-ui")
    forwarded = Forwarded(site, second, "0:web-ui")
    with socket.create_connection(("127.0.0.1", forwarded.port), DEADLINE_S) as near:
        heard = near.makefile("rb").read()
    forwarded.stop()
    for job in (first, second):
        site.head.api("DELETE", f"/jobs/{job}")
        site.head.ended(job)
    _, after = site.head.api("GET", "/endpoints?name=web-ui")

    ports = [port for words in said for port in words[1:]]
    assert len(set(ports)) == 4
    assert [(one["job"], one["address"].rpartition(":")[2]) for one in found["items"]] == [
        (first, said[0][1]),
        (second, said[1][1]),
    ]
    assert heard == f"hello from {second}".encode()
    assert after["items"] == []
