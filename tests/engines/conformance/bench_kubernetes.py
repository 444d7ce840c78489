"""A real Kubernetes behind a proxy that speaks TLS as its API server does."""

from __future__ import annotations

import json
import os
import secrets
import signal
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rota.backends.kubernetes.objects import CLUSTER, KEY
from tests.engines.conformance.bench import Inside
from tests.engines.conformance.bench_engine import GIVE_BACK_S, EngineBench
from tests.engines.conformance.bench_slurm import before_http
from tests.engines.conformance.proxy import HttpProxy
from tests.engines.conformance.scenarios import Power
from tests.engines.kubernetes.cluster import IMAGE, NAMESPACE
from tests.journeys.box import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.engines.kubernetes.cluster import Kube

PHASES = {"Pending": "waiting", "Running": "running"}
STATES = {"lost": "dead", "cut": "silent"}


class KubernetesBench(EngineBench):
    """Three machines of eight CPUs, whose containers are processes here."""

    name = "kubernetes"
    machines = ("fake-1", "fake-2", "fake-3")
    cpus = 8
    powers = frozenset(Power) - {Power.REQUEUE, Power.HOLD, Power.REUSE}

    def __init__(self, root: Path, kube: Kube) -> None:
        super().__init__(root)
        self.kube = kube
        config = json.loads(kube.config.read_text())
        cluster = config["clusters"][0]["cluster"]
        server, etc = urlsplit(cluster["server"]), kube.state / "etc"
        near = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        near.load_cert_chain(etc / "server.crt", etc / "server.key")
        far = ssl.create_default_context(cafile=cluster["certificate-authority"])
        host, port = server.hostname or "", server.port or 0
        self.proxy = HttpProxy(host, port, r"^POST .*/pods[ ?]", near, far)
        cluster["server"] = f"https://127.0.0.1:{self.proxy.begin()}"
        self._config = root / "kubeconfig"
        self._config.write_text(json.dumps(config))

    @property
    def table(self) -> dict[str, Any]:
        return {
            "kind": "kubernetes",
            "give_back_s": GIVE_BACK_S,
            "kubeconfig": str(self._config),
            "image": IMAGE,
        }

    def look_inside(self, uid: str) -> list[Inside]:
        pods = self.kube.show("pods")["items"]
        keys = [(pod["metadata"].get("annotations", {}).get(KEY, ""), pod) for pod in pods]
        return [
            Inside(
                pod["metadata"]["name"],
                PHASES.get(pod["status"]["phase"], "ended"),
                pod["spec"].get("nodeName", ""),
            )
            for key, pod in keys
            if key == uid or key.endswith(f":{uid}")
        ]

    def engine_fault(self, name: str, target: str) -> AbstractContextManager[None]:
        if name == "closed":
            return self._without_scheduler()
        if name in STATES:
            return self._in_state(target, STATES[name])
        if name == "full":
            return self._full()
        if name == "drained":
            return self._drained(target)
        if name == "cancelled":
            return self._deleted(target, "{}")
        if name == "purged":
            return self._deleted(target, '{"metadata": {"finalizers": null}}')
        if name == "preempting":
            return self._other(priorityClassName="urgent", affinity=only_on(target))
        if name == "stranger":
            return self._other(target)
        return before_http(self.proxy, name)

    @contextmanager
    def _without_scheduler(self) -> Iterator[None]:
        self._signal("scheduler", signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal("scheduler", signal.SIGCONT)

    @contextmanager
    def _in_state(self, machine: str, state: str) -> Iterator[None]:
        note = f"fake-node/state={state}"
        self.kube.ctl("annotate", "node", machine, note, "--overwrite")
        try:
            yield
        finally:
            self.kube.ctl("annotate", "node", machine, "fake-node/state-")
            until(lambda: self._ready(machine), f"{machine} to be ready")

    @contextmanager
    def _full(self) -> Iterator[None]:
        self.kube.quota(pods="0")
        try:
            yield
        finally:
            self.kube.no_quota()

    @contextmanager
    def _drained(self, machine: str) -> Iterator[None]:
        self.kube.ctl("cordon", machine)
        try:
            yield
        finally:
            self.kube.ctl("uncordon", machine)

    @contextmanager
    def _deleted(self, pod: str, patch: str) -> Iterator[None]:
        self.kube.ctl("-n", NAMESPACE, "patch", "pod", pod, "--type", "merge", "-p", patch)
        self.kube.ctl("-n", NAMESPACE, "delete", "pod", pod, "--wait=false")
        yield

    @contextmanager
    def _other(self, key: str = "", **spec: Any) -> Iterator[None]:
        """A pod of somebody who has never heard of Rota, once it runs."""
        needs = {"requests": {"cpu": str(self.cpus - 1) if spec else "100m"}}
        container = {"name": "x", "image": IMAGE, "command": ["sleep", "300"], "resources": needs}
        name = f"other-{secrets.token_hex(4)}"
        meta = {"name": name, "labels": {CLUSTER: self.cluster}, "annotations": {KEY: key}}
        spec |= {"containers": [container], "terminationGracePeriodSeconds": 1}
        urgent = {"metadata": {"name": "urgent"}, "value": 1000}
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        for thing in (kind | urgent, pod):
            self.kube.ctl("-n", NAMESPACE, "apply", "-f", "-", stdin=json.dumps(thing))
        try:
            until(lambda: self.kube.show("pod", name)["status"]["phase"] == "Running", "the other")
            yield
        finally:
            self.kube.ctl("-n", NAMESPACE, "delete", "pod", name, "--wait=false")

    def _ready(self, machine: str) -> bool:
        node = json.loads(self.kube.ctl("get", "node", machine, "-o", "json"))
        ready = [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"]
        return ready == ["True"] and not node["spec"].get("taints")

    def _signal(self, part: str, number: int) -> None:
        handle = os.pidfd_open(int((self.kube.state / f"run/{part}.pid").read_text().split()[0]))
        signal.pidfd_send_signal(handle, number)
        os.close(handle)

    def revive(self) -> None:
        self._signal("apiserver", signal.SIGKILL)
        self.kube.start()

    def close(self) -> None:
        super().close()
        self.proxy.close()


def only_on(machine: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [machine]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


class KubeletBench(KubernetesBench):
    """One real node, whose containers see of this machine the folder of the tests alone."""

    name = "kubelet"
    machines = ("localhost",)
    drops_codes = True

    @property
    def table(self) -> dict[str, Any]:
        folder = str(self.root)
        return super().table | {"mounts": [{"path": folder, "host_path": folder}]}

    def wishes(self, fields: dict[str, Any]) -> dict[str, Any]:
        """It has no more processors than this machine."""
        return {**super().wishes(fields), "resources": {"cpus": 0.25}}
