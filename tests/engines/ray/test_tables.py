"""What Ray says, and what it means for an attempt: tables without a Ray."""

from __future__ import annotations

import asyncio
import io
import json
import time
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from rota.backends.api import EngineAway, EnginePhase, EngineRefused
from rota.backends.orders import AttemptOrder, Gang, Key
from rota.backends.ray import driver as driver_module
from rota.backends.ray.client import RayApi
from rota.backends.ray.driver import RayDriver
from rota.backends.ray.machines import usable
from rota.backends.ray.package import check, id_of, key_of, package, wish
from rota.backends.ray.records import RayAmount, RayJob, RayNode, RayUse, use_of
from rota.backends.ray.room import LAG_S, START_S, RayRoom
from rota.backends.ray.settings import RaySettings
from rota.backends.ray.states import ORPHANED, ShimNotes, job_of, parse_notes
from rota.backends.registry import make
from rota.core.facts.errors import Rejected
from rota.core.facts.states import Blame, Cause
from rota.rpc.messages import Launch

DIED = "Job supervisor actor died: The actor died.\n\tclass_name: JobSupervisor\n"


def record(status: str, **fields: Any) -> RayJob:
    common = {"submission_id": "rota.c1.u1", "start_time": 1000, "driver_node_id": "id1"}
    return RayJob(status=status, **{**common, **fields})


@pytest.mark.parametrize(
    ("job", "notes", "phase", "told"),
    [
        (record("PENDING", message="It waits.", driver_node_id=None), ShimNotes(), "waiting", {}),
        (record("RUNNING"), ShimNotes(), "waiting", {"reason": "its program is being started"}),
        (record("RUNNING"), ShimNotes(started_s=2.5), "running", {"started_s": 2.5}),
        (record("RUNNING"), None, "running", {"started_s": 1.0}),
        (
            record("SUCCEEDED", driver_exit_code=0, end_time=4000),
            ShimNotes(2.5, 3.5, 0),
            "ended",
            {"code": 0, "started_s": 2.5, "ended_s": 3.5, "cause": None},
        ),
        (
            record("FAILED", driver_exit_code=3, end_time=4000),
            None,
            "ended",
            {"code": 3, "started_s": 1.0, "ended_s": 4.0, "cause": None},
        ),
        (record("FAILED", driver_exit_code=-9), None, "ended", {"code": None, "signal": 9}),
        (
            record("FAILED", driver_exit_code=253),
            ShimNotes(unstarted="command not found: x", fault=Blame.JOB),
            "ended",
            {"cause": Cause.START_FAILED, "fault": Blame.JOB, "started_s": 0.0, "code": None},
        ),
        (
            record("FAILED", driver_exit_code=253),
            None,
            "ended",
            {"cause": Cause.START_FAILED, "fault": Blame.NODE, "started_s": 0.0},
        ),
        (
            record("FAILED", driver_exit_code=253),
            ShimNotes(2.5, 3.5, 253),
            "ended",
            {"cause": None, "code": 253},
        ),
        (
            record("FAILED", error_type="RUNTIME_ENV_SETUP_FAILURE", message="No.\nReally."),
            ShimNotes(),
            "ended",
            {"cause": Cause.START_FAILED, "fault": Blame.NODE, "detail": "No. Really."},
        ),
        (
            record("FAILED", message=DIED + "It never ran.", driver_node_id=None),
            ShimNotes(),
            "ended",
            {"cause": Cause.START_FAILED, "fault": Blame.NODE, "started_s": 0.0},
        ),
        (
            record("FAILED", error_type="JOB_SUPERVISOR_ACTOR_DIED", message=DIED + "Its node."),
            None,
            "ended",
            {"cause": Cause.NODE_LOST, "started_s": 1.0, "code": None},
        ),
        (
            record("FAILED", message=DIED + "It was killed by `ray.kill`."),
            ShimNotes(started_s=2.5),
            "ended",
            {"cause": Cause.CANCELLED, "detail": "killed in Ray"},
        ),
        (
            record("FAILED", message=DIED + "The node was running low on memory."),
            ShimNotes(started_s=2.5),
            "ended",
            {"cause": Cause.OUT_OF_MEMORY},
        ),
        (
            record("STOPPED"),
            ShimNotes(2.5, 3.5, 7),
            "ended",
            {"cause": Cause.CANCELLED, "code": 7, "detail": "stopped in Ray"},
        ),
        (record("STOPPED"), ShimNotes(), "ended", {"cause": Cause.CANCELLED, "started_s": 0.0}),
    ],
)
def test_a_record_and_the_notes_of_the_shim_say_what_became_of_an_attempt(job, notes, phase, told):
    shown = job_of("u1", job, notes, "n1")

    assert shown.phase is EnginePhase(phase)
    assert {name: getattr(shown, name) for name in told} == told


