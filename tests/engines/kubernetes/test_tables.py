"""What the driver makes of pods, nodes, answers and settings, without a cluster."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lightkube.resources.core_v1 import Node, Pod

from rota.backends.api import (
    EngineAway,
    EngineError,
    EngineJob,
    EnginePhase,
    EngineRefused,
    Full,
    Unsure,
)
from rota.backends.kubernetes.answers import refusal, trouble
from rota.backends.kubernetes.client import change_of, without_excuse
from rota.backends.kubernetes.machines import engine_nodes
from rota.backends.kubernetes.objects import build, name_of
from rota.backends.kubernetes.script import shell_text
from rota.backends.kubernetes.settings import Bears, KubernetesSettings, Mount
from rota.backends.kubernetes.states import is_hopeless, is_overdue, job_of
from rota.backends.orders import AttemptOrder, Key
from rota.backends.registry import make
from rota.core.facts.errors import Rejected
from rota.core.facts.states import Blame, Cause
from rota.rpc.messages import Launch

KEY = Key("c1", "a.1")
AT = "2026-01-01T00:00:{:02}Z"
START_S = 1767225600.0


def pod(
    state: dict[str, Any] | None = None, node: str = "n1", meta: Any = None, **status: Any
) -> Pod:
    """A pod with one container in this state."""
    if state is not None:
        told = {"name": "job", "image": "", "imageID": "", "ready": False, "restartCount": 0}
        status["containerStatuses"] = [{**told, "state": state}]
    return msgspec.convert(
        {
            "metadata": {"name": "p", "creationTimestamp": AT.format(0), **(meta or {})},
            "spec": {"containers": [{"name": "job"}], "nodeName": node or None},
            "status": {"phase": "Pending", **status},
        },
        Pod,
        strict=False,
    )


def terminated(code: int, reason: str = "Error") -> dict[str, Any]:
    times = {"startedAt": AT.format(1), "finishedAt": AT.format(9)}
    return {"terminated": {"exitCode": code, "reason": reason, **times}}


def deleted(at: int, grace: int) -> dict[str, Any]:
    """Somebody asked at this second: the timestamp is that of the grace's end."""
    return {"deletionTimestamp": AT.format(at + grace), "deletionGracePeriodSeconds": grace}


