"""The key of a node: made on the node, kept there; the controller knows its digest only.

It reads ``rotanode_SECRET``. Its id is the beginning of its digest, so both sides can name it.
"""

from __future__ import annotations

import hashlib
import secrets

PREFIX = "rotanode_"
#: Of the digest, in hexadecimal digits.
ID_DIGITS, DIGEST_DIGITS = 16, 64


def new_key() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(secret: str | bytes) -> str:
    """What stands on record in place of a secret."""
    body = secret.encode() if isinstance(secret, str) else secret
    return hashlib.sha256(body).hexdigest()


def id_of(digest: str) -> str:
    """The public name of a key."""
    return digest[:ID_DIGITS]