def test_a_job_that_nothing_will_start_has_ended_without_a_node():
    shown = job_of("u1", record("PENDING", driver_node_id=None), ShimNotes(), "n1", orphaned=True)

    assert (shown.phase, shown.cause, shown.detail) == (
        EnginePhase.ENDED,
        Cause.START_FAILED,
        ORPHANED,
    )
    assert (shown.node, shown.started_s) == ("", 0.0)


@pytest.mark.parametrize(
    ("body", "notes"),
    [
        (b"", ShimNotes()),
        (b"started 12.5\n", ShimNotes(12.5)),
        (b"started 12.5\nexit 3 14.25\n", ShimNotes(12.5, 14.25, 3)),
        (b"started 12.5\nsignal 11 14.25\n", ShimNotes(12.5, 14.25, None, 11)),
        (b"unstarted job command not found: a b\n", ShimNotes(unstarted="command not found: a b")),
        (b"started 12.5\nexit 3", ShimNotes(12.5)),
        (b"started\nexit x 3\nunstarted me why\n\xff\n", ShimNotes()),
    ],
)
def test_whole_lines_of_the_notes_count(body, notes):
    found = parse_notes(body)

    assert found._replace(fault=None) == notes
    assert (found.fault is Blame.JOB) == bool(notes.unstarted)


def order(**launch: Any) -> AttemptOrder:
    fields = {"workdir": "/w", "environment": {"A": "\udcff"}, "grace_s": 7.5, **launch}
    started = Launch(uid="u.1", job=7, user="", argv=("x", "y"), **fields)
    return AttemptOrder(key=Key("c1", "u.1"), launch=started, node="n1", gpus=2, name="train")


def test_an_id_is_the_key_and_nothing_else_is_one():
    number = id_of(Key("c1", "u.1-x"))

    assert number == "rota.c1.u.1-x"
    assert key_of(RayJob(status="PENDING", submission_id=number)) == Key("c1", "u.1-x")
    for other in (None, "raysubmit_x", "rota.c1", "rota-removal.rota.c1.u", "rotax.c1.u"):
        assert key_of(RayJob(status="PENDING", submission_id=other)) is None


def test_what_is_asked_of_ray_names_the_node_and_amounts_and_no_secret():
    settings = RaySettings(address="http://h:1", python="/opt/ray/bin/python -E")

    asked = wish(order(cpu_milli=1500, memory_mib=3), settings, "node:10.0.0.1", "_ray_pkg_x.zip")

    assert asked["entrypoint"] == "exec /opt/ray/bin/python -E shim.py"
    assert asked["entrypoint_resources"] == {"node:10.0.0.1": 0.0001}
    amounts = [asked[f"entrypoint_{kind}"] for kind in ("num_cpus", "num_gpus", "memory")]
    assert amounts == [1.5, 2, 3 << 20]
    assert asked["metadata"]["job_name"] == "train"
    assert asked["runtime_env"]["env_vars"] == {"RAY_JOB_STOP_WAIT_TIME_S": "8"}


def test_a_job_that_asks_for_nothing_still_asks_for_something_or_it_would_run_on_the_head():
    asked = wish(order(), RaySettings(address="http://h:1"), "", "x.zip")

    assert asked["entrypoint_num_cpus"] > 0
    assert asked["entrypoint_resources"] == {}


