"""The sources of quotas by the names that ``QUOTA_PROVIDER`` has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from rota.quotas.api import QuotaSource
    from rota.settings.quotas import QuotaSettings


def open_source(provider: str, settings: QuotaSettings) -> QuotaSource | None:
    """None: Rota's own records are all there is. What is missing is refused in one line."""
    if provider == "slurm":
        from rota.quotas.slurm import SlurmQuotas

        return SlurmQuotas(settings)
    if provider == "k8s":
        try:
            from rota.quotas.k8s import KubernetesQuotas
        except ImportError:
            raise Rejected(
                "quota_provider k8s needs a library: pip install 'rota[kubernetes]'"
            ) from None
        return KubernetesQuotas(settings)
    return None
