"""Environments, scripts and inputs that nothing refers to any more.

A blob has the moment of its last use: each submit that refers to it sets it anew, at most once in
``REUSE_S``. So whatever refers to a blob that was last used long ago was submitted long ago, too,
or has not ended: only such rows are looked at. A submit in the meantime moves the moment, and what
was used since is not dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.store import rows, statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.store.driver import DatabaseDriver

#: For so long after a use a submit need not say that it uses it again.
REUSE_S = 86_400.0
#: A submit that needed not say so is on disk by then.
MARGIN_S = 2 * REUSE_S
#: Rows that are read at a time.
ROWS = 256
_OPEN = ", ".join(f"'{state}'" for state in rows.OPEN_STATES)


class _Spec(msgspec.Struct):
    """Of what was asked for only the digests."""

    environment: str = ""
    script: str = ""
    stdin: str = ""


class _Row(msgspec.Struct):
    """A job or an array, as far as it matters here."""

    spec: _Spec


_decode = msgspec.msgpack.Decoder(_Row).decode


def digests(body: bytes) -> tuple[str, str, str]:
    """What a job or an array refers to, some of it empty."""
    spec = _decode(body).spec
    return spec.environment, spec.script, spec.stdin


def unused(driver: DatabaseDriver, plain: Callable[..., bytes], before_s: float) -> list[str]:
    """The blobs that were last used long before a time, and that nothing refers to."""
    old = driver.read("SELECT digest FROM blobs WHERE used_s < ?", (before_s - MARGIN_S,))
    left = {digest for (digest,) in old}
    if not left:
        return []
    # In this order: an element that has begun meanwhile was part of an array that stays.
    for bodies in (_jobs(driver, before_s), driver.read("SELECT body FROM arrays")):
        for row in bodies:
            left.difference_update(digests(plain(*row)))
    return sorted(left)


def _jobs(driver: DatabaseDriver, before_s: float) -> Iterable[rows.Row]:
    """Those that were submitted before a time, and all that have not ended."""
    found = driver.read(
        "SELECT id FROM jobs WHERE created_at < ?"
        f" UNION SELECT id FROM jobs WHERE state IN ({_OPEN}) ORDER BY id",
        (before_s,),
    )
    for at in range(0, len(found), ROWS):
        chosen = [job_id for (job_id,) in found[at : at + ROWS]]
        for text, values in statements.select("jobs", statements.JOB_BODY, "id", chosen):
            yield from driver.read(text, values)


def dropping(names: list[str], before_s: float) -> list[statements.Statement]:
    """What drops them, except those that were used since."""
    return [
        (f"{text} AND used_s < ?", (*values, before_s - MARGIN_S))
        for text, values in statements.delete("blobs", "digest", names)
    ]