RUNNING = {"running": {"startedAt": AT.format(1)}}
DELETED = "the pod was deleted in Kubernetes"
ENDS = {
    "exit 0": (pod(terminated(0), phase="Succeeded"), {"code": 0}),
    "exit 3": (pod(terminated(3), phase="Failed"), {"code": 3}),
    "exit 255": (pod(terminated(255), phase="Failed"), {"code": 255}),
    "signal 9": (pod(terminated(137), phase="Failed"), {"signal": 9}),
    "out of memory": (
        pod(terminated(137, "OOMKilled"), phase="Failed"),
        {"signal": 9, "cause": Cause.OUT_OF_MEMORY, "detail": "OOMKilled"},
    ),
    "start error": (
        pod(terminated(128, "StartError"), phase="Failed"),
        {"cause": Cause.START_FAILED, "fault": Blame.JOB, "detail": "StartError", "started_s": 0.0},
    ),
    "deadline": (
        pod(terminated(137), phase="Failed", reason="DeadlineExceeded", message="too long"),
        {"signal": 9, "cause": Cause.TIME_LIMIT, "detail": "too long"},
    ),
    "ended by deletion": (
        pod(terminated(143), phase="Failed", meta=deleted(at=5, grace=30)),
        {"signal": 15, "cause": Cause.NODE_LOST, "detail": DELETED},
    ),
    "done in spite of deletion": (
        pod(terminated(0), phase="Succeeded", meta=deleted(at=5, grace=30)),
        {"code": 0},
    ),
    "deleted after its end": (
        pod(terminated(3), phase="Failed", meta=deleted(at=20, grace=0)),
        {"code": 3},
    ),
}
#: What a kubelet makes up for a container that it does not find any more: no times, and a code.
MADE_UP = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
NO_STATUS = {
    "the node came back without it": (
        pod(MADE_UP, phase="Failed", reason="NodeLost", startTime=AT.format(1)),
        {"cause": Cause.NODE_LOST, "detail": "NodeLost", "signal": 0, "started_s": START_S + 1},
    ),
    "deleted, and its kubelet has made up how it ended": (
        pod(MADE_UP, phase="Running", startTime=AT.format(1), meta=deleted(at=5, grace=30)),
        {"cause": Cause.NODE_LOST, "detail": DELETED, "signal": 0, "started_s": START_S + 1},
    ),
    "evicted": (
        pod(phase="Failed", reason="Evicted", message="low on disk"),
        {"cause": Cause.NODE_LOST, "detail": "Evicted: low on disk"},
    ),
    "deleted, and its kubelet has dropped the container": (
        pod(phase="Failed", startTime=AT.format(1), meta=deleted(at=5, grace=0)),
        {"cause": Cause.NODE_LOST, "detail": DELETED, "started_s": START_S + 1},
    ),
    "not taken by its node": (
        pod(phase="Failed", reason="OutOfcpu", message="no"),
        {
            "cause": Cause.START_FAILED,
            "fault": Blame.NODE,
            "detail": "OutOfcpu: no",
            "started_s": 0.0,
        },
    ),
    "taken out before it had a node": (
        pod(node="", meta=deleted(at=5, grace=0)),
        {
            "cause": Cause.START_FAILED,
            "fault": Blame.NODE,
            "detail": f"{DELETED} before it was started",
        },
    ),
    "given up for its image": (
        pod(
            {"waiting": {"reason": "ErrImagePull"}},
            meta={**deleted(at=5, grace=0), "annotations": {"rota/hopeless": "ErrImagePull: no"}},
        ),
        {"cause": Cause.START_FAILED, "fault": Blame.JOB, "detail": "ErrImagePull: no"},
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_a_container(name: str):
    shown, expected = ENDS[name]
    times = {"started_s": START_S + 1, "ended_s": START_S + 9}

    assert job_of(shown, KEY) == EngineJob(
        uid="a.1",
        id="p",
        node="n1",
        phase=EnginePhase.ENDED,
        submitted_s=START_S,
        **(times | expected),
    )


@pytest.mark.parametrize("name", NO_STATUS)
def test_the_end_of_a_pod_that_has_no_ended_container(name: str):
    shown, expected = NO_STATUS[name]

    job = job_of(shown, KEY)

    assert (job.phase, job.code) == (EnginePhase.ENDED, None)
    assert {field: getattr(job, field) for field in expected} == expected


def test_lines_of_a_watch_move_its_version_on_or_ask_for_a_new_list():
    body = '{"metadata": {"name": "p", "resourceVersion": "7"}, "spec": {"containers": []}}'
    mark = '{"metadata": {"resourceVersion": "9"}, "spec": {"containers": null}}'
    status = '{"kind": "Status", "code": 410, "message": "too old resource version: 1 (9)"}'

    changed = change_of(f'{{"type": "MODIFIED", "object": {body}}}')
    gone = change_of(f'{{"type": "DELETED", "object": {body}}}')
    marked = change_of(f'{{"type": "BOOKMARK", "object": {mark}}}')

    assert (changed.version, changed.gone, gone.gone) == ("7", False, True)
    assert (marked.version, marked.pod) == ("9", None)
    with pytest.raises(EngineAway, match="too old resource version"):
        change_of(f'{{"type": "ERROR", "object": {status}}}')


def test_what_a_kubelet_says_of_a_container_that_it_removed_is_no_output():
    gone = b"unable to retrieve container logs for containerd://a44c"
    cut = b'ready\nsaved\nrpc error: code = NotFound desc = an error occurred "b6": not found'
    own = b"rpc error: code = 5\nretrying\n"

    assert [without_excuse(body) for body in (gone, cut, own)] == [b"", b"ready\nsaved\n", own]


def test_a_running_pod_runs_until_its_node_is_lost_or_lets_go():
    plain, going = pod(RUNNING, phase="Running"), pod(RUNNING, meta=deleted(at=5, grace=30))
    forced = pod(RUNNING, phase="Running", meta=deleted(at=5, grace=0))

    assert [job_of(p, KEY).phase for p in (plain, going)] == [EnginePhase.RUNNING] * 2
    assert job_of(plain, KEY, {"n1"}).phase is EnginePhase.RUNNING
    assert job_of(plain, KEY).started_s == START_S + 1
    for lost in (job_of(going, KEY, {"n1"}), job_of(forced, KEY)):
        assert (lost.phase, lost.cause) == (EnginePhase.ENDED, Cause.NODE_LOST)
        assert lost.started_s == START_S + 1


def test_a_pod_that_waits_says_why_in_the_words_of_kubernetes():
    full = "0/3 nodes are available: 3 Insufficient cpu."
    nowhere = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}

    reasons = [
        job_of(shown, KEY).reason
        for shown in (
            pod(node="", conditions=[{**nowhere, "message": full}]),
            pod(waiting),
            pod({"waiting": {"reason": "ContainerCreating"}}),
            pod(),
        )
    ]

    going = "on its way to node n1"
    assert reasons == [full, "ErrImagePull: no such image", "ContainerCreating", going]


def test_a_container_that_cannot_be_made_is_given_up_once():
    waiting = {"waiting": {"reason": "ImagePullBackOff"}}
    hopeless, going = pod(waiting), pod(waiting, meta=deleted(at=5, grace=1))
    creating = pod({"waiting": {"reason": "ContainerCreating"}})

    assert is_hopeless(hopeless) == "ImagePullBackOff"
    assert not is_hopeless(going)
    assert not is_hopeless(creating)


def test_a_pod_is_overdue_when_its_grace_has_passed():
    going = pod(RUNNING, meta=deleted(at=5, grace=10))

    assert not is_overdue(going, START_S + 17, 3.0)
    assert is_overdue(going, START_S + 19, 3.0)
    assert not is_overdue(pod(RUNNING), START_S + 99, 3.0)


@pytest.mark.parametrize(
    ("code", "words", "kind", "fault"),
    [
        (403, 'pods "p" is forbidden: exceeded quota: small, requested: pods=1', Full, None),
        (403, "error looking up service account rota-jobs/default", Full, None),
        (429, "too many requests", Full, None),
        (403, 'User "x" cannot create resource "pods"', EngineRefused, Blame.NODE),
        (404, 'namespaces "rota-jobs" not found', EngineRefused, Blame.NODE),
        (
            403,
            "forbidden: maximum cpu usage per Container is 1, but limit is 2",
            EngineRefused,
            Blame.JOB,
        ),
        (400, 'admission webhook "x" denied the request: no', EngineRefused, Blame.JOB),
        (422, "Pod is invalid", EngineRefused, Blame.JOB),
        (401, "Unauthorized", EngineAway, None),
        (500, "etcdserver: request timed out", Unsure, None),
        (500, 'Internal error occurred: failed calling webhook "a.b": EOF', Full, None),
        (504, "", Unsure, None),
    ],
)
def test_why_a_pod_was_not_made(
    code: int, words: str, kind: type[EngineError], fault: Blame | None
):
    error = refusal(code, words)

    assert type(error) is kind
    assert getattr(error, "fault", None) == fault
    assert str(error) == (words or "the API server answers 504")


def test_other_requests_are_tried_again_unless_they_are_forbidden():
    kinds = [type(trouble(code, "")) for code in (401, 429, 500, 503, 403)]

    assert kinds == [EngineAway, EngineAway, EngineAway, EngineAway, EngineRefused]


def order(**launch: Any) -> AttemptOrder:
    fields = {"argv": ("true",), "workdir": "/tmp", "environment": {"A": "1"}, **launch}
    return AttemptOrder(
        key=KEY, launch=Launch(uid="a.1", job=1, user="", **fields), time_limit_s=60
    )


def test_a_pod_is_never_started_again_and_carries_its_key_and_its_bounds():
    settings = KubernetesSettings(
        image="i",
        priority_class="low",
        run_as_user=1000,
        tolerations=(Bears(key="gpu"),),
        mounts=(Mount(path="/data", claim="c"),),
    )
    asked = order(cpu_milli=1500, memory_mib=64, grace_s=7.5, devices=(0, 1))
    secret, made = build(msgspec.structs.replace(asked, node="n1", gpus=2), settings)

    shown = made.to_dict()
    spec, meta = shown["spec"], shown["metadata"]
    assert secret.metadata.name == meta["name"] == name_of(KEY)
    assert meta["labels"]["rota/cluster"] == "c1"
    assert (meta["labels"]["rota/uid"], meta["annotations"]["rota/key"]) == ("a.1", "rota:c1:a.1")
    assert spec["restartPolicy"] == "Never"
    assert (spec["terminationGracePeriodSeconds"], spec["activeDeadlineSeconds"]) == (8, 668)
    amounts = {"cpu": "1500m", "memory": "64Mi", "nvidia.com/gpu": "2"}
    assert spec["containers"][0]["resources"] == {"limits": amounts, "requests": amounts}
    assert spec["tolerations"] == [{"operator": "Exists", "key": "gpu"}]
    assert (spec["priorityClassName"], spec["securityContext"]) == ("low", {"runAsUser": 1000})
    assert spec["volumes"] == [{"name": "m0", "persistentVolumeClaim": {"claimName": "c"}}]


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        ({"terminal": True}, "a terminal"),
        ({"bundle": "x"}, "a bundle"),
        ({"ports": ("web",)}, "named ports"),
        ({"ulimits": {"nofile": 5}}, "ulimit"),
        ({}, "image: the job names none"),
    ],
)
def test_what_a_pod_cannot_have_is_refused_in_a_line(launch: dict[str, Any], words: str):
    image = "" if not launch else "i"

    with pytest.raises(EngineRefused, match=words) as refused:
        build(order(**launch), KubernetesSettings(image=image))

    assert refused.value.fault is Blame.JOB


