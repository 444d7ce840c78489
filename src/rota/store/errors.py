"""What a store may raise besides ``Unavailable``."""

from __future__ import annotations

from rota.core.facts.errors import RotaError, Unavailable


class OutcomeUnknown(Unavailable):
    """The database went away while it was committing: the batch may or may not be there.

    The controller must load again before it commits anything else.
    """


class NotLeading(Unavailable):
    """Another controller leads, or has led since: what this one holds for true may be old.

    The controller must ``lead`` and load again before it commits or promises anything.
    """


class Forgotten(NotLeading):
    """The database has lost what it had confirmed, as after a failover to a server that had not
    heard of it, or a backup that was put back. The controller must ``lead`` and load again.
    """


class Contradiction(RotaError):
    """A batch that cannot be true: an event number or a uid that is taken. Always a bug of ours;
    nothing was changed."""
