"""Going into jobs of a real Slurm: programs beside them, and their ports, as their users."""

import os
import secrets

import pytest
from msgspec.structs import replace

from rota.backends.api import ByteStream, EngineJob, EngineRefused, Feature
from rota.backends.orders import Gang
from tests.journeys.box import until

#: Sends back what it has heard, backwards, when its caller says no more.
BACKWARDS = """
import signal, socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
near = listener.accept()[0]
body = b"".join(iter(lambda: near.recv(65536), b""))
near.sendall(body[::-1])
near.close()
signal.pause()
"""


async def heard(way: ByteStream) -> bytes:
    """All that comes, to its end."""
    body = b""
    try:
        while piece := await way.read():
            body += piece
    finally:
        await way.close()
    return body


def entered(bench, job: EngineJob, *argv: str) -> list[str]:
    async def run() -> bytes:
        return await heard(await bench.driver.enter(job, argv))

    return bench.do(run()).decode().splitlines()


def test_a_program_beside_a_job_has_its_user_folder_and_environment(bench):
    environment = {"PATH": "/usr/bin:/bin", "TWO": "one\ntwo", "EMPTY": ""}
    uid = bench.submit("sleep", "60", user="alice", workdir="/usr/share", environment=environment)
    job = bench.until_running(uid)

    said = entered(bench, job, "sh", "-c", 'id -un; pwd; echo "<$TWO>${EMPTY+set}"; tty; exit 3')

    assert Feature.VISITS in bench.driver.features
    assert said[:4] == ["alice", "/usr/share", "<one", "two>set"]
    assert said[4].startswith("/dev/pts/")


def test_what_is_typed_arrives_the_window_has_its_size_and_leaving_ends_the_program(bench):
    job = bench.until_running(bench.submit("sleep", "60"))

    async def visit() -> bytes:
        way = await bench.driver.enter(job, ("sh", "-c", "read x; stty size; echo pid $$.; cat"))
        await way.resize(33, 77)
        await way.write(b"go\n")
        said = b""
        while b"." not in said:
            said += await way.read()
        await way.close()
        return said

    said = bench.do(visit()).decode()

    assert "33 77" in said
    # All nodes of this Slurm are this machine.
    pid = said.partition("pid ")[2].partition(".")[0]
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the program to be gone")


def test_a_port_takes_bytes_and_the_end_of_one_half(bench):
    job = bench.until_running(bench.submit("python3", "-c", BACKWARDS, user="alice"))
    bench.until_log(job, b"\n")
    port, body = int(bench.log(job)), bytes(range(256)) * 4096

    async def talk() -> bytes:
        way = await bench.driver.reach(job, port)
        await way.write(body)
        await way.end()
        return await heard(way)

    assert bench.do(talk()) == body[::-1]


def test_a_port_at_which_nothing_listens_is_told_in_one_line(bench):
    job = bench.until_running(bench.submit("sleep", "60"))

    async def talk() -> bytes:
        return await heard(await bench.driver.reach(job, 1))

    with pytest.raises(EngineRefused, match=r"^nothing listens on port 1 of the job's node$"):
        bench.do(talk())


def test_each_member_of_a_gang_is_entered_by_itself(bench):
    uids = (secrets.token_hex(8), secrets.token_hex(8))
    bench.submit("sh", "-c", "echo begun; sleep 60", uid=uids[0], gang=Gang(uids, nodes=2))
    job = bench.until_running(uids[0])
    members = [replace(job, uid=uid) for uid in uids]
    for member in members:
        bench.until_log(member, b"begun")

    said = [entered(bench, member, "sh", "-c", "echo $RANK") for member in members]

    assert said == [["0"], ["1"]]
