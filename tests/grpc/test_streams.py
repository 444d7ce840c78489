"""What streams to a typed client: the output of jobs and the events of the site."""

import json

import grpc
import pytest

from rota.rpc import cluster_pb2 as pb
from rota.settings.limits import UserLimits
from tests.api.running import running
from tests.grpc.conftest import in_loop, open_door
from tests.grpc.typed import Typed, refusal
from tests.journeys.box import until


def text_of(chunks) -> bytes:
    return b"".join(chunk.data for chunk in chunks)


def test_followed_logs_come_as_they_are_written_and_end_with_the_last_byte(ann, agent):
    job_id = ann.launch("print")
    chunks = ann("FetchLogs", job_id=job_id, follow=True)
    uid = agent.launched(int(job_id))
    agent.report_start(uid)

    agent.write(uid, b"epoch 1\n")
    first = next(chunks).data
    agent.write(uid, b"epoch 2\nbye")
    agent.report_end(uid, 0)
    rest = text_of(chunks)

    assert first + rest == b"epoch 1\nepoch 2\nbye"
    assert ann.status(job_id).state == pb.JOB_STATE_SUCCEEDED


def test_logs_are_read_from_an_offset_by_the_tail_and_by_the_stream(ann, agent):
    job_id = ann.launch("print")
    uid = agent.launched(int(job_id))
    agent.write(uid, b"one\ntwo\nthree\n")
    agent.write(uid, b"oops\n", stream="stderr")

    assert text_of(ann("FetchLogs", job_id=job_id, offset=4)) == b"two\nthree\n"
    assert text_of(ann("FetchLogs", job_id=job_id, tail=1)) == b"three\n"
    assert text_of(ann("FetchLogs", job_id=job_id, tail=0)) == b""
    assert text_of(ann("FetchLogs", job_id=job_id, stream=pb.LOG_STREAM_STDERR)) == b"oops\n"
    assert text_of(ann("FetchLogs", job_id=job_id, search="t[wh]", regex=True)) == b"two\nthree\n"
    beside = ann("FetchLogs", job_id=job_id, search="ONE", ignore_case=True, context_lines=1)
    assert text_of(beside) == b"one\ntwo\n"


def test_logs_larger_than_one_message_arrive_whole(ann, agent):
    job_id = ann.launch("print")
    body = b"0123456789abcde\n" * 65536  # 1 MiB: more than one piece.
    agent.write(agent.launched(int(job_id)), body)

    chunks = [chunk.data for chunk in ann("FetchLogs", job_id=job_id)]

    assert len(chunks) > 1
    assert b"".join(chunks) == body


def test_the_logs_of_a_task_that_does_not_exist_are_not_found(ann, agent):
    job_id = ann.launch("print")

    assert refusal(ann, "FetchLogs", job_id=job_id, task=4) == (
        grpc.StatusCode.NOT_FOUND,
        f"job {job_id} has no task 4",
    )


def test_a_watcher_misses_nothing_after_the_first_metadata(ann, agent):
    events = ann("WatchEvents", kinds=["job-submitted", "job-settled"])
    events.initial_metadata()

    job_id = ann.launch("true", name="watched")
    agent.report_end(agent.launched(int(job_id)), 7)
    submitted, settled = next(events), next(events)
    events.cancel()

    assert (submitted.kind, submitted.job_id) == ("job-submitted", job_id)
    assert (settled.kind, settled.job_id) == ("job-settled", job_id)
    assert json.loads(settled.detail_json)["outcome"]["exit_code"] == 7
    assert submitted.seq < settled.seq
    assert submitted.at_ms <= settled.at_ms


def test_a_watcher_who_was_away_resumes_behind_the_last_event_it_saw(ann):
    first, second = ann.launch("a"), ann.launch("b")
    ann("TerminateJob", job_id=second)

    events = ann("WatchEvents", after_seq=0, job_id=second)
    submitted = next(events)
    events.cancel()
    resumed = ann("WatchEvents", after_seq=submitted.seq, job_id=second)
    settled = next(resumed)
    resumed.cancel()

    assert submitted.job_id == settled.job_id == second != first
    assert (submitted.kind, settled.kind) == ("job-submitted", "job-settled")


def test_a_watcher_who_leaves_is_forgotten_by_the_controller(server, ann):
    left: list[object] = []
    unsubscribe = server.host.watch.unsubscribe
    server.host.watch.unsubscribe = lambda one: (left.append(one), unsubscribe(one))[1]
    events = ann("WatchEvents")
    events.initial_metadata()

    events.cancel()

    until(lambda: left, "the controller to let go of the watcher")
    assert len(left) == 1


@pytest.mark.slow
def test_open_streams_end_when_the_controller_stops_and_hold_nothing_up(socket_folder):
    with running(socket_folder) as own:
        door = open_door(own)
        token = own.local().post("/tokens", {"user": "ann"}).json["token"]
        ann = Typed(door.address, token)
        events = ann("WatchEvents", kinds=["node-registered"])
        events.initial_metadata()
        logs = ann("FetchLogs", job_id=ann.launch("print"), follow=True)
        logs.initial_metadata()

        own.loop.call_soon_threadsafe(own.context.closing.set)

        assert list(events) == []
        assert list(logs) == []
        in_loop(own, door.stop())
        ann.close()


def test_streams_without_number_of_one_user_are_refused_and_others_are_not(socket_folder):
    with running(socket_folder, limits=UserLimits(connections=2)) as narrow:
        door, local = open_door(narrow), narrow.local()
        tokens = [local.post("/tokens", {"user": user}).json["token"] for user in ("ann", "bob")]
        ann, bob = (Typed(door.address, token) for token in tokens)
        open_streams = [ann("WatchEvents") for _ in range(2)]
        for stream in open_streams:
            stream.initial_metadata()

        refused = refusal(ann, "WatchEvents")
        bobs = bob("WatchEvents")
        bobs.initial_metadata()
        open_streams[0].cancel()
        until(lambda: _is_open(ann("WatchEvents")), "the stream that ended to make room")

        for client in (ann, bob):
            client.close()
        in_loop(narrow, door.stop())

    said = "streams: ann has too many; allowed are 2 at one time (limits.connections)"
    assert refused == (grpc.StatusCode.RESOURCE_EXHAUSTED, said)


def _is_open(stream) -> bool:
    stream.initial_metadata()
    return bool(stream.is_active())
