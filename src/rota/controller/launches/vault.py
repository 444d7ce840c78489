"""What is kept for users and read by their jobs alone: sealed by a key outside the database.

The key file holds one Fernet key per line. The first one seals; all of them open, so that a new
key is put in front and old ones stay until nothing is sealed with them. Without a key file bodies
are kept as they are.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import stat
from typing import TYPE_CHECKING, Protocol

from rota.core.facts.errors import Rejected
from rota.inherited import looks_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rota.store.api import Store

log = logging.getLogger("rota.controller")

#: In front of what is sealed. No environment begins so: it is a msgpack map.
MARK = b"\0sealed:"
#: The same in front of a single value.
TEXT_MARK = "rota-sealed:"
#: Of which the proof is kept in the database that the keys are those which sealed it.
_PROBE = b"rota secrets key"
#: Where the store keeps it.
SEALED_BY = "sealed-by"
_FIELD = "server.secrets_key_file"


class _Box(Protocol):
    def encrypt(self, msg: bytes) -> bytes: ...

    def decrypt(self, msg: bytes) -> bytes: ...


class Vault:
    """Seals and opens. Without keys it does neither."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._keys = tuple(keys)
        self._box: _Box | None = _fernet(self._keys) if keys else None

    @property
    def seals(self) -> bool:
        """Whether there is a key."""
        return self._box is not None

    @property
    def proofs(self) -> tuple[str, ...]:
        """One text per key, by which the key is known again; the first one's seals."""
        return tuple(hmac.new(key, _PROBE, "sha256").hexdigest()[:16] for key in self._keys)

    def digest(self, body: bytes) -> str:
        """The name of a body; with a key nobody can guess the body from its name."""
        if self._keys:
            return hmac.new(self._keys[0], body, "sha256").hexdigest()
        return hashlib.sha256(body).hexdigest()

    def seal(self, body: bytes) -> bytes:
        return body if self._box is None else MARK + self._box.encrypt(body)

    def open(self, body: bytes) -> bytes:
        """What was sealed; a body that never was comes back as it is."""
        if not body.startswith(MARK):
            return body
        try:
            if self._box is not None:
                return self._box.decrypt(body[len(MARK) :])
        except Exception as error:
            log.error("cannot open what was sealed: %s", type(error).__name__)
            return b""
        log.error("cannot open what was sealed: %s is not set", _FIELD)
        return b""

    def seal_variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Single variables whose names look like secrets, sealed; the others stay readable."""
        for name, value in variables.items():
            if value.startswith(TEXT_MARK):
                raise Rejected.bad("variables", name, f"a value that begins with {TEXT_MARK} is")
        if self._box is None:
            return dict(variables)
        return {
            name: TEXT_MARK + self._box.encrypt(value.encode()).decode()
            if looks_secret(name)
            else value
            for name, value in variables.items()
        }

    def open_variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The same variables, readable again."""
        return {
            name: self.open(MARK + value[len(TEXT_MARK) :].encode()).decode()
            if value.startswith(TEXT_MARK)
            else value
            for name, value in variables.items()
        }


def open_vault(path: str, store: Store) -> Vault:
    """What seals a store; refused without the key with which it was sealed the last time."""
    vault = read_vault(path)
    before = refuse_other_key(vault, store.bookmark)
    if vault.seals and vault.proofs[0] != before:
        store.set_bookmark(SEALED_BY, vault.proofs[0])
    return vault


def refuse_other_key(vault: Vault, bookmark: Callable[[str], str]) -> str:
    """Which key sealed a store the last time; ``Rejected`` when it is none of ours."""
    before = bookmark(SEALED_BY)
    if before and before not in vault.proofs:
        why = "the database was sealed with a key that is not there; name the file that has it"
        raise Rejected(f"{_FIELD}: {why}", field=_FIELD)
    return before


def read_vault(path: str) -> Vault:
    """The vault of a key file; ``Rejected`` in one line when the file cannot be used."""
    if not path:
        return Vault()
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            lines = file.read().split()
    except OSError as error:
        raise Rejected.bad(_FIELD, path, f"cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(mode) or mode & 0o077:
        raise Rejected.bad(_FIELD, path, "a file that its owner alone may read (chmod 600)")
    if not lines:
        raise Rejected.bad(_FIELD, path, "one key per line; the file is empty")
    return Vault(lines)


def _fernet(keys: Sequence[bytes]) -> _Box:
    try:
        from cryptography.fernet import Fernet, MultiFernet
    except ImportError:
        raise Rejected(
            f"{_FIELD}: needs the package cryptography: pip install 'rota[secrets]'", field=_FIELD
        ) from None
    try:
        box: _Box = MultiFernet([Fernet(key) for key in keys])
    except ValueError:
        # The key itself is never quoted.
        raise Rejected(
            f"{_FIELD}: a line is no key; expected 32 bytes in URL-safe base64, one key per line",
            field=_FIELD,
        ) from None
    return box
