"""The driver on a real Kubernetes: what it starts, stops and tells, with the rights of the docs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rota.backends.api import EnginePhase, EngineRefused, Full
from rota.backends.kubernetes.objects import FINALIZER, build, name_of
from rota.backends.kubernetes.settings import KubernetesSettings
from rota.backends.orders import Key
from rota.backends.registry import make
from rota.core.facts.states import Blame, Cause
from tests.engines.kubernetes.cluster import IMAGE, NAMESPACE
from tests.engines.kubernetes.conftest import Alone, table
from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.engines.kubernetes.cluster import Kube

STUBBORN = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")


def test_exit_codes_and_signals_are_told_as_they_were(alone: Alone):
    good = alone.submit("true")
    three = alone.submit("sh", "-c", "exit 3")
    killed = alone.submit("sh", "-c", "kill -SEGV $$")

    assert (alone.ended(good).code, alone.ended(good).cause) == (0, None)
    assert (alone.ended(three).code, alone.ended(three).signal) == (3, 0)
    assert (alone.ended(killed).code, alone.ended(killed).signal) == (None, 11)


def test_a_command_or_a_folder_that_is_not_there_is_named_in_the_log(alone: Alone):
    command = alone.ended(alone.submit("no-such-command"))
    folder = alone.ended(alone.submit("true", workdir="/no/such folder"))

    assert command.code == 127
    assert b"no-such-command" in alone.log(command)
    assert folder.code == 126
    assert alone.log(folder) == b"rota: there is no working folder /no/such folder\n"


def test_environment_folder_umask_script_and_input_are_exact(alone: Alone):
    odd = {"PATH": "/usr/bin:/bin", "QUOTE": 'it\'s $HOME `x` "y"', "LINES_": "a\nb", "UML": "ä€"}
    plain = alone.ended(alone.submit("env", "-0", environment=odd))
    text = b'#!/bin/sh\necho "$1|$2"; cat; umask; pwd\n'
    script = alone.submit("a b", "c", script=text, stdin=b"in\n", umask=0o27, workdir="/usr")

    assert alone.log(plain) == b"".join(f"{k}={v}\0".encode() for k, v in odd.items())
    assert alone.log(alone.ended(script)) == b"a b|c\nin\n0027\n/usr\n"


def test_nothing_of_the_environment_stands_in_the_pod(alone: Alone, kube: Kube):
    uid = alone.submit("true", environment={"PATH": "/bin", "TOKEN": "hidden-word"})

    pod = kube.show("pod", name_of(Key(alone.driver.cluster, uid)))

    assert "hidden-word" not in json.dumps(pod)


def test_a_megabyte_of_output_is_whole_and_is_read_from_anywhere(alone: Alone):
    count = "i=0; while [ $i -lt 65536 ]; do printf '%015d\\n' $i; i=$((i+1)); done"
    job = alone.ended(alone.submit("sh", "-c", count))
    whole = b"".join(b"%015d\n" % number for number in range(65536))

    assert alone.log(job) == whole
    assert alone.log(job, offset=1000000, limit=100) == whole[1000000:1000100]
    assert alone.log(job, offset=-1, lines=2) == whole[-32:]


def test_a_pod_goes_to_the_node_that_was_named_and_has_its_devices(alone: Alone):
    uid = alone.submit("printenv", "NVIDIA_VISIBLE_DEVICES", node="fake-2", gpus=2, devices=(0, 1))

    job = alone.ended(uid)

    assert job.node == "fake-2"
    assert len(alone.log(job).split(b",")) == 2


def test_a_pod_that_fits_nowhere_waits_with_the_schedulers_words_and_can_be_taken_out(
    alone: Alone,
):
    uid = alone.submit("true", cpu_milli=64000)
    job = alone.reach(uid, EnginePhase.WAITING, lambda job: "nodes are available" in job.reason)

    alone.do(alone.driver.stop(job, 0.0))

    end = alone.ended(uid)
    assert (end.started_s, end.cause, end.fault) == (0.0, Cause.START_FAILED, Blame.NODE)


def test_a_running_job_that_obeys_term_has_its_last_words_kept(alone: Alone):
    handler = "trap 'echo saved; sleep 1; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    uid = alone.submit("sh", "-c", handler, grace_s=30.0)
    job = alone.reach(uid, EnginePhase.RUNNING)
    until(lambda: alone.log(job) == b"ready\n", "its first words")

    alone.do(alone.driver.stop(job, 30.0))

    end = alone.ended(uid)
    assert end.code == 7
    until(lambda: alone.log(end).endswith(b"saved\n"), "its last words")


def test_a_job_that_ignores_term_is_killed_after_its_grace_or_at_once(alone: Alone):
    first, second = alone.submit(*STUBBORN), alone.submit(*STUBBORN)
    jobs = [alone.reach(uid, EnginePhase.RUNNING) for uid in (first, second)]
    for job in jobs:
        until(lambda job=job: alone.log(job), "its trap")

    alone.do(alone.driver.stop(jobs[0], 2.0))
    alone.do(alone.driver.stop(jobs[1], 600.0))
    alone.do(alone.driver.stop(jobs[1], 0.0))

    assert [alone.ended(uid).signal for uid in (first, second)] == [9, 9]


def test_too_much_memory_is_told_as_such(alone: Alone):
    uid = alone.submit("sh", "-c", "head -c 300m /dev/zero | tail", memory_mib=64)

    assert alone.ended(uid).cause is Cause.OUT_OF_MEMORY


def test_a_submit_that_is_repeated_makes_one_pod(alone: Alone, kube: Kube):
    order = alone.order("sh", "-c", "sleep 1; echo once")

    names = [alone.do(alone.driver.submit(order)) for _ in range(3)]

    assert len(set(names)) == 1
    pods = kube.show("pods", "-l", f"rota/cluster={alone.driver.cluster}")["items"]
    assert len(pods) == 1
    assert alone.log(alone.ended(order.uid)) == b"once\n"


def test_a_pod_that_anybody_deletes_keeps_its_end_until_it_is_forgotten(alone: Alone, kube: Kube):
    ended, running = alone.submit("sh", "-c", "exit 3"), alone.submit("sleep", "600")
    names = [name_of(Key(alone.driver.cluster, uid)) for uid in (ended, running)]
    alone.ended(ended)
    alone.reach(running, EnginePhase.RUNNING)

    kube.ctl("-n", NAMESPACE, "delete", "pod", "--wait=false", *names)

    lost = alone.ended(running)
    assert (lost.cause, lost.detail) == (Cause.NODE_LOST, "the pod was deleted in Kubernetes")
    assert alone.ended(ended).code == 3
    assert kube.show("pod", names[0])["metadata"]["finalizers"] == [FINALIZER]
    alone.do(alone.driver.forget(alone.ended(ended)))
    assert kube.show("pods", "-l", f"rota/uid={ended}")["items"] == []
    assert names[0] not in kube.ctl("-n", NAMESPACE, "get", "secrets", "-o", "name")


def test_pods_of_strangers_and_of_other_clusters_are_left_alone(alone: Alone, kube: Kube):
    ours = alone.submit("true")
    stranger = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"stranger-{alone.driver.cluster[:8]}",
            "namespace": NAMESPACE,
            "labels": {"rota/cluster": alone.driver.cluster, "rota/uid": "x.1"},
            "annotations": {"rota/key": "rota:another:x.1"},
        },
        "spec": {"containers": [{"name": "c", "image": "i", "command": ["sleep", "60"]}]},
    }
    kube.ctl("create", "-f", "-", stdin=json.dumps(stranger))

    alone.ended(ours)

    assert [job.uid for job in alone.do(alone.driver.jobs())] == [ours]
    kube.ctl("-n", NAMESPACE, "delete", "pod", "--wait=false", stranger["metadata"]["name"])


def test_a_quota_says_not_now_in_its_own_words(alone: Alone, kube: Kube):
    kube.quota(requests_cpu="50m", pods="10")
    try:
        with pytest.raises(Full, match="exceeded quota: small"):
            alone.submit("true")
    finally:
        kube.no_quota()

    assert alone.ended(alone.submit("true")).code == 0


def test_what_the_server_finds_wrong_is_the_jobs_fault_and_leaves_nothing(alone: Alone, kube: Kube):
    before = kube.ctl("-n", NAMESPACE, "get", "secrets", "-o", "name")

    with pytest.raises(EngineRefused, match="image") as refused:
        alone.submit("true", image=" not an image")

    assert refused.value.fault is Blame.JOB
    assert kube.ctl("-n", NAMESPACE, "get", "secrets", "-o", "name") == before


def test_nodes_show_what_others_leave_and_what_is_out_of_service(alone: Alone, kube: Kube):
    foreign = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "foreign", "namespace": "default"},
        "spec": {
            "nodeName": "fake-2",
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "command": ["sleep", "600"],
                    "resources": {"limits": {"cpu": "3", "memory": "1Gi", "nvidia.com/gpu": "1"}},
                }
            ],
        },
    }
    kube.ctl("create", "-f", "-", stdin=json.dumps(foreign))
    kube.ctl("cordon", "fake-3")
    try:
        nodes = {node.spec.name: node for node in alone.do(alone.driver.nodes())}
    finally:
        kube.ctl("uncordon", "fake-3")
        kube.ctl("delete", "pod", "foreign", "--wait=false")

    assert (nodes["fake-1"].spec.cpu_milli, len(nodes["fake-1"].spec.devices)) == (8000, 4)
    assert (nodes["fake-2"].spec.cpu_milli, nodes["fake-2"].spec.memory_mib) == (5000, 14976)
    assert len(nodes["fake-2"].spec.devices) == 3
    assert (nodes["fake-3"].usable, nodes["fake-3"].detail) == (False, "cordoned (unschedulable)")


def test_a_job_on_a_node_that_dies_is_lost_with_it(alone: Alone, kube: Kube):
    uid = alone.submit("sleep", "600", node="fake-3", grace_s=1.0)
    alone.reach(uid, EnginePhase.RUNNING)

    kube.ctl("annotate", "node", "fake-3", "fake-node/state=dead")
    try:
        end = alone.ended(uid)
        nodes = {node.spec.name: node for node in alone.do(alone.driver.nodes())}
        alone.do(alone.driver.forget(end))
        left = alone.do(alone.driver.jobs())
    finally:
        kube.ctl("annotate", "node", "fake-3", "fake-node/state-")

    assert end.cause is Cause.NODE_LOST
    assert not nodes["fake-3"].usable
    assert left == []


def test_an_image_that_cannot_be_had_fails_the_job_in_the_words_of_its_node(kube: Kube):
    alone = Alone(make("lab", table(kube, start_s=1.0))[1])
    order = alone.order("true")
    _, pod = build(order, KubernetesSettings(image=IMAGE))
    shown = pod.to_dict() | {"apiVersion": "v1", "kind": "Pod"}
    shown["metadata"]["annotations"]["fake-node/start-error"] = "ImagePullBackOff"
    kube.ctl("create", "-f", "-", stdin=json.dumps(shown))

    end = alone.ended(order.uid)

    assert (end.cause, end.fault) == (Cause.START_FAILED, Blame.JOB)
    assert end.detail == "ImagePullBackOff: as its annotation says"
    alone.close()
