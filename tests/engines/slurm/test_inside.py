"""What others do inside a real Slurm: they hold, limit, cancel, drain, and use similar keys."""

import re
import secrets
import time

import pytest

from rota.backends.api import EnginePhase, EngineRefused, Feature, Full
from rota.core.facts.states import Blame, Cause
from tests.engines.slurm.site import CLUSTER, WAIT_S, order_for
from tests.journeys.box import until


def until_all_serve(bench):
    """The pool, once Slurm has heard of all its nodes."""
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        (pool,) = bench.do(bench.driver.nodes())
        if pool.spec.cpu_milli == 12000:
            return pool
        bench.do(bench.driver.changes())
    raise AssertionError(f"in vain: {pool}")


def inside(bench, uid):
    return bench.until(uid, lambda job: True).id


def test_the_nodes_are_told_with_what_they_have(bench):
    nodes = {node.spec.name: node for node in bench.do(bench.driver.nodes())}

    spec = nodes["n2"].spec
    assert sorted(nodes) == ["n1", "n2", "n3"]
    assert (spec.cpu_milli, spec.memory_mib) == (4000, 8000)
    assert [device.model for device in spec.devices] == ["h200", "h200"]
    assert spec.labels == {"slurm/partitions": "main,short", "slurm/feature-node-n2": ""}
    assert nodes["n2"].usable


def test_a_node_that_an_operator_drains_is_out_of_service_with_the_reason(bench, slurm):
    slurm.run("scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=new fan")
    try:
        nodes = {node.spec.name: node for node in bench.do(bench.driver.nodes())}
    finally:
        slurm.run("scontrol", "update", "NodeName=n3", "State=RESUME")

    assert re.fullmatch("drain.* in Slurm: new fan", nodes["n3"].detail)
    assert not nodes["n3"].usable
    assert nodes["n1"].usable


def test_a_job_may_be_as_long_as_its_partition_lets_it(bench):
    """Slurm's own limit is a backstop: what it has on top of the job's is given up if it must."""
    day_s = 86400
    wishes = {"user": "alice", "cpu_milli": 1000}
    longer = bench.submit("/bin/true", time_limit_s=day_s + 60, **wishes)
    whole = bench.submit("/bin/true", time_limit_s=day_s, **wishes)

    assert bench.until_ended(whole).code == 0
    waits = bench.until(longer, lambda job: job.reason == "PartitionTimeLimit")
    assert waits.phase is EnginePhase.WAITING


def test_a_partition_that_the_site_takes_away_is_no_fault_of_its_jobs(slurm, way):
    slurm.run("scontrol", "create", "PartitionName=passing", "Nodes=ALL", "State=UP")
    with slurm.bench(way, partition="passing") as bench:
        assert bench.until_ended(bench.submit("/bin/true")).code == 0
        slurm.run("scontrol", "delete", "PartitionName=passing")

        with pytest.raises(EngineRefused, match="Invalid partition name") as refused:
            bench.submit("/bin/true")
        with pytest.raises(EngineRefused, match="Invalid partition name") as named:
            bench.submit("/bin/true", queue="nosuch")

    assert (refused.value.fault, named.value.fault) == (Blame.NODE, Blame.JOB)


def test_pools_are_partitions_by_kind_of_machine(slurm, way):
    with slurm.bench(way, placement="theirs", partition="main") as bench:
        pool = until_all_serve(bench)
        uid = bench.submit("/bin/true", node="n3")

        job = bench.until_ended(uid)

    assert (pool.spec.name, pool.pool, pool.usable) == ("main.4c-8000m-2xh200", True, True)
    assert len(pool.spec.devices) == 6
    assert job.node in ("n1", "n2", "n3")


@pytest.mark.parametrize("feature", ["", "node-{node}"])
def test_it_runs_on_the_node_that_was_named(slurm, way, feature):
    with slurm.bench(way, node_feature=feature) as bench:
        uids = [bench.submit("/bin/true", node=node) for node in ("n3", "n2")]

        told = bench.ended(uids)

    assert [(job.node, job.code) for job in told] == [("n3", 0), ("n2", 0)]


