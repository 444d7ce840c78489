"""Certificates that nobody signed: known by their fingerprint, which travels in the token.

A token reads ``SECRET`` or ``SECRET.FINGERPRINT``. A holder of the second form speaks to the one
server that shows this very certificate, and says nothing to any other, the secret least of all.
"""

from __future__ import annotations

import base64
import hashlib
import ssl


class WrongCertificate(OSError):
    """The server is not the one that the token names."""


def fingerprint_of(certificate: bytes) -> str:
    """Of a certificate in DER: SHA-256 in the letters of URLs, 43 of them."""
    digest = hashlib.sha256(certificate).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def split_token(token: str) -> tuple[str, str]:
    """The secret and the fingerprint, which may be empty."""
    secret, _, fingerprint = token.strip().partition(".")
    return secret, fingerprint


def context_for(fingerprint: str) -> ssl.SSLContext:
    """With a fingerprint nobody else is asked who the server is; ``check`` must follow."""
    if not fingerprint:
        return ssl.create_default_context()
    # Reading the authorities that nobody asks would take thirty milliseconds.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def explain(error: OSError) -> str:
    """Why there is no connection, with the way out where nobody vouches for a certificate."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"{error.verify_message}; use a token that names the certificate "
            "('rota token create' there prints one), or set ROTA_FINGERPRINT"
        )
    return error.strerror or str(error)


def check(certificate: bytes | None, fingerprint: str) -> None:
    """Raises ``WrongCertificate`` unless the server showed the certificate of the fingerprint."""
    shown = fingerprint_of(certificate) if certificate else "none"
    if fingerprint and shown != fingerprint:
        raise WrongCertificate(
            f"the certificate is not the one that the token names (shown {shown}, expected "
            f"{fingerprint}); another server answers there, or it has a new certificate: "
            "then get a new token"
        )
