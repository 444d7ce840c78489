"""A gang is one job of Ray: room for all members at once, and each on its own node."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from msgspec.structs import replace

from rota.backends.api import Full
from rota.backends.orders import Gang
from rota.core.facts.states import Blame, Cause
from tests.journeys.box import until

if TYPE_CHECKING:
    from pathlib import Path

    from rota.backends.api import EngineJob
    from tests.engines.ray.conftest import Alone

RANKS = "echo $ROTA_RANK of $WORLD_SIZE at $MASTER_ADDR, $NODE_RANK.$LOCAL_RANK"


def gang() -> Gang:
    return Gang(uids=tuple(f"{uuid4().hex[:12]}.1" for _ in range(2)))


def printed(alone: Alone, job: EngineJob, members: Gang) -> list[bytes]:
    return [alone.log(replace(job, uid=uid)) for uid in members.uids]


def test_members_start_together_each_on_its_node_with_its_rank_input_and_output(alone: Alone):
    members = gang()
    text = f"#!/bin/sh\n{RANKS}; cat; echo $CUDA_VISIBLE_DEVICES\n".encode()
    asked = {"script": text, "stdin": b"in\n", "gpus": 1, "node": "n1,n2", "gang": members}

    job = alone.ended(alone.submit(uid=members.uids[0], **asked))

    assert (job.code, job.node) == (0, "n1")
    assert job.submitted_s < job.started_s <= job.ended_s
    first, second = (body.decode().splitlines() for body in printed(alone, job, members))
    assert first[:2] == ["0 of 2 at 127.0.0.3, 0.0", "in"]
    assert second[:2] == ["1 of 2 at 127.0.0.3, 1.0", "in"]
    assert first[2].isdigit()


def test_a_member_that_fails_ends_the_others_and_its_end_is_that_of_the_gang(
    alone: Alone, tmp_path: Path
):
    members, mark = gang(), tmp_path / "mark"
    first = f'trap "echo stopped; exit 0" TERM; echo up; >{mark}; while :; do sleep 0.1; done'
    second = f"until [ -e {mark} ]; do sleep 0.1; done; echo up; exit 7"
    text = f"if [ $ROTA_RANK = 0 ]; then {first}; else {second}; fi"

    job = alone.ended(alone.submit("sh", "-c", text, uid=members.uids[0], node="", gang=members))

    assert (job.code, job.cause) == (7, None)
    assert printed(alone, job, members) == [b"up\nstopped\n", b"up\n"]


def test_a_gang_that_is_stopped_hears_term(alone: Alone):
    members = gang()
    text = 'trap "echo saved; exit 5" TERM; echo up; while :; do sleep 0.1; done'
    uid = alone.submit("sh", "-c", text, uid=members.uids[0], node="n1,n2", gang=members)
    job = alone.running(uid)
    until(lambda: printed(alone, job, members) == [b"up\n"] * 2, "both members")

    alone.do(alone.driver.stop(job, 5.0))

    end = alone.ended(uid)
    assert (end.cause, end.code) == (Cause.CANCELLED, 5)
    assert printed(alone, end, members) == [b"up\nsaved\n"] * 2


def test_a_member_that_cannot_be_started_fails_the_start_of_the_gang(alone: Alone):
    members = gang()

    end = alone.ended(alone.submit("no-such", uid=members.uids[0], node="n1,n2", gang=members))

    assert (end.cause, end.fault) == (Cause.START_FAILED, Blame.JOB)
    assert end.detail == "command not found: no-such"


def test_a_gang_for_which_there_is_no_room_everywhere_is_not_handed_in(alone: Alone):
    for node in ("n2", "n3"):
        alone.submit("sleep", "600", node=node, cpu_milli=2000)
    members = gang()
    asked = {"uid": members.uids[0], "cpu_milli": 3000, "gang": members}

    with pytest.raises(Full, match="node n2 of Ray has"):
        alone.offer("true", node="n1,n2", **asked)
    with pytest.raises(Full, match="2 nodes are wanted; no node of Ray has 3 CPU"):
        alone.offer("true", node="", **asked)
