"""Certificate and keys of a Rota with several heads: in the database, sealed.

Agents and people know a Rota by its certificate, and jobs show tokens that were made with its key:
the successor needs both. The key file that seals them (``server.secrets_key_file``) is the one
thing that a site puts on each head itself.
"""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

from rota.api.door.certificate import CERTIFICATE, KEY
from rota.controller.agents.job_tokens import KEY_FILE
from rota.controller.launches.vault import refuse_other_key
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rota.controller.launches.vault import Vault
    from rota.store.api import Store

#: A certificate that a site has put there itself stays; of the key that makes tokens there is one.
SHARED = (CERTIFICATE, KEY, KEY_FILE)


def take(folder: Path, vault: Vault, bookmark: Callable[[str], str]) -> None:
    """Put what the others share into the state folder. ``Rejected``: our key opens none of it."""
    refuse_other_key(vault, bookmark)
    for name in SHARED:
        sealed = bookmark(_bookmark(name))
        path = folder / name
        if not sealed or (path.exists() and name != KEY_FILE):
            continue
        body = vault.open(base64.b64decode(sealed))
        if not body:
            raise Rejected(f"{name}, which the heads share, cannot be opened with our key file")
        _write(path, body)


def share(folder: Path, vault: Vault, store: Store) -> None:
    """What the others have not got yet."""
    for name in SHARED:
        path = folder / name
        if path.exists() and not store.bookmark(_bookmark(name)):
            sealed = base64.b64encode(vault.seal(path.read_bytes())).decode()
            store.set_bookmark(_bookmark(name), sealed)


def _bookmark(name: str) -> str:
    return f"shared {name}"


def _write(path: Path, body: bytes) -> None:
    draft = path.with_name(f"{path.name}.shared")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(fd)
    draft.replace(path)
