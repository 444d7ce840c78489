"""Names of settings that other setups use, and where they belong in ``rota.toml``.

Each one counts with the prefix ``ROTA_``. Without it most of them mean something to other programs
as well, so a plain name counts only where ``ROTA_PLAIN_NAMES=1`` says so.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The name -> section and key.
KEYS = {
    "DATABASE_URL": ("server", "database"),
    "SCHEDULING_POLICY": ("scheduling", "policy"),
    "CHECKPOINT_PATH": ("server", "checkpoint_path"),
    "INVENTORY_SERVICE_URL": ("server", "inventory_url"),
    "QUOTA_PROVIDER": ("scheduling", "quota_provider"),
    "K8S_QUOTA_NAMESPACE": ("quotas", "k8s_namespace"),
    "K8S_CREATE_RESOURCE_QUOTAS": ("quotas", "k8s_create"),
    "SLURM_ACCOUNT_PREFIX": ("quotas", "slurm_account_prefix"),
    "EXECUTOR_SLURM_REST_API_URL": ("quotas", "slurm_rest_url"),
    "EXECUTOR_SLURM_AUTH_TOKEN": ("quotas", "slurm_auth_token"),
}
#: Names of Rota's alone: no other program reads them, so they need no prefix.
UNMISTAKABLE = (
    *("SCHEDULING_POLICY", "QUOTA_PROVIDER", "K8S_QUOTA_NAMESPACE", "K8S_CREATE_RESOURCE_QUOTAS"),
    *("SLURM_ACCOUNT_PREFIX", "EXECUTOR_SLURM_REST_API_URL", "EXECUTOR_SLURM_AUTH_TOKEN"),
)
BUCKET = "CHECKPOINT_S3_BUCKET"
SWITCH = "ROTA_PLAIN_NAMES"


def settings_of(environment: Mapping[str, str], listen: str) -> list[tuple[str, str, str, str]]:
    """What these names set, as (variable, section, key, value).

    ``listen`` is the address of which HOST or PORT alone changes one half.
    """
    switch = environment.get(SWITCH, "")
    if switch not in ("", "0", "1"):
        raise Rejected(f"{SWITCH}: {switch!r} is not valid; expected 0 or 1")

    def given(name: str) -> tuple[str, str]:
        plain = (name,) if switch == "1" or name in UNMISTAKABLE else ()
        names = (f"ROTA_{name}", *plain)
        return next(((n, value) for n in names if (value := environment.get(n))), (name, ""))

    found = [(*given(name), *where) for name, where in KEYS.items()]
    variable, bucket = given(BUCKET)
    found.append((variable, bucket and f"s3://{bucket}", "checkpoints", "store"))
    (host_name, host), (port_name, port) = given("HOST"), given("PORT")
    address = _address(host, port, listen)
    found.append((f"{host_name}/{port_name}", address, "server", "listen"))
    return [(variable, section, key, value) for variable, value, section, key in found if value]


def _address(host: str, port: str, listen: str) -> str:
    """HOST and PORT. Shells and conda set HOST to other things, so alone it must be an address;
    Kubernetes sets ROTA_PORT to a URL where a service is called rota."""
    if "://" in port:
        port = ""
    if not port and not _is_address(host):
        return ""
    own_host, _, own_port = listen.strip().rpartition(":")
    host = f"[{host}]" if ":" in host else host
    return f"{host or own_host}:{port or own_port}"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
