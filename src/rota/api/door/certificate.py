"""The server's certificate: signed by itself, made once, kept in the state folder.

Clients and agents know it by its fingerprint; other programs by the names that it lists. A site
with a certificate of its own puts that there instead.
"""

from __future__ import annotations

import ipaddress
import os
import platform
import ssl
import subprocess
from typing import TYPE_CHECKING

from rota.agent.attempts.address import interfaces
from rota.core.facts.errors import RotaError
from rota.fingerprints import fingerprint_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CERTIFICATE, KEY = "tls.crt", "tls.key"
#: Nobody renews it: the fingerprint is what counts, not the date.
DAYS = 36_500
OPENSSL_S = 60.0
#: A server that listens there can be reached at every address of its machine.
EVERYWHERE = ("0.0.0.0", "::", "")


class NoCertificate(RotaError):
    """One line for the person who started it."""


def wants_tls(choice: str, host: str) -> bool:
    """``auto`` means: wherever the network can listen in."""
    local = host in ("localhost", "::1") or host.startswith("127.")
    return choice == "on" or (choice == "auto" and not local)


def names_of(host: str, further: Iterable[str] = ()) -> tuple[str, ...]:
    """Under which names and addresses others may ask for a server that listens at ``host``."""
    found = [platform.node(), "localhost", "127.0.0.1", "::1", *further]
    if host in EVERYWHERE:
        found += interfaces()
    else:
        found.append(host)
    return tuple(dict.fromkeys(name for name in found if name))


def server_context(folder: Path, names: Iterable[str]) -> tuple[ssl.SSLContext, str]:
    """What the server needs, and the fingerprint of its certificate; one is made with ``names``."""
    certificate, key = folder / CERTIFICATE, folder / KEY
    if not certificate.exists() and not key.exists():
        _make(certificate, key, names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
        first = certificate.read_text().partition("-----END CERTIFICATE-----")
        der = ssl.PEM_cert_to_DER_cert(first[0].strip() + "\n" + first[1] + "\n")
    except (OSError, ValueError) as error:
        raise NoCertificate(f"{certificate} and {key}: {error}") from None
    return context, fingerprint_of(der)


def _alternative(name: str) -> str:
    """A name as it stands in a certificate."""
    try:
        return f"IP:{ipaddress.ip_address(name)}"
    except ValueError:
        return f"DNS:{name}"


def _make(certificate: Path, key: Path, names: Iterable[str]) -> None:
    draft, draft_key = certificate.with_suffix(".new"), key.with_suffix(".key-new")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", str(DAYS), "-subj", f"/CN={platform.node()[:60] or 'rota'}"]
    command += ["-addext", f"subjectAltName={','.join(map(_alternative, names))}"]
    command += ["-keyout", str(draft_key), "-out", str(draft)]
    instead = f"put a certificate and its key into {certificate} and {key}, or set server.tls = off"
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=OPENSSL_S, check=False
        )
    except FileNotFoundError:
        raise NoCertificate(
            f"openssl is not installed, so no certificate can be made: {instead}"
        ) from None
    except subprocess.TimeoutExpired:
        raise NoCertificate(f"openssl made no certificate in {OPENSSL_S:g} s: {instead}") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise NoCertificate(f"openssl made no certificate ({said[-1:]}): {instead}")
    os.chmod(draft_key, 0o600)
    draft_key.rename(key)
    draft.rename(certificate)
