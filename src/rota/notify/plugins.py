"""Notifiers of one's own: found as ``package.module:Name`` or among the ``rota.notifiers``."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, cast

from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from rota.notify.channels import Notifier
    from rota.settings.notify import PluginRule

GROUP = "rota.notifiers"
#: Notifiers that come with Rota.
OWN = {"tracker": "rota.notify.tracker:Tracker"}


class _Plain:
    """A plain function as a notifier."""

    def __init__(self, function: Any) -> None:  # noqa: ANN401 - anything that can be called
        self.send = function


def load_notifier(rule: PluginRule) -> Notifier:
    """The notifier behind a rule; ``Rejected`` says why there is none."""
    known = OWN | {entry.name: entry.value for entry in entry_points(group=GROUP)}
    place = known.get(rule.use, rule.use)
    module, colon, path = place.partition(":")
    if not colon:
        listed = ", ".join(sorted(known)) or "none"
        raise Rejected.bad(
            "notify.plugins", rule.use, f"expected package.module:Name or installed: {listed}"
        )
    try:
        found: Any = importlib.import_module(module.strip())
        for part in path.split(" ")[0].split("."):
            found = getattr(found, part)
        made = found(**rule.options) if isinstance(found, type) else found
    except (Exception, SystemExit) as error:
        # Code of others runs here: anything at all may come out of it.
        problem = f"it cannot be loaded: {type(error).__name__}: {error}"
        raise Rejected.bad("notify.plugins", rule.use, problem) from error
    if callable(getattr(made, "send", None)):
        return cast("Notifier", made)
    if callable(made):
        return cast("Notifier", _Plain(made))
    raise Rejected.bad("notify.plugins", rule.use, "it has no method send, and is no function")
