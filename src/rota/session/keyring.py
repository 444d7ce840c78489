"""What an agent shows to the controller: the key of its node, and before it has one a join token.

The key is made here and kept in the agent's folder, for the agent's eyes only; the controller
knows its digest. A new key is on disk beside the one before until the controller has let the
agent in with one of them: however a renewal is cut short, one that the controller knows is here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from rota.fingerprints import split_token
from rota.node_keys import digest_of, new_key
from rota.session import wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rota.rpc.messages import ControllerMessage

FILE = "node.key"
#: A renewal that the controller did not hear of leaves one more behind, until the next welcome.
KEYS_MAX = 8


class BadKeyFile(Exception):
    """The file cannot be used; the text says why in one line."""


class _Kept(msgspec.Struct):
    """The file: keys, the newest first, and what else is needed to use them."""

    keys: list[str]
    fingerprint: str = ""
    #: Whether the controller may have heard of the first key.
    told: bool = False
    #: A digest of the join token that the node joined with: it is good for nothing more here.
    joined: str = ""


class Keyring:
    """The credentials of one agent. ``token`` is the join token; empty: none."""

    def __init__(self, folder: Path, token: str) -> None:
        self._file = folder / FILE
        self._token = token.strip()
        self._kept = self._read()
        if not self._kept.keys:
            self._kept.keys.append(new_key())
        if fingerprint := split_token(self._token)[1]:
            self._kept.fingerprint = fingerprint
        #: What was shown on the connection that is open.
        self._shown = ""

    def _read(self) -> _Kept:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return _Kept([])
        except (OSError, msgspec.MsgspecError) as error:
            raise BadKeyFile(
                f"{self._file} cannot be read ({error}); without it this node must join again: "
                "remove the file, and get a join token"
            ) from None

    def _write(self) -> None:
        fresh = self._file.with_name(f"{FILE}.new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.encode(self._kept))
            file.flush()
            os.fsync(descriptor)
        fresh.rename(self._file)

    @property
    def fingerprint(self) -> str:
        """Of the controller's certificate; empty: an authority vouches for it."""
        return self._kept.fingerprint

    @property
    def digest(self) -> str:
        """Of the newest key."""
        return digest_of(self._kept.keys[0])

    def to_show(self) -> list[str]:
        """What to show, the best first: the next one is for where the one before is refused."""
        kept = self._kept
        shown = [self._marked(key) for key in kept.keys] if kept.told else []
        if self._token and digest_of(self._token) != kept.joined:
            shown.append(self._token)
        return shown

    def _marked(self, key: str) -> str:
        return f"{key}.{self.fingerprint}" if self.fingerprint else key

    async def dial(
        self, url: str, on_message: Callable[[ControllerMessage], None]
    ) -> wire.ControllerLink:
        """Connect with the best that is not refused; the hello may follow."""
        shown = self.to_show() or [""]
        for token in shown:
            try:
                link = await wire.dial(url, token, on_message)
            except wire.TurnedAway:
                if token == shown[-1]:
                    raise
            else:
                self._says_hello(token)
                return link
        raise AssertionError("the last one is raised")

    def _says_hello(self, shown: str) -> None:
        """From now on the controller may know our key."""
        self._shown = shown
        if shown and not self._kept.told:
            self._kept.told = True
            self._write()

    def welcomed(self) -> None:
        """What was shown is good; keys beside it are not needed any more."""
        kept = self._kept
        secret = split_token(self._shown)[0]
        if secret in kept.keys and kept.keys != [secret]:
            kept.keys = [secret]
            self._write()
        elif self._shown == self._token and self._token:
            kept.joined = digest_of(self._token)
            self._write()

    def renew(self) -> str:
        """Make a key and put it on disk before the one in use; its digest."""
        self._kept.keys = [new_key(), *self._kept.keys[: KEYS_MAX - 1]]
        self._write()
        return self.digest
