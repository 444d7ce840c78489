"""Streams that outlive the token that they were opened with hand out nothing more."""

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running
from tests.api.visiting import revoke, token_of


def test_a_stream_of_events_ends_when_its_token_is_revoked(server: Running, caller: Caller):
    token = token_of(server, "ann")
    stream = server.stream("/events", token)
    assert stream.readline() == b": rota\n"
    revoke(server, token)

    caller.submit()

    assert b"job-submitted" not in stream.read()


def test_a_log_is_followed_no_further_when_its_token_is_revoked(
    server: Running, agent: PretendedAgent
):
    ann = server.as_user("ann")
    job = ann.submit()
    uid = agent.launched(job)
    agent.report_start(uid)
    agent.write(uid, b"before\n")
    stream = server.stream(f"/jobs/{job}/logs?follow=1", str(ann.token))
    before = stream.readline()
    revoke(server, str(ann.token))

    agent.write(uid, b"after\n")

    assert before == b"before\n"
    assert stream.read() == b""
