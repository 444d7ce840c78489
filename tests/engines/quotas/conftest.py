"""Rota beside a real Slurm, or a real Kubernetes, that has the quotas of its projects."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.engines.kubernetes.cluster import IMAGE, NAMESPACE
from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engines.kubernetes.cluster import Kube
    from tests.engines.slurm.site import Site


class QuotaSite:
    """A controller with one engine; ``project`` is new in each test."""

    def __init__(self, root: Path, provider: str, engine: dict[str, Any], nodes: int) -> None:
        self.box = Box(root / "box")
        self.project = f"p{uuid4().hex[:8]}"
        self._nodes = nodes
        lines = [f"{key} = {value!r}" for key, value in engine.items()]
        toml = root / "rota.toml"
        toml.write_text("\n".join(["[engines.lab]", *lines, ""]))
        self.box.env |= {
            "ROTA_CONFIG": str(toml),
            "QUOTA_PROVIDER": provider,
            "ROTA_QUOTAS_POLL_S": "1",
        }

    def up(self) -> None:
        self.box.up("--no-agent")
        until(self._is_up, "the nodes of the engine")

    def _is_up(self) -> bool:
        _, page = self.box.api("GET", "/nodes")
        return [node["state"] for node in page["items"]].count("up") == self._nodes

    def quota(self, **limits: Any) -> dict[str, Any]:
        """Set through Rota, as other tools do."""
        status, answer = self.box.api("PATCH", f"/queues/quota/{self.project}", limits)
        assert status == 200, answer
        return dict(answer)

    def shown(self) -> dict[str, Any]:
        status, answer = self.box.api("GET", f"/queues/quota/{self.project}")
        assert status == 200, answer
        return dict(answer)

    def synced(self) -> dict[str, Any]:
        status, answer = self.box.api("POST", f"/queues/quota/{self.project}/sync")
        assert status == 200, answer
        return dict(answer)

    def job(self, cpus: float, *command: str) -> int:
        resources = {"cpus": cpus, "memory_mb": 64}
        return self.box.job([*command], project=self.project, resources=resources)


class SlurmSite(QuotaSite):
    """``way`` is how Rota asks for quotas; jobs go in by Slurm's commands."""

    def __init__(self, root: Path, slurm: Site, way: str) -> None:
        engine = {"kind": "slurm", "folder": str(slurm.folder), "poll_s": 0.2}
        super().__init__(root, "slurm", engine, nodes=3)
        self.slurm, self.way = slurm, way
        #: Why Slurm holds a job back.
        self.reason = "AssocGrpCpuLimit" if way == "commands" else "QOSGrpCpuLimit"
        if way == "rest":
            token = (slurm.state / "tokens/root").read_text().strip()
            self.box.env |= {
                "EXECUTOR_SLURM_REST_API_URL": slurm.variables["SLURM_REST_URL"],
                "ROTA_EXECUTOR_SLURM_AUTH_TOKEN": token,
            }

    @property
    def account(self) -> str:
        return f"project-{self.project}"

    def limits(self) -> str:
        """GrpTRES of the account, or of its QOS, as Slurm's accounting has it."""
        what = ("assoc", f"account={self.account}", "user=")
        if self.way == "rest":
            what = ("qos", self.account, "")
        return self.slurm.run("sacctmgr", "-nP", "show", *filter(None, what), "format=GrpTRES")

    def change(self, tres: str) -> None:
        """As the site's own people do."""
        what = "account" if self.way == "commands" else "qos"
        words = ("modify", what, self.account, "set", f"GrpTRES={tres}")
        self.slurm.run("sacctmgr", "-i", *words)

    def sbatch(self, cpus: int, command: str) -> str:
        """A job of the account that Rota knows nothing of."""
        words = (f"--account={self.account}", f"--ntasks={cpus}", "--mem=64", "--output=/dev/null")
        return self.slurm.run("sbatch", "--parsable", *words, f"--wrap={command}")

    def told(self, job: str, what: str = "%T %r") -> str:
        return self.slurm.run("squeue", "-h", "-t", "all", "-j", job, "-o", what)

    def stop(self, *daemons: str) -> None:
        """Kill daemons of Slurm; ``slurm.start()`` brings them back."""
        for name in daemons:
            pid = int((self.slurm.state / "run" / f"{name}.pid").read_text().split()[0])
            os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: not _lives(pid), f"the end of {name}")


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


@pytest.fixture(params=["commands", "rest"])
def slurm_site(request: pytest.FixtureRequest, slurm: Site, tmp_path: Path) -> Iterator[SlurmSite]:
    site = SlurmSite(tmp_path, slurm, request.param)
    site.up()
    yield site
    slurm.start()
    site.box.down("--stop-jobs")


class KubeSite(QuotaSite):
    def __init__(self, root: Path, kube: Kube) -> None:
        engine = {"kind": "kubernetes", "kubeconfig": str(kube.config), "image": IMAGE}
        super().__init__(root, "k8s", engine, nodes=3)
        self.kube = kube
        self.box.env |= {
            "K8S_QUOTA_NAMESPACE": NAMESPACE,
            "K8S_CREATE_RESOURCE_QUOTAS": "true",
            "ROTA_QUOTAS_K8S_KUBECONFIG": str(kube.config),
        }

    def in_namespaces(self, template: str) -> None:
        """One for each project, which takes the rights of an admin."""
        self.box.env |= {
            "K8S_QUOTA_NAMESPACE": template,
            "ROTA_QUOTAS_K8S_KUBECONFIG": self.kube.admin,
        }
        toml = Path(self.box.env["ROTA_CONFIG"])
        toml.write_text(toml.read_text().replace(str(self.kube.config), self.kube.admin))

    def pod(self, cpus: str) -> str:
        """One that Rota knows nothing of; why it was refused, or nothing."""
        amounts = {"cpu": cpus, "memory": "64Mi"}
        container = {
            "name": "c",
            "image": IMAGE,
            "command": ["sleep", "600"],
            "resources": {"requests": amounts, "limits": amounts},
        }
        name, labels = f"foreign-{uuid4().hex[:8]}", {"foreign": "yes"}
        meta = {"name": name, "namespace": NAMESPACE, "labels": labels}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
        spec = {"containers": [container], "restartPolicy": "Never"}
        return self.kube.refusal("create", "-f", "-", stdin=json.dumps({**pod, "spec": spec}))

    def object(self) -> dict[str, Any]:
        return dict(self.kube.show("resourcequota", f"project-{self.project}"))


@pytest.fixture
def kube_site(kube: Kube, tmp_path: Path) -> Iterator[KubeSite]:
    site = KubeSite(tmp_path, kube)
    site.up()
    yield site
    site.box.down("--stop-jobs")
    kube.ctl("-n", NAMESPACE, "delete", "resourcequota", "--all")
    kube.ctl("-n", NAMESPACE, "delete", "pod", "-l", "foreign=yes", "--grace-period=1")