def test_of_a_gang_the_first_member_alone_is_handed_in_with_a_bundle_for_each():
    members = Gang(uids=("u.1", "v.1", "w.1"), per_node=2)
    first = replace(order(cpu_milli=500), gang=members, node="n1,n2")
    second = replace(first, key=Key("c1", "v.1"))

    _, body = package(first, ["node:a", "node:b"])
    asked = wish(first, RaySettings(address="http://h:1"), "node:a", "x.zip")

    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        gang = json.loads(archive.read("job.json"))["gang"]
    assert gang["names"] == ["rota.c1.u.1", "rota.c1.v.1", "rota.c1.w.1"]
    amounts = {"CPU": 0.5, "GPU": 2}
    assert gang["bundles"] == [amounts | {f"node:{node}": 0.0001} for node in "aab"]
    assert "entrypoint_num_cpus" not in asked
    assert asked["metadata"]["rota_cpu_milli"] == "1000"
    check(first)
    with pytest.raises(EngineRefused, match="its first member stands for it"):
        check(second)


def test_a_package_has_all_that_an_attempt_needs_and_is_the_same_for_the_same_order():
    made = order(script=b"#!/bin/sh\n", stdin=b"in")

    name, body = package(made)

    assert (name, body) == package(made)
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        assert sorted(archive.namelist()) == ["job.json", "script", "shim.py", "stdin"]
        job = json.loads(archive.read("job.json"))
    assert (job["environment"], job["argv"]) == ({"A": "\udcff"}, ["x", "y"])


def held(number: str, status: str = "RUNNING", cpu: int = 1000, **fields: Any) -> RayJob:
    notes = {"rota_node": "n1", "rota_cpu_milli": str(cpu), "rota_gpus": "1"}
    return RayJob(status=status, submission_id=number, metadata=notes, **fields)


def test_what_is_in_use_and_not_ours_is_held_by_others():
    room = RayRoom()
    use = RayUse(100.0, {"id1": RayAmount(3000, 10, 2)})
    room.see([held("a", start_time=90_000)], {}, 100.0)

    foreign = room.foreign("n1", "id1", use)

    assert foreign == RayAmount(2000, 10, 1)
    assert room.ours("n1") == RayAmount(1000, 0, 1)
    assert room.foreign("n2", "id2", use) == RayAmount()


def test_what_was_taken_since_ray_wrote_down_its_use_counts_at_once_and_is_nobody_elses():
    room = RayRoom()
    use = RayUse(100.0, {"id1": RayAmount(2000)})

    room.take("b", ("n1",), RayAmount(1000), 103.0)

    assert room.foreign("n1", "id1", use) == RayAmount(2000)
    assert room.ours("n1") == RayAmount(1000)


def test_what_has_ended_is_free_at_once_and_is_not_taken_for_others_until_ray_has_seen_it():
    room = RayRoom()
    room.see([held("a", start_time=90_000)], {}, 100.0)
    use = RayUse(100.0, {"id1": RayAmount(1000, 0, 1)})

    room.let_go("a", 101.0)
    room.see([], {}, 102.0)

    assert (room.ours("n1"), room.foreign("n1", "id1", use)) == (RayAmount(), RayAmount())
    late = RayUse(101.0 + LAG_S + 1, {"id1": RayAmount(1000)})
    assert room.foreign("n1", "id1", late) == RayAmount(1000)


def test_a_claim_of_which_ray_never_heard_is_given_up():
    room = RayRoom()
    room.take("b", ("n1",), RayAmount(1000), 100.0)

    room.see([], {}, 150.0)
    between = room.ours("n1")
    room.see([], {}, 200.0)

    assert (between, room.ours("n1")) == (RayAmount(1000), RayAmount())


def test_what_was_handed_in_is_being_started_until_ray_has_its_process():
    room = RayRoom()
    room.take("a", ("n1",), RayAmount(1000), 100.0)
    room.take("b", ("n2",), RayAmount(1000), 100.0)
    at_first = [room.starting(node, 101.0) for node in ("n1", "n2", "")]
    rows = [held("a", status="RUNNING"), held("b", status="PENDING", start_time=100_000)]

    room.see(rows, {}, 101.0)

    assert at_first == [1, 1, 2]
    assert room.starting("", 101.0) == 1
    assert room.starting("", 100.0 + START_S) == 0


def test_a_job_without_a_node_counts_on_every_node_until_ray_has_chosen_one():
    room = RayRoom()
    room.take("b", (), RayAmount(1000), 100.0)
    waits = [room.ours("n1"), room.ours("n2")]
    placed = RayJob(
        status="RUNNING",
        submission_id="b",
        metadata={"rota_cpu_milli": "1000"},
        driver_node_id="id2",
    )

    room.see([placed], {"id2": "n2"}, 101.0)

    assert waits == [RayAmount(1000), RayAmount(1000)]
    assert [room.ours("n1"), room.ours("n2")] == [RayAmount(), RayAmount(1000)]


