"""The driver on a real Ray: what it starts, stops and tells."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from rota.backends.api import EngineAway, EnginePhase, EngineRefused, Full, Paced
from rota.backends.registry import make
from rota.core.facts.states import Blame, Cause
from tests.engines.ray.conftest import PATH, Alone, table
from tests.journeys.box import until

if TYPE_CHECKING:
    from pathlib import Path

    from rota.backends.api import EngineNode
    from tests.engines.ray.cluster import Ray

STUBBORN = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")


def test_exit_codes_and_signals_are_told_as_they_were(alone: Alone):
    codes = [alone.submit("sh", "-c", f"exit {code}") for code in (0, 3, 137)]
    killed = alone.submit("sh", "-c", "kill -SEGV $$")

    ends = [alone.ended(uid) for uid in codes]

    assert [(end.code, end.signal, end.cause) for end in ends] == [
        (0, 0, None),
        (3, 0, None),
        (137, 0, None),
    ]
    assert (alone.ended(killed).code, alone.ended(killed).signal) == (None, 11)
    assert all(end.submitted_s < end.started_s <= end.ended_s for end in ends)


def test_what_cannot_be_started_is_told_in_a_line_and_is_the_jobs_fault(alone: Alone):
    wrong = {
        "command not found: no-such-command": alone.submit("no-such-command"),
        "working folder /no/such folder: no such file or directory": alone.submit(
            "true", workdir="/no/such folder"
        ),
        "ulimit nofile=99999999999: above the hard limit": alone.submit(
            "true", ulimits={"nofile": 99999999999}
        ),
        "stdout file /no/such/out: no such file or directory": alone.submit(
            "true", stdout="/no/such/out"
        ),
    }

    ends = {why: alone.ended(uid) for why, uid in wrong.items()}

    assert [end.detail for end in ends.values()] == list(wrong)
    assert {(end.cause, end.fault, end.started_s) for end in ends.values()} == {
        (Cause.START_FAILED, Blame.JOB, 0.0)
    }


def test_environment_folder_umask_limits_script_and_input_are_exact(alone: Alone):
    odd = {"PATH": "/usr/bin:/bin", "QUOTE": 'it\'s $HOME `x` "y"', "LINES_": "a\nb", "UML": "ä€"}
    plain = alone.submit("env", "-0", environment=odd)
    text = b'#!/bin/sh\necho "$1|$2"; cat; umask; pwd; ulimit -n; echo wrong >&2\n'
    script = alone.submit(
        *("a b", "c"),
        script=text,
        stdin=b"in\0put\n",
        umask=0o27,
        workdir="/usr",
        ulimits={"nofile": 77},
    )

    told = dict(
        line.split("=", 1) for line in alone.log(alone.ended(plain)).decode().split("\0")[:-1]
    )

    address = told.pop("RAY_ADDRESS")
    assert told == odd
    assert address
    assert alone.log(alone.ended(script)) == b"a b|c\nin\0put\n0027\n/usr\n77\n"
    assert alone.log(alone.ended(script), "stderr") == b"wrong\n"


def test_nothing_of_the_environment_is_shown_by_ray(alone: Alone, ray: Ray):
    uid = alone.submit(
        "true", "hidden-argument", environment={"PATH": PATH, "TOKEN": "hidden-word"}
    )
    alone.ended(uid)

    shown = json.dumps(ray.jobs(alone.id(uid)))

    assert alone.id(uid) in shown
    assert "hidden" not in shown


def test_a_megabyte_of_output_is_whole_and_is_read_from_anywhere(alone: Alone):
    count = "i=0; while [ $i -lt 65536 ]; do printf '%015d\\n' $i; i=$((i+1)); done"
    job = alone.ended(alone.submit("sh", "-c", count))
    whole = b"".join(b"%015d\n" % number for number in range(65536))

    assert alone.log(job) == whole
    assert alone.log(job, offset=1000000) == whole[1000000:]
    assert alone.log(job, offset=-1, lines=2) == whole[-32:]


def test_output_goes_to_the_files_that_the_job_names_and_is_read_there(
    alone: Alone, tmp_path: Path
):
    out, error = tmp_path / "new" / "out", tmp_path / "new" / "err"
    both = "echo out; echo err >&2"
    apart = alone.submit("sh", "-c", both, stdout=str(out), stderr=str(error), outputs="append")
    one = alone.submit("sh", "-c", both, stdout=str(tmp_path / "both"))

    apart, one = alone.ended(apart), alone.ended(one)

    assert (out.read_text(), error.read_text()) == ("out\n", "err\n")
    assert (alone.log(apart), alone.log(apart, "stderr")) == (b"out\n", b"err\n")
    assert (tmp_path / "both").read_bytes() == alone.log(one) == b"out\nerr\n"


def test_a_job_runs_on_the_node_that_was_named_and_has_its_devices(alone: Alone):
    visible = "CUDA_VISIBLE_DEVICES"
    uid = alone.submit("printenv", visible, node="n2", gpus=2, devices=(0, 1))
    without = alone.submit("printenv", visible, environment={"PATH": PATH, visible: "none"})

    job = alone.ended(uid)

    assert job.node == "n2"
    assert len(alone.log(job).split(b",")) == 2
    assert alone.log(alone.ended(without)) == b"none\n"


def test_what_does_not_fit_beside_ours_and_those_of_others_is_not_handed_in(alone: Alone, ray: Ray):
    first = alone.submit("sleep", "600", cpu_milli=2500)

    # What Ray wrote down may still have a job of another test in it.
    with pytest.raises(Full, match=r"node n1 of Ray has 1\.\d CPU, .* and 2 CPU, .* is wanted"):
        alone.offer("true", cpu_milli=2000)
    elsewhere = alone.submit("true", cpu_milli=2000, node="n2")
    alone.do(alone.driver.stop(alone.running(first), 0.0))
    alone.ended(first)
    after = alone.offer("true", cpu_milli=2000)

    assert {alone.ended(uid).code for uid in (elsewhere, after)} == {0}
    assert len(ray.jobs(alone.driver.cluster)) == 3


def test_no_more_jobs_are_being_started_on_a_node_than_the_settings_say(ray: Ray):
    alone = Alone(make("lab", table(ray, starts_per_node=1))[1])
    first = alone.submit("sleep", "600")

    with pytest.raises(Paced, match="node n1 of Ray starts 1 of our jobs now"):
        alone.offer("true")

    other = alone.submit("true", node="n2")
    alone.running(first)
    assert alone.ended(other).code == 0
    assert alone.ended(alone.submit("true")).code == 0
    alone.close()


def test_what_others_hold_is_neither_shown_nor_used(alone: Alone, ray: Ray):
    other = Alone(make("lab", table(ray))[1])
    uid = other.submit("sleep", "600", cpu_milli=3000, gpus=1, memory_mib=1024, node="n2")
    other.running(uid)

    def shown() -> bool:
        specs = {node.spec.name: node.spec for node in alone.do(alone.driver.nodes())}
        return (specs["n2"].cpu_milli, len(specs["n2"].devices)) == (1000, 3)

    try:
        until(shown, "Ray to write down what is held")
        with pytest.raises(Full, match="others hold 3 CPU, 1024 MiB, 1 GPU"):
            alone.offer("true", cpu_milli=2000, node="n2")
    finally:
        other.close()


def cleared_away(alone: Alone, ray: Ray) -> bool:
    alone.do(alone.driver.jobs())
    return len(ray.jobs(alone.driver.cluster)) == 1


def test_a_job_that_waits_inside_can_be_taken_out_and_has_never_begun(alone: Alone, ray: Ray):
    other = Alone(make("lab", table(ray))[1])
    first = alone.submit("sleep", "600", cpu_milli=4000)
    try:
        # The other one has not heard of it yet.
        second = other.offer("true", cpu_milli=1000)
        waiting = other.reach(second, EnginePhase.WAITING, lambda job: "resources" in job.reason)

        other.do(other.driver.stop(waiting, 0.0))

        end = other.ended(second)
        assert (end.cause, end.fault, end.started_s) == (Cause.START_FAILED, Blame.NODE, 0.0)
        assert alone.running(first)
        until(lambda: cleared_away(other, ray), "its removal to be cleared away")
    finally:
        other.close()


def test_a_job_that_obeys_term_has_its_last_words_and_its_own_exit_code(alone: Alone):
    handler = "trap 'echo saved; sleep 1; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    uid = alone.submit("sh", "-c", handler, grace_s=30.0)
    job = alone.running(uid)
    until(lambda: alone.log(job) == b"ready\n", "its first words")

    alone.do(alone.driver.stop(job, 30.0))

    end = alone.ended(uid)
    assert (end.code, end.cause, end.detail) == (7, Cause.CANCELLED, "stopped in Ray")
    assert alone.log(end) == b"ready\nsaved\n"


def test_a_job_that_ignores_term_is_killed_after_its_grace_or_at_once(alone: Alone):
    first, second = alone.submit(*STUBBORN, grace_s=2.0), alone.submit(*STUBBORN, grace_s=600.0)
    jobs = [alone.running(uid) for uid in (first, second)]
    for job in jobs:
        until(lambda job=job: alone.log(job), "its trap")

    alone.do(alone.driver.stop(jobs[0], 2.0))
    alone.do(alone.driver.stop(jobs[1], 600.0))
    alone.do(alone.driver.stop(jobs[1], 0.0))

    assert {alone.ended(uid).cause for uid in (first, second)} == {Cause.CANCELLED}


def test_a_submit_that_is_repeated_runs_once_also_after_its_end(alone: Alone, ray: Ray):
    order = alone.order("sh", "-c", "echo once")

    ids = [alone.do(alone.driver.submit(order)) for _ in range(2)]
    alone.ended(order.uid)
    ids.append(alone.do(alone.driver.submit(order)))

    assert len(set(ids)) == 1
    assert len(ray.jobs(alone.id(order.uid))) == 1
    assert alone.log(alone.ended(order.uid)) == b"once\n"


def test_what_is_forgotten_is_gone_from_ray(alone: Alone, ray: Ray):
    job = alone.ended(alone.submit("true"))

    alone.do(alone.driver.forget(job))
    alone.do(alone.driver.forget(job))

    until(lambda: not alone.do(alone.driver.jobs()) and not ray.jobs(job.id), "it to be gone")
    assert alone.do(alone.driver.find([job.uid])) == []


def test_jobs_of_strangers_and_of_other_clusters_are_left_alone(alone: Alone, ray: Ray):
    other = Alone(make("lab", table(ray))[1])
    ours, theirs = alone.submit("true"), other.submit("true")

    ends = alone.ended(ours), other.ended(theirs)

    assert [job.uid for job in alone.do(alone.driver.jobs())] == [ends[0].uid]
    other.close()


#: PENDING as a submit leaves it that was cut off after its first step, FAILED as Ray does when a
#: job is deleted while the end of its actor is being watched.
WRITTEN_DOWN = """
import asyncio, sys, time
from ray._raylet import GcsClient
from ray.dashboard.modules.job.common import JobInfo, JobInfoStorageClient
began = int(time.time() * 1000) - 60000
info = JobInfo(status=sys.argv[3], entrypoint="Entrypoint not found.", start_time=began)
client = JobInfoStorageClient(GcsClient(address=sys.argv[1]))
asyncio.run(client.put_info(sys.argv[2], info))
"""


def test_a_job_that_nothing_will_ever_start_is_told_as_such_and_is_forgotten_for_good(
    alone: Alone, ray: Ray
):
    order = alone.order("true")
    ray.inside(WRITTEN_DOWN, ray.address, alone.id(order.uid), "PENDING")

    end = alone.ended(order.uid)
    alone.do(alone.driver.forget(end))

    assert (end.cause, end.fault) == (Cause.START_FAILED, Blame.NODE)
    assert "nothing in Ray will ever start it" in end.detail
    assert alone.do(alone.driver.jobs()) == []


def test_a_job_that_ray_made_up_is_not_told_and_is_deleted(alone: Alone, ray: Ray):
    number = alone.id("u.1")
    ray.inside(WRITTEN_DOWN, ray.address, number, "FAILED")
    before = ray.jobs(number)

    shown = alone.do(alone.driver.jobs())

    assert (len(before), shown, ray.jobs(number)) == (1, [], [])


def whole_pool(alone: Alone) -> EngineNode | None:
    (pool,) = alone.do(alone.driver.nodes())
    return pool if pool.spec.cpu_milli == 12000 else None


def test_with_placement_theirs_there_is_one_pool_and_ray_chooses(ray: Ray):
    alone = Alone(make("lab", table(ray, placement="theirs"))[1])
    pool = until(lambda: whole_pool(alone), "Ray to write down that all is free")
    uids = [alone.submit("true", node="", cpu_milli=3000) for _ in range(2)]

    nodes = {alone.ended(uid).node for uid in uids}

    assert (pool.pool, len(pool.spec.devices)) == (True, 12)
    assert nodes <= {"n1", "n2", "n3"}
    with pytest.raises(Full, match="no node of Ray has 5 CPU"):
        alone.offer("true", node="", cpu_milli=5000)
    alone.close()


def test_what_ray_does_not_have_is_refused_in_a_line(alone: Alone):
    for field, what in (({"image": "x"}, "a container image"), ({"terminal": True}, "a terminal")):
        with pytest.raises(EngineRefused, match=f"{what}: jobs in Ray cannot have one"):
            alone.submit("true", **field)


def test_an_address_where_nothing_listens_is_away_and_so_is_a_token_that_is_not_there(ray: Ray):
    away = make("lab", table(ray, address="http://127.0.0.1:9"))[1]
    tokenless = make("lab", table(ray, token_file="/no/such/token"))[1]

    async def look() -> None:
        for driver, words in ((away, "connect"), (tokenless, "token_file /no/such/token")):
            with pytest.raises(EngineAway, match=words):
                await driver.open()
            await driver.close()

    asyncio.run(look())
