"""Who may give which command: the role of the caller counts, and whose job it is."""

import json
from collections.abc import Iterator

import pytest

from rota.rpc.visits import SendSignal
from rota.slurm.call import wire
from tests.api.pretended import PretendedAgent
from tests.api.running import WAIT_S, Answer, Caller, Running


class Told(PretendedAgent):
    """An agent that remembers which attempts it was asked to signal."""

    def __init__(self, socket_path: str) -> None:
        self.signalled: list[str] = []
        super().__init__(socket_path)

    def _take(self, message: object) -> None:
        if isinstance(message, SendSignal):
            self.signalled.append(message.uid)
        super()._take(message)

    def first_signalled(self) -> str:
        with self._changed:
            assert self._changed.wait_for(lambda: self.signalled, WAIT_S)
        return self.signalled[0]


@pytest.fixture
def agent(server: Running) -> Iterator[Told]:
    told = Told(server.socket_path)
    yield told
    told.close()


def call(caller: Caller, program: str, *argv: str) -> tuple[int, str]:
    """One exchange as a relay has it: the exit code, and what was printed."""
    words = ["1", program, "/tmp", "022", "0", "far", str(len(argv)), *argv, "PATH=/bin"]
    body = "\0".join(words).encode()
    answer = caller.post("/slurm/run", wire.HEAD.pack(wire.REQUEST, len(body)) + body)
    assert answer.status == 200, answer.body
    text, rest, code = "", answer.body, -1
    while rest:
        kind, length = wire.HEAD.unpack_from(rest)
        part, rest = rest[wire.HEAD.size :][:length], rest[wire.HEAD.size + length :]
        if kind == wire.EXIT:
            code = part[0]
        else:
            text += part.decode()
    return code, text


def running_job(caller: Caller, agent: PretendedAgent, script: str = "") -> int:
    job = caller.submit("" if script else "train", script=script)
    agent.report_start(agent.launched(job))
    caller.until(job, "running")
    return job


@pytest.fixture
def inside(server: Running, agent: Told) -> Caller:
    """A job of ann that asks for itself."""
    job = running_job(server.as_user("ann"), agent)
    launch = agent.wanted[agent.launched(job)].launch
    assert launch is not None
    return server.network(launch.token)


def test_a_token_of_an_agent_gives_no_command(server: Running):
    node = server.as_user("root", "agent")

    for program, *argv in (("sbatch", "--wrap", "id"), ("squeue",), ("scontrol", "show", "job")):
        code, text = call(node, program, *argv)
        assert code == 1
        assert "has the role agent; this needs" in text
    assert not server.host.cluster.jobs


def test_a_viewer_looks_and_does_no_more(server: Running):
    viewer = server.as_user("vera", "viewer")

    assert call(viewer, "squeue")[0] == 0
    for program, *argv in (("sbatch", "--wrap", "id"), ("srun", "id"), ("scancel", "1")):
        code, text = call(viewer, program, *argv)
        assert (code, text) == (
            1,
            f"{program}: error: vera has the role viewer; this needs admin or operator or user\n",
        )


def test_a_user_submits_as_nobody_else(server: Running):
    ann = server.as_user("ann")

    refused = call(ann, "sbatch", "--uid=root", "--wrap", "id")
    taken = call(ann, "sbatch", "--parsable", "--wrap", "id")

    assert refused[0] == 1
    assert server.host.cluster.jobs[int(taken[1])].spec.user == "ann"


def test_a_job_signals_and_enters_no_other_job_of_its_user(
    server: Running, agent: Told, inside: Caller
):
    other = running_job(server.as_user("ann"), agent)

    by_signal = call(inside, "scancel", "-b", "-s", "TERM", str(other))
    by_step = call(inside, "scancel", f"{other}.batch")
    whole = call(inside, "scancel", str(other))
    entered = call(inside, "srun", f"--jobid={other}", "id")
    # Of all that it may name so, only itself is its own affair.
    by_user = call(inside, "scancel", "-b", "-s", "TERM", "-u", "ann")

    denied = "Access/permission denied"
    assert all(denied in text for _, text in (by_signal, by_step, whole, entered))
    assert by_user == (0, "")
    assert server.as_user("ann").job(other)["state"] == "running"
    assert agent.first_signalled() != agent.launched(other)


def test_a_job_signals_itself_and_what_it_submitted(server: Running, agent: Told, inside: Caller):
    child = running_job(inside, agent)

    assert call(inside, "scancel", "-b", "-s", "USR1", str(child)) == (0, "")
    assert agent.first_signalled() == agent.launched(child)


def test_a_job_reads_its_own_script_and_no_other(server: Running, agent: Told):
    ann = server.as_user("ann")
    mine = running_job(ann, agent, script="#!/bin/sh\necho mine\n")
    other = running_job(ann, agent, script="#!/bin/sh\necho other\n")
    launch = agent.wanted[agent.launched(mine)].launch
    assert launch is not None
    inside = server.network(launch.token)

    def script(caller: Caller, job: int) -> str:
        return call(caller, "sacct", "-B", "-j", str(job))[1]

    assert "echo mine" in script(inside, mine)
    assert "echo other" not in script(inside, other)
    assert "echo other" in script(ann, other)


def test_the_name_root_alone_opens_no_script_of_others(server: Running, agent: Told):
    job = running_job(server.as_user("ann"), agent, script="#!/bin/sh\necho mine\n")

    for access, opens in (("viewer", False), ("user", False), ("operator", True)):
        _, text = call(server.as_user("root", access), "sacct", "-B", "-j", str(job))
        assert ("echo mine" in text) is opens


@pytest.mark.parametrize("way", ["network", "local"])
def test_the_name_in_slurms_header_makes_nobody_somebody_else(server: Running, way: str):
    ann = server.as_user("ann")
    job = {"current_working_directory": "/", "environment": {"PATH": "/bin"}}
    body = json.dumps({"script": "#!/bin/sh\ntrue\n", "job": job})

    def submit(**headers: str) -> Answer:
        connection = (server.network() if way == "network" else server.local()).connection
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", "/slurm/v0.0.38/job/submit", body, sent)
        return Answer(connection.getresponse())

    taken = submit(X_SLURM_USER_NAME="root", X_SLURM_USER_TOKEN=ann.token)
    wrong = submit(X_SLURM_USER_NAME="ann", X_SLURM_USER_TOKEN="rota_1_nonsense")

    assert server.host.cluster.jobs[taken.json["job_id"]].spec.user == "ann"
    assert wrong.status == 401


def test_over_the_network_a_name_without_a_token_is_nobody(server: Running):
    connection = server.network().connection
    connection.request("GET", "/slurm/v0.0.38/jobs", None, {"X-SLURM-USER-NAME": "root"})

    assert Answer(connection.getresponse()).status == 401


def test_a_number_of_thousands_of_digits_is_no_job_and_no_trouble(server: Running):
    connection = server.local().connection
    connection.request("DELETE", f"/slurm/v0.0.38/job/{'9' * 5000}")

    answer = Answer(connection.getresponse())

    assert "Invalid job id specified" in answer.json["errors"][0]["error"]
