"""From the settings to the driver; the library is imported only once credentials are found."""

from __future__ import annotations

from functools import partial

from rota.backends.api import Driver  # noqa: TC001 - the registry reads these types
from rota.backends.kubernetes.settings import KubernetesSettings  # noqa: TC001
from rota.kubeapi import credentials


def driver(settings: KubernetesSettings) -> Driver:
    """What the credentials lack is said now and not at the first job."""
    find = partial(
        credentials.find,
        *("kind kubernetes", settings.kubeconfig, settings.context),
        in_cluster=settings.in_cluster,
    )
    config = find()
    from rota.backends.kubernetes.client import Api
    from rota.backends.kubernetes.driver import Kubernetes

    return Kubernetes(settings, Api(config, settings.namespace, find))
