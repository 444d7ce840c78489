"""Following a job: every byte once over broken connections and retries; Ctrl-C ends in a cancel."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from rota.cli.jobs.follow import LogFollower, patiently
from rota.client.http import Client
from tests.cli.fake_server import Answer
from tests.cli.test_render import a_job

#: Guards against hanging only.
WAIT_S = 60.0


def with_attempts(state, *attempts):
    return a_job(
        state=state,
        attempts=[
            {"task": 0, "number": number, "state": phase}
            for number, phase in enumerate(attempts, start=1)
        ],
    )


def follow(fake, **choice):
    client = Client([f"unix://{fake.path}"])
    parts = []
    LogFollower(client, "/jobs/12", "stdout", parts.append).follow(**choice)
    client.close()
    return b"".join(parts)


def log_requests(fake):
    return [asked.query for asked in fake.asked if asked.path.endswith("/logs")]


def test_a_stream_that_breaks_is_taken_up_at_its_very_byte(fake):
    fake.routes["GET /jobs/12"] = [
        Answer(with_attempts("running", "running")),
        Answer(with_attempts("running", "running")),
        Answer(with_attempts("completed", "ended")),
    ]
    fake.routes["GET /jobs/12/logs"] = [Answer(b"one "), Answer(b"two "), Answer(b"three")]

    assert follow(fake) == b"one two three"
    assert [query["offset"] for query in log_requests(fake)] == ["0", "4", "8"]
    assert "follow" not in log_requests(fake)[-1]


def test_each_attempt_is_followed_from_its_own_beginning(fake):
    fake.routes["GET /jobs/12"] = [
        Answer(with_attempts("queued", "ended")),
        Answer(with_attempts("queued", "ended")),
        Answer(with_attempts("queued", "ended")),
        Answer(with_attempts("completed", "ended", "ended")),
    ]
    fake.routes["GET /jobs/12/logs"] = lambda asked: Answer(
        f"try {asked.query['attempt']}\n".encode() if "follow" in asked.query else b""
    )

    assert follow(fake) == b"try 1\ntry 2\n"


def test_only_the_attempt_that_was_asked_for_is_followed(fake):
    fake.routes["GET /jobs/12"] = with_attempts("running", "ended", "running")
    fake.routes["GET /jobs/12/logs"] = lambda asked: Answer(
        b"first" if "follow" in asked.query else b""
    )

    assert follow(fake, attempt=1) == b"first"


def test_a_job_that_never_started_has_nothing_to_follow(fake):
    fake.routes["GET /jobs/12"] = with_attempts("cancelled")
    fake.routes["GET /jobs/12/logs"] = Answer(b"")

    assert follow(fake) == b""


def test_an_absent_node_is_waited_for(fake):
    fake.routes["GET /jobs/12"] = [
        Answer(with_attempts("running", "running")),
        Answer(with_attempts("running", "running")),
        Answer(with_attempts("completed", "ended")),
    ]
    fake.routes["GET /jobs/12/logs"] = [
        Answer({"detail": "node box is not connected"}, 503),
        Answer(b"late"),
        Answer(b""),
    ]

    assert follow(fake) == b"late"


def test_a_server_that_can_write_nothing_is_told_in_its_own_words(fake, capfd):
    detail = "the disk that holds rota.db is full: nothing was changed"
    away = Answer({"detail": detail}, 503)
    fake.routes["GET /jobs/12"] = [away, Answer(with_attempts("completed"))]
    client = Client([f"unix://{fake.path}"])

    job = patiently(client, lambda: client.get("/jobs/12"), quiet=False)
    client.close()

    assert job["state"] == "completed"
    assert capfd.readouterr().err == f"rota: {detail}; the job goes on, trying again\n"


@pytest.fixture
def unending(fake):
    """A server whose job runs until it is cancelled; ``started`` is set when it is followed."""
    cancelled, started = threading.Event(), threading.Event()

    def job(_asked):
        state = "cancelled" if cancelled.is_set() else "running"
        phase = "ended" if cancelled.is_set() else "running"
        return {**with_attempts(state, phase), "signal": 15, "cause": "cancelled: by ada"}

    def wait(_asked):
        started.set()
        cancelled.wait(WAIT_S)
        return {"done": [{"id": 12, "state": "cancelled"}], "pending": []}

    def cancel(_asked):
        cancelled.set()
        return Answer({"id": 12, "state": "running"}, 202)

    def logs(asked):
        if "follow" in asked.query:
            cancelled.wait(WAIT_S)
        return Answer(b"")

    fake.routes |= {
        "POST /jobs": {"id": 12},
        "GET /jobs/12": job,
        "GET /jobs/12/logs": logs,
        "GET /jobs/wait": wait,
        "DELETE /jobs/12": cancel,
    }
    fake.started = started
    yield fake
    cancelled.set()


def start_run():
    return subprocess.Popen(
        [sys.executable, "-m", "rota.cli.main", "run", "--", "sleep", "60"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_cancels_its_job_when_it_is_stopped_without_a_terminal(unending, number):
    with start_run() as process:
        assert unending.started.wait(WAIT_S)

        process.send_signal(number)
        _, err = process.communicate(timeout=WAIT_S)

    assert process.returncode == 128 + signal.SIGTERM
    assert b"cancelling job 12" in err
    assert any(asked.method == "DELETE" for asked in unending.asked)


@pytest.mark.slow
def test_run_cancels_its_job_when_nobody_reads_its_output_any_more(unending):
    unending.routes["GET /jobs/12/logs"] = lambda asked: Answer(
        b"y\n" if asked.query["stream"] == "stdout" else b""
    )
    with start_run() as process:
        first = process.stdout.readline()

        process.stdout.close()
        err = process.stderr.read()

    assert first == b"y\n"
    assert process.returncode == 128 + signal.SIGTERM
    assert b"nobody reads its output any more: cancelling job 12" in err
    assert any(asked.method == "DELETE" for asked in unending.asked)


@pytest.mark.slow
def test_a_signal_while_the_job_is_being_submitted_still_cancels_it(unending):
    pids = []
    known = threading.Event()

    def submit(_asked):
        known.wait(WAIT_S)
        os.kill(pids[0], signal.SIGINT)
        return {"id": 12}

    unending.routes["POST /jobs"] = submit
    with start_run() as process:
        pids.append(process.pid)
        known.set()
        process.communicate(timeout=WAIT_S)

    assert any(asked.method == "DELETE" for asked in unending.asked)
