"""The line over which a program hears of the ends of its jobs, and files left by jobs."""

import threading
from pathlib import Path

import pytest

import rota
from rota.client import outcomes
from rota.client.cluster import ClusterContext
from rota.client.errors import Unreachable
from rota.client.http import Client
from rota.client.watcher import Watcher
from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running, running
from tests.journeys.box import until

#: Guards against hanging only.
WAIT_S = 60.0
COMMAND = rota.Job().shell("exit 0").cpus(1)


def connect(server: Running) -> ClusterContext:
    return ClusterContext(Client([f"unix://{server.socket_path}"]))


def test_an_end_that_was_missed_while_the_line_was_down_is_asked_for(
    server: Running, agent: PretendedAgent, monkeypatch: pytest.MonkeyPatch
):
    down, mended = threading.Event(), threading.Event()
    listen = Client.listen
    lines: list[Client] = []

    def unsteady(self: Client, *args: object) -> object:
        lines.append(self)
        if down.is_set():
            assert mended.wait(WAIT_S)
        return listen(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Client, "listen", unsteady)
    with connect(server) as cluster:
        job = cluster.launch(COMMAND)
        uid = agent.launched(job.id)
        down.set()
        lines[0].hang_up()
        agent.report_end(uid)
        assert cluster.wait(job, timeout=WAIT_S).state == "completed"
        assert not job.done(), "nobody could tell"

        mended.set()

        assert job.result(WAIT_S) is None


def test_a_job_that_ended_before_its_handle_was_made_is_settled_without_asking(
    server: Running, agent: PretendedAgent
):
    watcher = Watcher(Client([f"unix://{server.socket_path}"]))
    opened = watcher.listen()
    with connect(server) as cluster:
        first, last = cluster.launch(COMMAND), cluster.launch(COMMAND)
        watcher.add([rota.JobHandle(int(last), cluster, 0)], opened)
        for job in (first, last):
            agent.report_end(agent.launched(job.id))
        until(lambda: not watcher.pending, "the end of the last job to be heard of")

        late = rota.JobHandle(int(first), cluster, 0)
        watcher.add([late], opened)

        assert late.done()
        assert late.result() is None
    watcher.close()


def test_nobody_waits_long_for_a_server_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Whoever waits for a line that never comes ends as a test that hangs.
    monkeypatch.setattr("rota.client.watcher.FIRST_S", 600.0)
    cluster = ClusterContext(Client([f"unix://{tmp_path}/nothing"]))

    with cluster, pytest.raises(Unreachable, match="rota is not running here"):
        cluster.launch(COMMAND)


def test_whoever_waits_when_the_connection_is_closed_is_told(server: Running):
    cluster = connect(server)
    job = cluster.launch(COMMAND)

    cluster.close()

    with pytest.raises(rota.Disconnected, match=f"closed before job {int(job)} ended"):
        job.result(WAIT_S)


def test_a_server_that_stays_away_is_given_up_after_a_while(socket_folder: Path):
    with running(socket_folder) as server:
        watcher = Watcher(Client([f"unix://{server.socket_path}"]), patience_s=0.2)
        with connect(server) as cluster:
            job = rota.JobHandle(int(cluster.launch(COMMAND)), cluster)
            watcher.add([job], watcher.listen())

    with pytest.raises(rota.Disconnected, match=f"while waiting for job {int(job)}"):
        job.result(WAIT_S)
    watcher.close()


def test_events_can_be_limited_to_kinds_and_an_unknown_one_is_refused(
    server: Running, caller: Caller
):
    stream = server.stream("/events?after=0&kinds=job-settled,array-cancelled")
    caller.submit()
    caller.call("DELETE", "/jobs/1")

    lines = iter(stream.readline, b"")
    first = next(line for line in lines if line.startswith(b"event: "))
    answer = caller.get("/events?kinds=job-setled")

    assert first == b"event: job-settled\n"
    assert answer.status == 400
    assert "'job-setled'" in answer.json["detail"]
    assert "job-settled" in answer.json["detail"]


def test_a_result_is_read_from_where_the_job_ran_in_as_many_pieces_as_it_takes(
    caller: Caller, agent: PretendedAgent
):
    body = outcomes.returned(bytes(700_000))
    job = caller.submit(variables={"ROTA_RESULT_DIR": "/results"})
    uid = agent.launched(job)
    agent.report_start(uid)
    caller.until(job, "running")
    agent.write(uid, body)

    answer = caller.get(f"/jobs/{job}/result")

    assert (answer.status, answer.body) == (200, body)
    asked = agent.log_requests[0]
    assert asked.path == "/results/1.0.result"
    assert asked.user == caller.job(job)["user"]


@pytest.mark.parametrize("folder", ["", "not/absolute"])
def test_a_job_without_a_folder_for_it_has_left_no_result(
    caller: Caller, agent: PretendedAgent, folder: str
):
    job = caller.submit(variables={"ROTA_RESULT_DIR": folder})
    agent.report_start(agent.launched(job))
    caller.until(job, "running")

    answer = caller.get(f"/jobs/{job}/result")

    assert answer.status == 404
    assert answer.json["detail"] == "job 1 has left no result"
    assert not agent.log_requests


def test_a_job_that_never_started_has_no_file_that_could_be_read(
    caller: Caller, agent: PretendedAgent
):
    job = caller.submit(variables={"ROTA_RESULT_DIR": "/results"})
    agent.launched(job)

    assert caller.get(f"/jobs/{job}/result").status == 404
    assert not agent.log_requests


def test_a_result_is_for_its_owner_and_an_array_has_none(server: Running, caller: Caller):
    caller.submit()
    caller.submit(array="0-3")

    assert server.as_user("mallory").get("/jobs/1/result").status == 403
    assert "name an element" in caller.get("/jobs/2/result").json["detail"]


def test_a_job_reads_the_results_of_those_that_it_waited_for_and_of_no_others(
    server: Running, agent: PretendedAgent
):
    ann = server.as_user("ann")
    folder = {"ROTA_RESULT_DIR": "/results"}
    array = ann.submit(array="0-1", variables=folder)
    other = ann.submit(variables=folder)
    for job in (array + 1, array + 2, other):
        uid = agent.launched(job)
        agent.report_start(uid)
        agent.write(uid, outcomes.returned(job))
        agent.report_end(uid)
        ann.until(job, "completed")
    child = ann.submit(depends_on=[{"kind": "after-ok", "job": array}])
    launch = agent.wanted[agent.launched(child)].launch
    assert launch is not None
    inside = server.network(launch.token)

    answers = [inside.get(f"/jobs/{job}/result") for job in (array + 1, array + 2, other)]

    assert [answer.status for answer in answers] == [200, 200, 403]
    assert outcomes.read(answers[1].body).give() == array + 2
    assert inside.get(f"/jobs/{array + 1}/logs").status == 403