def test_a_node_that_slurm_does_not_know_is_refused_for_the_nodes_sake(bench):
    uid = secrets.token_hex(16)

    with pytest.raises(EngineRefused) as refused:
        bench.submit("/bin/true", node="n99", uid=uid)

    left = bench.listed().get(uid)
    assert refused.value.fault is Blame.NODE
    assert left is None or left.phase is EnginePhase.ENDED


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"queue": "nosuch"}, "Invalid partition name specified"),
        ({"account": "nosuch"}, "Invalid account or account/partition combination specified"),
        ({"qos": "nosuch"}, "Invalid qos specification"),
    ],
)
def test_what_slurm_does_not_know_is_refused_in_its_words(bench, wish, words):
    with pytest.raises(EngineRefused, match=words) as refused:
        bench.submit("/bin/true", **wish)

    assert refused.value.fault is Blame.JOB


def in_service(bench):
    return {node.spec.name for node in bench.do(bench.driver.nodes()) if node.usable}


def test_jobs_go_into_the_reservation_that_the_site_has_named(slurm, way):
    name = f"kept{way}"
    slurm.run(
        *("scontrol", "create", "reservation", f"ReservationName={name}", "Nodes=n3"),
        *("StartTime=now", "Duration=10", "Users=root", "Flags=IGNORE_JOBS"),
    )
    try:
        with slurm.bench(way) as bench:
            until(lambda: "n3" not in in_service(bench), "Slurm to keep the node")
        with slurm.bench(way, reservation=name) as bench:
            served = in_service(bench)
            inside_it = bench.until_ended(bench.submit("/bin/true"))
    finally:
        slurm.run("scontrol", "delete", f"ReservationName={name}")

    assert (inside_it.node, inside_it.code) == ("n3", 0)
    assert "n3" in served


def test_a_limit_of_slurm_holds_it_with_the_reason_and_a_raised_one_lets_it_go(bench, slurm, way):
    account = f"small{way}"
    slurm.run("sacctmgr", "-i", "add", "account", account, "GrpTRES=cpu=1", "Description=x")
    slurm.run("sacctmgr", "-i", "add", "user", "root", f"Account={account}")
    uid = bench.submit("/bin/true", account=account, cpu_milli=2000)
    waiting = bench.until(uid, lambda job: job.reason)

    slurm.run("sacctmgr", "-i", "modify", "account", account, "set", "GrpTRES=cpu=4")

    assert (waiting.phase, waiting.reason) == (EnginePhase.WAITING, "AssocGrpCpuLimit")
    assert bench.until_ended(uid).code == 0


def test_a_limit_on_submits_is_not_now(bench, slurm, way):
    account = f"shut{way}"
    slurm.run("sacctmgr", "-i", "add", "account", account, "MaxSubmitJobs=0", "Description=x")
    slurm.run("sacctmgr", "-i", "add", "user", "root", f"Account={account}")

    with pytest.raises(Full, match="accounting/QOS policy"):
        bench.submit("/bin/true", account=account)


def test_one_that_is_held_inside_says_so(bench, slurm):
    bench.until_running(bench.submit("/bin/sleep", "60", node="n1", cpu_milli=4000))
    uid = bench.submit("/bin/true", node="n1", cpu_milli=4000)
    slurm.run("scontrol", "hold", inside(bench, uid))

    job = bench.until(uid, lambda job: "Held" in job.reason)

    assert (job.phase, job.reason) == (EnginePhase.WAITING, "JobHeldAdmin")


def test_one_that_is_cancelled_inside_says_so(bench, slurm):
    uid = bench.submit("/bin/sleep", "60", user="alice")
    running = bench.until_running(uid)
    slurm.run("scancel", running.id)

    job = bench.until_ended(uid)

    assert (job.cause, job.detail) == (Cause.CANCELLED, "cancelled in Slurm")


def test_slurm_starts_none_of_ours_again(bench, slurm):
    uid = bench.submit("/bin/sleep", "60")
    running = bench.until_running(uid)

    with pytest.raises(AssertionError, match="disabled"):
        slurm.run("scontrol", "requeue", running.id)

    assert bench.until_running(uid).restarts == 0


