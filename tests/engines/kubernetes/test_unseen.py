"""What other Kubernetes say and do than the one that the tests can start: newer, older, busier."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from lightkube.config.kubeconfig import KubeConfig
from lightkube.config.models import Cluster, User
from lightkube.resources.core_v1 import Node, Pod

from rota.backends.api import EngineAway, EnginePhase, Full, Unsure
from rota.backends.kubernetes import driver as driver_module
from rota.backends.kubernetes.client import Api, version_of
from rota.backends.kubernetes.driver import Kubernetes
from rota.backends.kubernetes.machines import engine_nodes, requested
from rota.backends.kubernetes.mirror import Mirror
from rota.backends.kubernetes.settings import KubernetesSettings
from rota.backends.kubernetes.states import job_of
from rota.backends.orders import AttemptOrder, Key
from rota.core.facts.errors import Rejected
from rota.core.facts.states import Blame, Cause
from rota.kubeapi.credentials import find
from rota.kubeapi.quantity import number_of
from rota.rpc.messages import Launch

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = Key("c1", "a.1")
AT = "2026-01-01T00:00:{:02}Z"


def pod(*containers: dict[str, Any], meta: Any = None, **status: Any) -> Pod:
    told = {"image": "", "imageID": "", "ready": False, "restartCount": 0}
    status["containerStatuses"] = [told | one for one in containers]
    shown = {
        "metadata": {"name": "p", "creationTimestamp": AT.format(0), **(meta or {})},
        "spec": {"containers": [{"name": "job"}], "nodeName": "n1"},
        "status": {"phase": "Running", **status},
    }
    return msgspec.convert(shown, Pod, strict=False)


def ended(code: int, at: int = 9, name: str = "job") -> dict[str, Any]:
    times = {"startedAt": AT.format(1), "finishedAt": AT.format(at)}
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": "Error", **times}}}


BESIDE = {"name": "istio-proxy", "state": {"running": {"startedAt": AT.format(1)}}}


def disruption(reason: str, status: str = "True") -> dict[str, Any]:
    told = {"type": "DisruptionTarget", "status": status, "reason": reason}
    return {"conditions": [told | {"message": f"because of {reason}"}]}


def test_a_container_that_the_site_puts_beside_ours_is_not_taken_for_it():
    done = job_of(pod(BESIDE, ended(3)), KEY)
    failed_beside = job_of(
        pod(ended(1, name="a-sidecar"), {**BESIDE, "name": "job"}, phase="Running"), KEY
    )

    assert (done.phase, done.code) == (EnginePhase.ENDED, 3)
    assert failed_beside.phase is EnginePhase.RUNNING


@pytest.mark.parametrize("code", [0, 3, 143])
@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("PreemptionByScheduler", Cause.PREEMPTED),
        ("EvictionByEvictionAPI", Cause.NODE_LOST),
        ("TerminationByKubelet", Cause.NODE_LOST),
        ("DeletionByTaintManager", Cause.NODE_LOST),
    ],
)
def test_one_that_made_way_did_not_come_to_its_end_whatever_its_code(code, reason, cause):
    job = job_of(pod(ended(code), phase="Failed", **disruption(reason)), KEY)

    assert (job.cause, job.detail) == (cause, f"because of {reason}")


def test_one_that_should_have_made_way_and_was_spared_ended_by_itself():
    job = job_of(pod(ended(0), phase="Succeeded", **disruption("x", status="False")), KEY)

    assert (job.code, job.cause) == (0, None)


def test_an_evicted_pod_that_ends_well_when_it_is_told_to_has_not_done_its_work():
    job = job_of(pod(ended(0), phase="Failed", reason="Evicted", message="low on disk"), KEY)

    assert (job.cause, job.detail) == (Cause.NODE_LOST, "Evicted: low on disk")


@pytest.mark.parametrize(
    ("code", "finished", "cause"),
    [(143, 18, Cause.NODE_LOST), (137, 18, Cause.NODE_LOST), (3, 18, None), (3, 21, "lost")],
)
def test_the_clock_of_a_node_may_be_behind_that_of_the_server(code, finished, cause):
    """Its deletion was asked for at second 20."""
    deletion = {"deletionTimestamp": AT.format(30), "deletionGracePeriodSeconds": 10}

    job = job_of(pod(ended(code, at=finished), meta=deletion, phase="Failed"), KEY)

    assert job.cause == (Cause.NODE_LOST if cause == "lost" else cause)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2000m", 2.0),
        ("290m", 0.29),
        ("100u", 0.0001),
        ("5n", 5e-9),
        ("1E3", 1000.0),
        ("12e6", 12e6),
        ("1E", 1e18),
        ("1.5Gi", 1.5 * (1 << 30)),
        ("64Ki", 65536.0),
        ("1k", 1000.0),
        (".5", 0.5),
        ("+3", 3.0),
        (4, 4.0),
        ("128974848000m", 128974848.0),
        ("", 0.0),
        ("a lot", 0.0),
        ("1K", 0.0),
    ],
)
def test_every_amount_that_kubernetes_takes_is_read(text, number):
    assert number_of(text) == number


def holds(**spec: Any) -> tuple[int, int]:
    shown = {"spec": {"containers": [], **spec}, "status": {"phase": "Running"}}
    held = requested(msgspec.convert(shown, Pod, strict=False), "nvidia.com/gpu")
    return held.milli, held.size


def asks(cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


def test_what_stays_beside_a_container_holds_something_as_long_as_it():
    stays = asks("200m", restartPolicy="Always")

    assert holds(containers=[asks("1")], initContainers=[asks("3")]) == (3000, 0)
    assert holds(containers=[asks("1")], initContainers=[stays, asks("500m")]) == (1200, 0)
    assert holds(containers=[asks("1")], initContainers=[stays, asks("2")]) == (2200, 0)
    assert holds(containers=[asks("1")], initContainers=[asks("1100m"), stays]) == (1200, 0)


def test_what_a_pod_asks_for_as_a_whole_counts():
    whole = {"requests": {"cpu": "2"}, "limits": {"cpu": "4", "memory": "1Ki"}}

    assert holds(containers=[asks("1"), asks("100u")], resources=whole) == (2000, 1024)


def machine(**given: Any) -> Node:
    shown = {
        "metadata": {"name": "n1", "labels": given.get("labels", {})},
        "spec": {"taints": given.get("taints", [])},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return msgspec.convert(shown, Node, strict=False)


@pytest.mark.parametrize(
    ("key", "usable"),
    [
        ("node.kubernetes.io/disk-pressure", False),
        ("node.kubernetes.io/pid-pressure", False),
        ("node.kubernetes.io/network-unavailable", False),
        ("node.kubernetes.io/out-of-service", False),
        ("node.kubernetes.io/memory-pressure", True),
        ("node.kubernetes.io/unschedulable", True),
    ],
)
def test_a_machine_in_trouble_is_offered_only_if_pods_of_ours_may_go_there(key, usable):
    tainted = machine(taints=[{"key": key, "effect": "NoSchedule"}])

    (node,) = engine_nodes([tainted], [], "c1", KubernetesSettings(image="x"))

    assert node.usable is usable
    assert (key in node.detail) is not usable


@pytest.mark.parametrize(("label", "mib"), [("81559", 81559), ("80GiB", 0), ("", 0)])
def test_a_label_that_is_no_number_hides_no_machine(label, mib):
    labels = {"nvidia.com/gpu.memory": label}

    (node,) = engine_nodes([machine(labels=labels)], [], "c1", KubernetesSettings(image="x"))

    assert [device.memory_mib for device in node.spec.devices] == [mib]


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ({"major": "1", "minor": "27+", "gitVersion": "v1.27.3-gke.1"}, (1, 27)),
        ({"major": "", "minor": "", "gitVersion": "v1.11.0+d4cacc0"}, (1, 11)),
        ({"major": "1", "minor": "20"}, (1, 20)),
    ],
)
def test_the_version_of_a_server_is_read(told, version):
    assert version_of(told) == version


def test_a_server_that_does_not_say_its_version_is_no_answer():
    with pytest.raises(EngineAway, match="which version"):
        version_of({})


AS_JSON = {"Content-Type": "application/json"}


class Server(ThreadingHTTPServer):
    """An API server that answers by hand: lists of no pods, and what it is told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.asked: Counter[str] = Counter()
        #: Status, headers and body, by what is asked.
        self.says: dict[str, tuple[int, dict[str, str], bytes]] = {}


