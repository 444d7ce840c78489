"""What a job on another machine shows to be taken for itself: made from a key, kept nowhere.

``rotajob_UID_PROOF`` names an attempt, and the proof can be made only by who has the key. It is
good while that attempt lives: whether it does is asked of the state, so nothing has to be revoked.
"""

from __future__ import annotations

import hmac
import os
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.tenant import Access, Actor
from rota.rpc.messages import Desired

if TYPE_CHECKING:
    from pathlib import Path

    from rota.core.cluster import Cluster
    from rota.rpc.messages import ControllerMessage, Wanted

PREFIX = "rotajob_"
KEY_FILE = "job-tokens.key"
KEY_BYTES = 32
_PROOF_DIGITS = 40


def read_key(folder: Path) -> bytes:
    """The key of a state folder; made when it is first asked for, for its owner's eyes only."""
    path = folder / KEY_FILE
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = b""
    if len(key) == KEY_BYTES:
        return key
    key = os.urandom(KEY_BYTES)
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(fd)
    draft.replace(path)
    return key


class JobTokens:
    """Makes tokens and knows them again."""

    def __init__(self, key: bytes = b"") -> None:
        """Without a key tokens are good for as long as this object."""
        self._key = key or os.urandom(KEY_BYTES)

    def make(self, uid: str) -> str:
        """The token of an attempt."""
        # A dot would end it: behind one stands the fingerprint of our certificate.
        return f"{PREFIX}{uid.replace('.', '-')}_{self._proof(uid)}"

    def _proof(self, uid: str) -> str:
        return hmac.new(self._key, uid.encode(), "sha256").hexdigest()[:_PROOF_DIGITS]

    def actor_of(self, token: str, cluster: Cluster) -> Actor | None:
        """The job that shows a token; None if nobody made it or its attempt has ended."""
        name, _, proof = token.removeprefix(PREFIX).rpartition("_")
        uid = name.replace("-", ".")
        if not hmac.compare_digest(proof.encode(), self._proof(uid).encode()):
            return None
        where = cluster.live.where.get(uid)
        job = None if where is None else cluster.jobs.get(where[0])
        if job is None:
            return None
        return Actor(job.spec.user, Access.USER, f"job {job.id}", job.id)

    def sealed(self, message: ControllerMessage) -> ControllerMessage:
        """The same orders, each launch with the token of its attempt."""
        if not isinstance(message, Desired) or not any(w.launch for w in message.attempts):
            return message
        attempts = tuple(self._with_token(item) for item in message.attempts)
        return msgspec.structs.replace(message, attempts=attempts)

    def _with_token(self, item: Wanted) -> Wanted:
        if item.launch is None:
            return item
        launch = msgspec.structs.replace(item.launch, token=self.make(item.uid))
        return msgspec.structs.replace(item, launch=launch)
