"""A cluster like the recorded one: four pretended machines with four CPUs and four GPUs each.

Commands are run where the server runs them; the relay, which has tests of its own, is left out.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rota.core.facts.job import Job
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.states import Cause
from rota.core.facts.tenant import Access, Actor
from rota.rpc.messages import Seen, Sighting
from rota.slurm.call.command import Answer, Call, CallerLine, CallRequest
from rota.slurm.serving import answer_to
from tests.api.pretended import PretendedAgent
from tests.api.running import Running, running

#: Only against hanging for ever.
PATIENCE_S = 60.0
#: Who takes part: name -> uid.
PEOPLE = {"root": 0, "alice": 1001, "bob": 1002}


class Cluster:
    """A server with pretended machines, and the commands of Slurm against it."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.agents = [PretendedAgent(server.socket_path, machine=_machine(n)) for n in range(1, 5)]

    def close(self) -> None:
        for agent in self.agents:
            agent.close()

    def run(self, program: str, *argv: str, user: str = "root", **more: object) -> Answer:
        """Run a command; ``env``, ``cwd`` and ``stdin`` as the caller has them."""
        work = answer_to(self.call_of(program, *argv, user=user, **more))
        return asyncio.run_coroutine_threadsafe(work, self.server.loop).result(PATIENCE_S)

    def call_of(self, program: str, *argv: str, user: str = "root", **more: object) -> Call:
        access = Access.ADMIN if user == "root" else Access.USER
        request = CallRequest(
            program=program,
            argv=tuple(argv),
            env={"USER": user, "PATH": "/bin", "TZ": "UTC", **more.get("env", {})},  # type: ignore[dict-item]
            cwd=str(more.get("cwd", "/tmp/demo")),
            actor=Actor(user, access),
            uid=PEOPLE.get(user, 1000),
            host="localhost",
        )
        stdin = more.get("stdin", b"")
        assert isinstance(stdin, bytes)
        return Call(request, CallerLine(stdin), self.server.context)

    def text(self, program: str, *argv: str, **more: object) -> str:
        """What a command that succeeds prints."""
        answer = self.run(program, *argv, **more)  # type: ignore[arg-type]
        assert answer.code == 0, (program, argv, answer)
        assert isinstance(answer.stdout, str)
        return answer.stdout

    def submit(self, *argv: str, user: str = "alice") -> int:
        """Hand in a batch job; its id."""
        return int(self.text("sbatch", "--parsable", *argv, "--wrap", "sleep 1", user=user))

    def job(self, job_id: int) -> Job:
        return self.server.host.cluster.jobs[job_id]

    def until(self, true: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not (answer := true()):
            jobs = list(self.server.host.cluster.jobs.values())
            states = {job.id: job.state for job in jobs}
            assert time.monotonic() < deadline_s, f"waited in vain: {answer!r}; {states}"
            time.sleep(0.002)

    def start(self, job_id: int) -> list[tuple[PretendedAgent, str]]:
        """Its processes run; which, and where."""
        self.until(lambda: job_id in self.server.host.cluster.jobs and self.job(job_id).tasks)
        placed = []
        for attempt in self.job(job_id).round:
            agent = self.agents[int(attempt.allocation.node[1:]) - 1]
            self.until(lambda agent=agent, attempt=attempt: attempt.uid in agent.wanted)
            agent.report_start(attempt.uid)
            placed.append((agent, attempt.uid))
        self.until(lambda: self.job(job_id).started_s)
        return placed

    def finish(
        self, job_id: int, code: int = 0, signal: int = 0, cause: Cause | None = None
    ) -> None:
        """Its processes end, and the server has written that down."""
        for agent, uid in self.start(job_id):
            now_s = time.time()
            seen = Seen(
                uid,
                Sighting.ENDED,
                started_s=now_s - 2,
                ended_s=now_s,
                exit_code=None if signal else code,
                signal=signal,
                cause=cause,
                peak_memory_mib=12,
                cpu_s=0.25,
            )
            with agent._changed:
                agent._observe([seen])
        self.until(lambda: job_id not in self.server.host.cluster.jobs)

    def queue(self, name: str, **fields: object) -> None:
        answer = self.server.local().put(f"/queues/{name}", fields)
        assert answer.status in (200, 201), answer.body

    def project(self, name: str, **fields: object) -> None:
        answer = self.server.local().put(f"/projects/{name}", fields)
        assert answer.status in (200, 201), answer.body


def _machine(number: int) -> NodeSpec:
    return NodeSpec(
        name=f"n{number}",
        cpu_milli=4000,
        memory_mib=8000,
        cpus=(0, 1, 2, 3),
        devices=tuple(Device(n, f"GPU-{n}", model="H200", memory_mib=1000) for n in range(4)),
        address="127.0.0.1",
        system="Linux 6.1 x86_64",
    )


@contextmanager
def recorded_cluster(folder: Path) -> Iterator[Cluster]:
    """The cluster with the partitions and accounts of the recorded one."""
    with running(folder) as server:
        cluster = Cluster(server)
        try:
            cluster.queue("main")
            cluster.queue("short")
            cluster.project("main")
            # The recorded one orders by priority, and believes limits rather than the past.
            assert server.local().patch("/policy", {"policy": "priority-easy"}).status == 200
            yield cluster
        finally:
            cluster.close()
