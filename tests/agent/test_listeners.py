"""Whose program listens on a port, as the kernel's own tables say."""

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rota.agent.machine.listeners import ListeningSocket, listeners_of, reached_by, strangers_at
from rota.agent.visits.tunnels import Tunnels
from rota.rpc.visits import OpenTunnel, TunnelOutput
from tests.support.machine import missing

NOBODY = 65534
TABLE = b"""\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000   113        0 4711 1 0
   1: 00000000:22B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0
   2: 0100007F:22B8 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 4713 1 0
"""
TABLE6 = b"""\
  sl  local_address                         remote_address                        st tx_queue
0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 00:0 0 5 0 77
1: 00000000000000000000000000000000:1F91 00000000000000000000000000000000:0000 0A 0:0 00:0 0 6 0 78
"""


def test_listening_sockets_are_read_with_address_port_user_and_number():
    assert listeners_of(TABLE) == [
        ListeningSocket("127.0.0.1", 5432, 113, 4711),
        ListeningSocket("0.0.0.0", 8888, 1000, 4712),
    ]
    assert listeners_of(TABLE6) == [
        ListeningSocket("::1", 8080, 5, 77),
        ListeningSocket("::", 8081, 6, 78),
    ]
    assert listeners_of(b"") == []


def test_the_most_exact_address_answers():
    exact, anywhere = ListeningSocket("127.0.0.1", 80, 1, 1), ListeningSocket("0.0.0.0", 80, 2, 2)
    both = ListeningSocket("::", 80, 3, 3)
    other = ListeningSocket("10.0.0.1", 80, 4, 4)

    assert reached_by("127.0.0.1", 80, [both, anywhere, exact, other]) == [exact]
    assert reached_by("127.0.0.1", 80, [both, anywhere, other]) == [anywhere]
    assert reached_by("127.0.0.1", 80, [both, other]) == [both]
    assert reached_by("::1", 80, [exact, anywhere, both]) == [both]
    assert reached_by("127.0.0.1", 81, [exact]) == []


def test_what_a_user_listens_on_is_no_strangers():
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert strangers_at("127.0.0.1", server.getsockname()[1], os.getpid()) == ""


@contextmanager
def job_of_nobody(*sockets: socket.socket) -> Iterator[int]:
    """The first process of a job of another user, which has these sockets open."""
    fds = [each.fileno() for each in sockets]
    with subprocess.Popen(["sleep", "600"], user=NOBODY, group=NOBODY, pass_fds=fds) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """We listen, and we are root."""
    if os.geteuid() != 0:
        missing("two users on one machine: needs root")
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def test_what_another_user_listens_on_is_out_of_reach(server: socket.socket):
    heard: list[TunnelOutput] = []

    async def reach(pid: int, port: int) -> None:
        over = asyncio.Event()

        def take(message: TunnelOutput) -> None:
            heard.append(message)
            over.set()

        Tunnels(take, lambda uid: pid).take(OpenTunnel(1, "u1", port))
        await over.wait()

    port = server.getsockname()[1]
    with job_of_nobody() as pid:
        asyncio.run(reach(pid, port))

    assert heard == [
        TunnelOutput(1, over=True, error=f"port {port} is not the job's: it is one of user root")
    ]


def test_what_the_job_itself_listens_on_is_in_reach_whoever_opened_it(server: socket.socket):
    with job_of_nobody(server) as pid:
        assert strangers_at("127.0.0.1", server.getsockname()[1], pid) == ""


def test_what_the_user_of_the_job_listens_on_is_in_reach(server: socket.socket):
    os.seteuid(NOBODY)
    try:
        own = socket.create_server(("127.0.0.1", 0))
    finally:
        os.seteuid(0)
    with own, job_of_nobody() as pid:
        assert strangers_at("127.0.0.1", own.getsockname()[1], pid) == ""
        assert strangers_at("127.0.0.1", server.getsockname()[1], pid) == "root"
