"""``--constraint``: features are labels that nodes must have."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.core.cluster import Cluster


def feature_words(text: str) -> list[str]:
    """``intel&ssd``; how many nodes of each is not Rota's affair."""
    parts = text.strip("[]()").split("&")
    return [word.partition("*")[0].strip() for word in parts if word.strip()]


def are_known(cluster: Cluster, words: list[str]) -> bool:
    """A feature that no node has is a typing error."""
    known = {label for node in cluster.nodes.values() for label in node.all_labels}
    for word in words:
        plain = word.lstrip("!").partition("=")[0]
        if not any(name in known for name in plain.split("|")):
            return False
    return True
