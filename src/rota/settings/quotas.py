"""[quotas]: where quotas of projects are, when another program than Rota enforces them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from rota.settings.checks import at_least

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Names of ``scheduling.quota_provider``; anything else is refused at start.
PROVIDERS = ("local", "k8s", "slurm")
PROJECT = "{project}"
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9_.-]*")
_URLS = ("http://", "https://", "unix:/")


class QuotaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[quotas]."""

    #: How often the provider is asked, in seconds.
    poll_s: int = 15
    #: Namespace of the ResourceQuota objects; with ``{project}`` in it each project has its own.
    k8s_namespace: str = "rota-jobs"
    #: Whether Rota writes them; otherwise it only reads what the site has set.
    k8s_create: bool = False
    #: Credentials as for an engine; empty: where kubectl looks.
    k8s_kubeconfig: str = ""
    k8s_context: str = ""
    k8s_in_cluster: bool = False
    #: What a GPU is called there.
    k8s_gpu_resource: str = "nvidia.com/gpu"
    #: Before the name of a project: its account in Slurm.
    slurm_account_prefix: str = "project-"
    #: Of slurmrestd; empty: ``scontrol`` and ``sacctmgr`` are called.
    slurm_rest_url: str = ""
    #: The token for it, or a file with one, and the user of the token.
    slurm_auth_token: str = ""
    slurm_token_file: str = ""
    slurm_rest_user: str = "root"
    #: The cluster of it, where its slurmdbd has several.
    slurm_cluster: str = ""


def check_namespace(text: str) -> None:
    if not _NAMESPACE.fullmatch(text.replace(PROJECT, "p")):
        raise ValueError(
            f"{text!r} is not valid; expected up to 63 of a-z, 0-9 and -, with {PROJECT} in it "
            "where each project has its own"
        )


def check_prefix(text: str) -> None:
    if not _PREFIX.fullmatch(text):
        raise ValueError(f"{text!r} is not valid; expected a-z, 0-9, _, . and -")


def check_rest_url(text: str) -> None:
    if text and not text.startswith(_URLS):
        raise ValueError(f"{text!r} is not valid; expected {', '.join(_URLS)}")


def at_home(
    provider: str, settings: QuotaSettings, engines: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Tables of engines: jobs run where their quota is, unless a table says otherwise."""
    homes: dict[str, tuple[str, dict[str, Any]]] = {
        "slurm": ("slurm", {"account_prefix": settings.slurm_account_prefix}),
        "k8s": ("kubernetes", {"namespace": settings.k8s_namespace}),
    }
    kind, home = homes.get(provider, ("", {}))
    return {
        name: home | table if table.get("kind") == kind else table
        for name, table in engines.items()
    }


#: Setting -> what refuses a bad value of it.
CHECKS: dict[str, Callable[[Any], object]] = {
    "quotas.poll_s": at_least(1),
    "quotas.k8s_namespace": check_namespace,
    "quotas.slurm_account_prefix": check_prefix,
    "quotas.slurm_rest_url": check_rest_url,
}
