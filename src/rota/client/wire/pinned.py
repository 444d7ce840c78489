"""HTTPS to a server that is known by the fingerprint of its certificate."""

from __future__ import annotations

import ssl
from http.client import HTTPSConnection
from typing import cast

from rota.client.wire.ways import KnockingConnection
from rota.fingerprints import WrongCertificate, check, context_for, explain

#: What the first bytes of a server without TLS are taken for.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"})


class PinnedConnection(HTTPSConnection, KnockingConnection):
    """Says nothing before the certificate was looked at."""

    def __init__(self, host: str, port: int | None, timeout_s: float, fingerprint: str) -> None:
        super().__init__(host, port, timeout=timeout_s, context=context_for(fingerprint))
        self._fingerprint = fingerprint

    def connect(self) -> None:
        try:
            super().connect()
        except ssl.SSLCertVerificationError as error:
            raise WrongCertificate(explain(error)) from None
        except ssl.SSLError as error:
            if error.reason not in _NO_TLS:
                raise
            raise ConnectionError(f"it does not speak TLS; is it http://{self.host}?") from None
        secure = cast("ssl.SSLSocket", self.sock)
        try:
            check(secure.getpeercert(binary_form=True), self._fingerprint)
        except OSError:
            self.close()
            raise
