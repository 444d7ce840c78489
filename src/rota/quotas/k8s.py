"""Quotas as ResourceQuota objects of a Kubernetes: ``project-ID`` in a namespace.

In a namespace that several projects share, every object binds the pods of all of them: that is how
Kubernetes counts. With ``{project}`` in its name each project has a namespace of its own.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec
from lightkube import Client
from lightkube.core.exceptions import ConfigError
from lightkube.resources.core_v1 import Namespace, ResourceQuota
from lightkube.types import PatchType

from rota.core.facts.resources import NOTHING, Amount
from rota.core.facts.tenant import UNLIMITED, Limits
from rota.kubeapi import credentials
from rota.kubeapi.quantity import number_of
from rota.kubeapi.words import SENSELESS, said, words
from rota.quotas.api import QuotaAway, QuotaRefused, SeenProject, SourceAnswer
from rota.settings.quotas import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import TypeVar

    from rota.settings.quotas import QuotaSettings

    T = TypeVar("T")

TIMEOUT_S = 10.0
ABSENT = 404
MIB, GIB = 1 << 20, 1024
#: The limits of pods are this many times their requests, for bursts.
BURST = 2
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,240}[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NOT_WRITTEN = "K8S_CREATE_RESOURCE_QUOTAS is off, so that Rota only reads what is set there"


class KubernetesQuotas:
    """Speaks to one API server."""

    name = "k8s"
    nested = False

    def __init__(self, settings: QuotaSettings) -> None:
        self._template = settings.k8s_namespace
        self._gpus = f"requests.{settings.k8s_gpu_resource}"
        self.writes = "" if settings.k8s_create else _NOT_WRITTEN
        self._config = credentials.find(
            "quota_provider k8s",
            settings.k8s_kubeconfig,
            settings.k8s_context,
            in_cluster=settings.k8s_in_cluster,
        )

    def read(self, projects: Collection[str]) -> SourceAnswer:
        seen, problems = dict[str, SeenProject](), dict[str, str]()
        with self._client() as client:
            if PROJECT not in self._template:
                there = _asked(lambda: self._listed(client, self._template))
                return SourceAnswer(
                    {name: self._seen(there.get(_object(name))) for name in projects}, {}
                )
            for name in sorted(projects):
                namespace = self._namespace(name)
                try:
                    # No object has a name that Kubernetes does not allow.
                    legal = _LABEL.fullmatch(namespace)
                    there = _asked(partial(self._listed, client, namespace)) if legal else {}
                    seen[name] = self._seen(there.get(_object(name)))
                except QuotaRefused as error:
                    problems[name] = str(error)
        return SourceAnswer(seen, problems)

    def as_kept(self, limits: Limits) -> Limits:
        """Kubernetes counts thousandths of CPUs and bytes, and whole devices."""
        devices = limits.device_milli
        return msgspec.structs.replace(
            limits, device_milli=None if devices is None else devices // 1000 * 1000
        )

    def make(self, projects: Mapping[str, str]) -> Collection[str]:
        """Where each project has a namespace of its own."""
        if PROJECT not in self._template:
            return ()
        legal = [name for name in projects if _LABEL.fullmatch(self._namespace(name))]
        with self._client() as client:
            return [name for name in legal if _make(client, self._namespace(name))]

    def write(self, project: str, parent: str, limits: Limits) -> None:
        name, namespace = _object(project), self._namespace(project)
        if not (_NAME.fullmatch(name) and _LABEL.fullmatch(namespace)):
            raise QuotaRefused(
                f"project {project!r} cannot be a name in Kubernetes; it allows a-z, 0-9 and -"
            )
        with self._client() as client:
            if PROJECT in self._template:
                _make(client, namespace)
            try:
                _asked(lambda: self._put(client, namespace, name, self.as_kept(limits)))
            except _Absent:
                raise QuotaRefused(f"there is no namespace {namespace}") from None

    def admit(self, users: Mapping[str, Collection[str]]) -> None:
        """Kubernetes does not ask which user a pod is of."""

    def is_held(self, detail: str) -> bool:
        """A pod counts from its creation on; one over quota was never created."""
        return "exceeded quota" in detail

    def _namespace(self, project: str) -> str:
        return self._template.replace(PROJECT, project)

    def _client(self) -> Client:
        return Client(self._config, timeout=httpx2.Timeout(TIMEOUT_S), trust_env=False)

    @staticmethod
    def _listed(client: Client, namespace: str) -> dict[str, ResourceQuota]:
        found = client.list(ResourceQuota, namespace=namespace)
        return {str(one.metadata.name): one for one in found if one.metadata is not None}

    def _seen(self, quota: ResourceQuota | None) -> SeenProject:
        if quota is None:
            return SeenProject(UNLIMITED, NOTHING)
        hard = (quota.spec.hard if quota.spec is not None else None) or {}
        used = (quota.status.used if quota.status is not None else None) or {}
        return SeenProject(limits_of(hard, self._gpus), amount_of(used, self._gpus))

    def _put(self, client: Client, namespace: str, name: str, limits: Limits) -> None:
        """What the site itself has set in the object beside ours stays."""
        hard = hard_of(limits, self._gpus)
        there = self._listed(client, namespace).get(name)
        if there is None and limits != UNLIMITED:
            kept = {key: amount for key, amount in hard.items() if amount is not None}
            labels = {"app.kubernetes.io/managed-by": "rota"}
            made = {"metadata": {"name": name, "labels": labels}, "spec": {"hard": kept}}
            client.create(msgspec.convert(made, ResourceQuota), namespace=namespace)
        elif there is not None:
            patch = {"spec": {"hard": hard}}
            client.patch(
                ResourceQuota, name, patch, namespace=namespace, patch_type=PatchType.MERGE
            )


def _make(client: Client, namespace: str) -> bool:
    """Whether there was none."""
    try:
        _asked(lambda: client.get(Namespace, namespace))
    except _Absent:
        made = msgspec.convert({"metadata": {"name": namespace}}, Namespace)
        _asked(lambda: client.create(made))
        return True
    return False


class _Absent(QuotaRefused):
    """There is no such namespace."""


def _asked(call: Callable[[], T]) -> T:
    try:
        return call()
    except httpx2.HTTPStatusError as error:
        code, text = error.response.status_code, " ".join(said(error).split())
        if code == ABSENT:
            raise _Absent(text) from None
        kind = QuotaAway if code in (401, 429) or code >= 500 else QuotaRefused
        raise kind(text or f"the API server answers {code}") from None
    except (httpx2.HTTPError, ConfigError, *SENSELESS) as error:
        raise QuotaAway(words(error)) from None


def _object(project: str) -> str:
    return f"project-{project}"


def hard_of(limits: Limits, gpus: str) -> dict[str, str | None]:
    """What stands in ``spec.hard``; None takes a key away. Of devices there are requests only."""
    cpu, memory, devices = limits.cpu_milli, limits.memory_mib, limits.device_milli
    return {
        "requests.cpu": None if cpu is None else _cpu(cpu),
        "requests.memory": None if memory is None else _memory(memory),
        "limits.cpu": None if cpu is None else _cpu(BURST * cpu),
        "limits.memory": None if memory is None else _memory(BURST * memory),
        gpus: None if devices is None else str(devices // 1000),
    }


def _cpu(milli: int) -> str:
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def _memory(mib: int) -> str:
    return f"{mib}Mi" if mib % GIB else f"{mib // GIB}Gi"


def limits_of(hard: Mapping[str, Any], gpus: str) -> Limits:
    """``cpu`` and ``memory`` alone mean requests, too; all that is there binds."""

    def lowest(size: float, *keys: str) -> int | None:
        found = [_number(hard[key]) / size for key in keys if key in hard]
        return int(min(found)) if found else None

    return Limits(
        cpu_milli=lowest(0.001, "requests.cpu", "cpu"),
        memory_mib=lowest(MIB, "requests.memory", "memory"),
        device_milli=lowest(0.001, gpus),
    )


def amount_of(used: Mapping[str, Any], gpus: str) -> Amount:
    def most(size: float, *keys: str) -> int:
        return round(max((_number(used[key]) / size for key in keys if key in used), default=0))

    return Amount(
        cpu_milli=most(0.001, "requests.cpu", "cpu"),
        memory_mib=most(MIB, "requests.memory", "memory"),
        device_milli=most(0.001, gpus),
    )


def _number(text: object) -> float:
    """``2000m``, ``1.5Gi``, ``512Mi``, ``64Ki``, ``3``."""
    return number_of(text)