class Answers(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rpartition("/")[2]
        asked = "watch" if "watch=true" in self.path else path
        self._answer(asked)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        what = f"create {self.path.rpartition('/')[2]}"
        self._answer(what if what in self.server.says else "create")

    def do_DELETE(self) -> None:
        self._answer(f"delete {self.path.split('/')[-2]}")

    def _answer(self, asked: str) -> None:
        self.server.asked[asked] += 1
        usual = {"gitVersion": "v1.30.0", "metadata": {"resourceVersion": "1"}, "items": []}
        usual |= {"kind": "PodList", "apiVersion": "v1"}
        status, headers, body = self.server.says.get(asked, (200, {}, json.dumps(usual).encode()))
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing to be said."""


@contextmanager
def server() -> Iterator[Server]:
    with Server() as one:
        threading.Thread(target=one.serve_forever, daemon=True).start()
        yield one
        one.shutdown()


async def with_api(one: Server, use: Any) -> Any:
    url = f"http://127.0.0.1:{one.server_port}"
    config = KubeConfig.from_one(cluster=Cluster(server=url), user=User(token="x")).get()
    api = Api(config, "rota-jobs")
    await api.connect()
    try:
        return await use(api)
    finally:
        await api.close()


def refusal(code: int, message: str) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "message": message}).encode()


@pytest.mark.parametrize("says", [(403, {}, refusal(403, "you may not watch")), (200, {}, b"")])
def test_a_server_that_lets_nobody_watch_is_not_listed_all_the_time(says):
    async def use(api: Api) -> None:
        mirror = Mirror(api, {"rota/cluster": "c1"})
        until_s = time.monotonic() + 3.0
        while time.monotonic() < until_s:
            await mirror.pods()
            await mirror.changed(1.0)
        mirror.close()

    with server() as one:
        one.says["watch"] = says
        asyncio.run(with_api(one, use))

        assert 2 <= one.asked["pods"] <= 8


def test_a_server_that_is_asked_too_often_says_when_to_come_back():
    made = msgspec.convert({"metadata": {"name": "p"}}, Pod, strict=False)
    later = (429, {"Retry-After": "7", **AS_JSON}, refusal(429, "too many requests"))

    async def use(api: Api) -> None:
        with pytest.raises(Full, match="too many") as full:
            await api.create(made)
        with pytest.raises(EngineAway) as away:
            await api.pods({})
        assert (full.value.after_s, away.value.after_s) == (7.0, 7.0)

    with server() as one:
        one.says |= {"create": later, "pods": later}
        asyncio.run(with_api(one, use))


def test_a_list_whose_pages_have_expired_is_no_answer_and_not_a_shorter_one():
    async def use(api: Api) -> None:
        with pytest.raises(EngineAway, match="too old"):
            await api.unfinished()

    with server() as one:
        one.says["pods"] = (410, AS_JSON, refusal(410, "the continue token is too old"))
        asyncio.run(with_api(one, use))


SENSELESS = [
    (502, {}, b"no content type at all"),
    (503, {"Content-Type": "application/json"}, b"not JSON"),
    (503, {"Content-Type": "application/json"}, b'["not a status"]'),
    (200, {"Content-Type": "text/html"}, b"<html>please log in</html>"),
]


@pytest.mark.parametrize("says", SENSELESS)
def test_an_answer_of_something_that_stands_before_the_server_is_silence(says):
    made = msgspec.convert({"metadata": {"name": "p"}}, Pod, strict=False)

    async def use(api: Api) -> None:
        with pytest.raises(EngineAway):
            await api.pods({})
        with pytest.raises((EngineAway, Unsure)):
            await api.create(made)

    with server() as one:
        one.says |= {"create": says, "pods": says}
        asyncio.run(with_api(one, use))


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8"])
def test_a_pod_that_is_there_already_is_there_whatever_the_answer_is_called(kind):
    made = msgspec.convert({"metadata": {"name": "p"}}, Pod, strict=False)

    async def use(api: Api) -> bool:
        return await api.create(made)

    with server() as one:
        body = refusal(409, 'pods "p" already exists')
        one.says["create"] = (409, {"Content-Type": kind}, body)

        assert asyncio.run(with_api(one, use)) is False


def test_credentials_without_a_user_are_refused_in_one_line(tmp_path: Path):
    parts = {
        "clusters": "cluster: {server: 'http://127.0.0.1:1'}",
        "contexts": "context: {cluster: a}",
    }
    lines = [f"{part}: [{{name: a, {body}}}]" for part, body in parts.items()]
    (tmp_path / "config").write_text("\n".join([*lines, "current-context: a"]))

    with pytest.raises(Rejected, match="context a names no user"):
        find("kind kubernetes", str(tmp_path / "config"), "", in_cluster=False)


def test_the_secret_of_a_pod_that_was_never_made_does_not_stay(monkeypatch: pytest.MonkeyPatch):
    launch = Launch(uid="7.1", job=7, user="", argv=("true",), workdir="/", environment={})
    order = AttemptOrder(key=KEY, launch=launch)

    async def use(api: Api) -> list[int]:
        driver = Kubernetes(KubernetesSettings(image="i"), api)
        with pytest.raises(Unsure, match="timed out"):
            await driver.submit(order)
        deleted = []
        for seconds in (driver_module.UNHEARD_S, -1.0, -1.0):
            monkeypatch.setattr(driver_module, "UNHEARD_S", seconds)
            await driver.jobs()
            deleted.append(one.asked["delete secrets"])
        return deleted

    with server() as one:
        one.says["create pods"] = (500, AS_JSON, refusal(500, "etcdserver: request timed out"))

        assert asyncio.run(with_api(one, use)) == [0, 1, 1]


@pytest.mark.parametrize("body", ["", "x", "clusters: [{", "contexts: 7"])
def test_a_file_that_is_no_kubeconfig_is_refused_in_one_line(tmp_path: Path, body: str):
    (tmp_path / "config").write_text(body)

    with pytest.raises(Rejected, match="config is no kubeconfig"):
        find("kind kubernetes", str(tmp_path / "config"), "", in_cluster=False)


def test_an_image_that_is_not_there_is_the_fault_of_the_job_that_named_it():
    waiting = {"name": "job", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    notes = {"annotations": {"rota/hopeless": "ImagePullBackOff: no such image"}}
    deletion = {"deletionTimestamp": AT.format(30), "deletionGracePeriodSeconds": 0}

    job = job_of(pod(BESIDE, waiting, meta=notes | deletion, phase="Pending"), KEY)

    assert (job.cause, job.fault) == (Cause.START_FAILED, Blame.JOB)