def test_use_is_read_per_node_and_a_part_of_a_device_is_a_whole_one():
    usage = {"id1": {"CPU": [1.5, 4.0], "GPU": [0.5, 4.0], "memory": [3.0, 9.0], "n1": [0, 1]}}
    status = {"time": 5.0, "loadMetricsReport": {"usageByNode": usage}}
    body = msgspec.json.encode({"data": {"clusterStatus": status}})

    assert use_of(body) == RayUse(5.0, {"id1": RayAmount(1500, 1, 1)})
    assert use_of(b'{"data": {"clusterStatus": null}}') == RayUse()


def node(
    number: str, ip: str, name: str | None = "n", state: str = "ALIVE", cpu: float = 4
) -> RayNode:
    return RayNode(number, ip, state, name, resources_total={"CPU": cpu, f"node:{ip}": 1.0})


def test_nodes_are_those_that_live_and_compute_each_by_a_name_of_its_own():
    rows = [
        node("1", "10.0.0.1", "head", cpu=0),
        node("2", "10.0.0.2", "a"),
        node("3", "10.0.0.3", "same"),
        node("4", "10.0.0.4", "same"),
        node("5", "10.0.0.5", None),
        node("6", "10.0.0.2", "a", "DEAD"),
    ]

    found = usable(rows)

    assert {name: row.node_id for name, row in found.items()} == {
        "a": "2",
        "same-10.0.0.3": "3",
        "same-10.0.0.4": "4",
        "10.0.0.5": "5",
    }


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({}, "missing required field `address`"),
        ({"address": "10.0.0.1:8265"}, "address '10.0.0.1:8265' is not valid; expected http://"),
        ({"placement": "any"}, "Invalid enum value 'any'"),
        ({"poll_s": 0}, "poll_s 0.0 is not valid; expected more than 0"),
        ({"starts_per_node": 0}, "starts_per_node 0 is not valid; expected more than 0"),
        ({"ca_file": "/no/such"}, "ca_file '/no/such' is not valid; expected a file"),
        ({"adress": "x"}, "unknown key engines.lab.adress; did you mean address?"),
    ],
)
def test_bad_settings_are_refused_in_a_line(table, line):
    good = {"address": "http://h:1"} if table else {}

    with pytest.raises(Rejected) as refused:
        make("lab", {"kind": "ray", **good, **table})

    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_token_is_silence_and_no_bug(tmp_path: Path):
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    api = RayApi(RaySettings(address="http://h:1", token_file=str(tmp_path / "token")))

    with pytest.raises(EngineAway, match="token: not a token"):
        asyncio.run(api.jobs())


@pytest.mark.parametrize("behind_s", [0.0, 3600.0, -3600.0])
def test_how_long_a_job_waits_is_told_by_our_own_clock(
    monkeypatch: pytest.MonkeyPatch, behind_s: float
):
    """A head whose clock is behind takes in each job long ago by ours."""
    settings = RaySettings(address="http://h:1")
    taken_ms = int(1000 * (time.time() - behind_s))
    number = id_of(order().key)

    class Unstarted(RayApi):
        async def jobs(self) -> list[RayJob]:
            return [RayJob("PENDING", number, start_time=taken_ms)]

        async def has_supervisor(self, number: str) -> bool:
            return False

    made = RayDriver(settings, Unstarted(settings))
    made.cluster = order().key.cluster
    (fresh,) = asyncio.run(made.jobs())
    monkeypatch.setattr(driver_module, "ORPHAN_S", -1.0)
    (old,) = asyncio.run(made.jobs())

    assert (fresh.phase, old.phase) == (EnginePhase.WAITING, EnginePhase.ENDED)


def test_what_is_being_started_counts_by_our_own_clock():
    room = RayRoom()
    room.see([held("a", "PENDING", start_time=90_000)], {}, 5000.0)

    assert room.starting("n1", 5000.0 + START_S - 1) == 1
    assert room.starting("n1", 5000.0 + START_S + 1) == 0