def test_a_large_environment_travels_as_a_file():
    large = order(environment={f"V{number}": "x" * 1000 for number in range(200)})

    _, made = build(large, KubernetesSettings(image="i"))

    assert made.to_dict()["spec"]["containers"][0]["command"] == ["/bin/sh", "/rota/run"]


def test_the_shell_text_redirects_output_into_folders_that_it_makes(tmp_path: Path):
    out, err = tmp_path / "new dir" / "out", tmp_path / "err"
    launch = order(
        argv=("sh", "-c", "echo 1; echo 2 >&2"),
        environment={"PATH": "/usr/bin:/bin"},
        stdout=str(out),
        stderr=str(err),
        outputs="truncate",
    ).launch

    subprocess.run(["/bin/sh", "-c", shell_text(launch)], check=True)

    assert (out.read_text(), err.read_text()) == ("1\n", "2\n")


def node(name: str, ready: str = "True", **spec: Any) -> Node:
    has = {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}
    conditions = [{"type": "Ready", "status": ready, "message": "kubelet is silent"}]
    labels = {"nvidia.com/gpu.product": "A100", "nvidia.com/gpu.memory": "40960"}
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"allocatable": has, "conditions": conditions},
        },
        Node,
    )


def test_machines_out_of_service_say_why_and_a_pool_leaves_them_out():
    taint = {"key": "team", "value": "x", "effect": "NoSchedule"}
    machines = [
        node("a"),
        node("b", ready="Unknown"),
        node("c", unschedulable=True),
        node("d", taints=[taint]),
    ]

    ours = engine_nodes(machines, [], "c1", KubernetesSettings())
    borne = KubernetesSettings(placement="theirs", tolerations=(Bears(key="team"),))
    (pool,) = engine_nodes(machines, [], "c1", borne)

    assert [each.detail for each in ours] == [
        "",
        "NotReady: kubelet is silent",
        "cordoned (unschedulable)",
        "taint team=x:NoSchedule",
    ]
    assert (ours[0].spec.devices[1].model, ours[0].spec.devices[1].memory_mib) == ("A100", 40960)
    assert (pool.pool, pool.spec.cpu_milli, pool.spec.memory_mib) == (True, 8000, 16384)
    assert len(pool.spec.devices) == 4


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"kubeconfig": "/no/file"}, "kubeconfig: there is no file '/no/file'"),
        ({"namespace": "A b"}, "namespace: 'A b' is not valid; up to 63 of a-z, 0-9 and -"),
        ({"placement": "mine"}, "placement: 'mine' is not valid; ours or theirs"),
        ({"kubeconfig": __file__, "in_cluster": True}, "only one of the two"),
        ({"start_s": 0}, "start_s: 0 is not valid; seconds above 0"),
        ({"run_as_user": "root"}, "Expected `int`, got `str` - at `$.run_as_user`"),
        ({"mounts": [{"path": "/x"}]}, "mounts /x: either host_path or claim is needed"),
        ({"imagee": "x"}, "unknown key engines.lab.imagee; did you mean image?"),
    ],
)
def test_a_bad_setting_is_named_in_one_line(table: dict[str, Any], words: str):
    with pytest.raises(Rejected) as rejected:
        make("lab", {"kind": "kubernetes", **table})

    assert words in str(rejected.value)
    assert "engines.lab" in str(rejected.value)


def test_credentials_without_the_context_are_refused_at_once(tmp_path: Path):
    config = tmp_path / "config"
    config.write_text("{clusters: [], contexts: [], users: [], current-context: a}")

    with pytest.raises(Rejected, match="Context 'b' not found"):
        make("lab", {"kind": "kubernetes", "kubeconfig": str(config), "context": "b"})