def test_one_that_was_started_again_inside_shows_how_often(bench, slurm):
    uid = secrets.token_hex(16)
    comment = f"--comment=rota:{CLUSTER}:{uid}"
    sleeper = "#!/bin/sh\nsleep 60\n"
    number = slurm.run("sbatch", "--parsable", "--requeue", comment, given=sleeper)
    bench.submitted.append(uid)
    bench.until_running(uid)

    slurm.run("scontrol", "requeue", number)

    job = bench.until(uid, lambda job: job.phase is EnginePhase.WAITING)
    assert job.restarts == 1


def test_of_two_jobs_with_one_key_the_one_that_is_meant_is_stopped(bench, slurm):
    uid = secrets.token_hex(16)
    slurm.run("scontrol", "update", "PartitionName=short", "State=DOWN")
    bench.submit("/bin/sleep", "60", uid=uid, queue="short")
    bench.submit("/bin/sleep", "60", uid=uid, queue="short")
    older, younger = (job for job in bench.do(bench.driver.jobs()) if job.uid == uid)

    bench.do(bench.driver.stop(younger, 0.0))

    slurm.run("scontrol", "update", "PartitionName=short", "State=UP")
    states = slurm.run("squeue", "-h", "-t", "all", "-o", "%T", "-j", younger.id)
    assert states in ("CANCELLED", "COMPLETING")
    assert slurm.run("squeue", "-h", "-o", "%T", "-j", older.id) in ("PENDING", "RUNNING")


def test_of_two_jobs_with_one_key_the_one_that_begins_first_is_shown_however_old_it_is(
    bench, slurm
):
    uid = secrets.token_hex(16)
    slurm.run("scontrol", "update", "PartitionName=short", "State=DOWN")
    bench.submit("/bin/sleep", "60", uid=uid, queue="short")
    bench.submit("/bin/sh", "-c", "echo ran; sleep 2", uid=uid)
    until_shown(bench, uid, lambda jobs: EnginePhase.RUNNING in [job.phase for job in jobs])

    slurm.run("scontrol", "update", "PartitionName=short", "State=UP")

    (end,) = until_shown(
        bench, uid, lambda jobs: {job.phase for job in jobs} == {EnginePhase.ENDED}
    )
    assert (end.code, end.cause, bench.log(end)) == (0, None, b"ran\n")


def until_shown(bench, uid, holds):
    """All jobs with this key, once it is so."""
    deadline_s = time.monotonic() + WAIT_S
    while not holds(shown := [job for job in bench.do(bench.driver.jobs()) if job.uid == uid]):
        assert time.monotonic() < deadline_s, shown
        bench.do(bench.driver.changes())
    return shown


def test_jobs_of_others_are_left_alone(bench, slurm):
    uid = secrets.token_hex(16)
    mine = bench.submit("/bin/sleep", "60", uid=uid, user="alice")
    comments = [
        f"rota:{CLUSTER}:{uid} again",
        f"rota:c2:{uid}",
        f"Rota:{CLUSTER}:{uid}",
        f"rota:{CLUSTER}:",
        f"x\nrota:{CLUSTER}:{uid}",
        f"rota:{CLUSTER}:{uid}",
    ]
    sleeper = "#!/bin/sh\nsleep 60\n"
    others = [
        slurm.run("sbatch", "--parsable", "--uid=bob", f"--comment={comment}", given=sleeper)
        for comment in comments
    ]

    listed = bench.do(bench.driver.jobs())
    found = bench.do(bench.driver.find([mine]))

    slurm.run("scancel", *others)
    assert [job.user for job in listed if job.uid == uid] == ["alice"]
    assert [job.user for job in found] == ["alice"]


def test_with_the_token_of_a_user_one_submits_for_that_user_alone(slurm):
    token = str(slurm.state / "tokens/alice")
    with slurm.bench("rest", rest_user="alice", token_file=token) as bench:
        own = bench.shell("id -un", user="alice")

        with pytest.raises(
            EngineRefused, match="user bob: this engine submits to Slurm as alice alone"
        ):
            bench.do(bench.driver.submit(order_for(user="bob")))

        assert bench.printed(own) == "alice\n"
        assert Feature.USERS not in bench.driver.features
