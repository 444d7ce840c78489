"""What ``[engines.NAME]`` says of a Kubernetes, checked."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
PLACEMENTS = ("ours", "theirs")
#: In the name of a namespace: each project has its own.
PROJECT = "{project}"


class Bears(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A taint of nodes that the pods bear; without a value any value, without a key every taint."""

    key: str = ""
    value: str = ""
    effect: str = ""

    def as_toleration(self) -> dict[str, str]:
        given = {"key": self.key, "value": self.value, "effect": self.effect}
        operator = "Equal" if self.value else "Exists"
        return {"operator": operator, **{name: text for name, text in given.items() if text}}


class Mount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A folder that every pod has: of its node, or of a claim in the namespace."""

    path: str
    host_path: str = ""
    claim: str = ""
    read_only: bool = False

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise ValueError(f"mounts.path: {self.path!r} is not valid; an absolute path")
        if bool(self.host_path) == bool(self.claim):
            raise ValueError(f"mounts {self.path}: either host_path or claim is needed")


class KubernetesSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials come from ``kubeconfig``, or with ``in_cluster`` from the pod that Rota is in.

    Without either they are looked for where kubectl looks.
    """

    kubeconfig: str = ""
    context: str = ""
    in_cluster: bool = False
    namespace: str = "rota-jobs"
    #: For jobs that name none. It needs /bin/sh and env.
    image: str = ""
    gpu_resource: str = "nvidia.com/gpu"
    node_selector: dict[str, str] = {}
    tolerations: tuple[Bears, ...] = ()
    priority_class: str = ""
    service_account: str = ""
    mounts: tuple[Mount, ...] = ()
    #: Below 0: as the image says.
    run_as_user: int = -1
    run_as_group: int = -1
    #: ``ours``: Rota names the node; ``theirs``: all nodes are one pool, Kubernetes chooses.
    placement: str = "ours"
    #: A container that cannot be made (no such image) is given up after so long.
    start_s: float = 30.0

    def __post_init__(self) -> None:
        if self.kubeconfig and self.in_cluster:
            raise ValueError("kubeconfig and in_cluster: only one of the two")
        if self.kubeconfig and not Path(self.kubeconfig).expanduser().is_file():
            raise ValueError(f"kubeconfig: there is no file {self.kubeconfig!r}")
        if not _LABEL.fullmatch(self.namespace.replace(PROJECT, "p")):
            allowed = f"up to 63 of a-z, 0-9 and -, and {PROJECT} for one of each project"
            raise ValueError(f"namespace: {self.namespace!r} is not valid; {allowed}")
        if self.placement not in PLACEMENTS:
            allowed = " or ".join(PLACEMENTS)
            raise ValueError(f"placement: {self.placement!r} is not valid; {allowed}")
        if self.start_s <= 0:
            raise ValueError(f"start_s: {self.start_s:g} is not valid; seconds above 0")

    def namespace_of(self, project: str) -> str:
        """Where pods of a project are made; empty: no namespace can have such a name."""
        if PROJECT not in self.namespace:
            return self.namespace
        name = self.namespace.replace(PROJECT, project)
        return name if project and _LABEL.fullmatch(name) else ""
