"""Where the credentials for a Kubernetes are: a file, the pod that Rota is in, or kubectl's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from lightkube.config.kubeconfig import SingleConfig


def find(what: str, kubeconfig: str, context: str, *, in_cluster: bool) -> SingleConfig:
    """What is missing is said now and not at the first request. ``what`` needs them."""
    try:
        from lightkube.config.kubeconfig import KubeConfig
        from lightkube.core.exceptions import ConfigError
    except ImportError:
        raise Rejected(f"{what} needs a library: pip install 'rota[kubernetes]'") from None
    try:
        if in_cluster:
            found = KubeConfig.from_service_account()
        elif kubeconfig:
            found = KubeConfig.from_file(os.path.expanduser(kubeconfig))
        else:
            found = KubeConfig.from_env()
        config = found.get(context or None)
    except ConfigError as error:
        raise Rejected(f"no credentials for Kubernetes: {error}") from None
    except Exception:  # The library reads any file as one, and breaks on it in its own ways.
        named = kubeconfig or "the file of kubectl"
        raise Rejected(f"no credentials for Kubernetes: {named} is no kubeconfig") from None
    if config is None:
        raise Rejected("no credentials for Kubernetes: kubeconfig names no context")
    if config.user is None:
        raise Rejected(
            f"no credentials for Kubernetes: context {config.context_name} names no user"
        )
    return config
