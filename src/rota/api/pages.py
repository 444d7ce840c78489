"""What anybody may read without saying who they are: health, the OpenAPI document, its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from litestar import Litestar

    from rota.api.context import Context
    from rota.api.front import Page

_JSON = b"application/json"


class Pages:
    """Answers by path; None for paths that are not public."""

    def __init__(self, context: Context, inner: Litestar) -> None:
        self._context = context
        self._inner = inner
        self._made: dict[str, bytes] = {}

    def __call__(self, path: str) -> Page | None:
        if path == "/healthz":
            return 200, _JSON, b'{"status":"ok"}'
        if path == "/readyz":
            return self._ready()
        if path == "/openapi.json":
            return 200, _JSON, self._document()
        return None

    def _ready(self) -> Page:
        if self._context.closing.is_set():
            return 503, _JSON, b'{"status":"stopping"}'
        return 200, _JSON, b'{"status":"ready"}'

    def _document(self) -> bytes:
        if "json" not in self._made:
            self._made["json"] = msgspec.json.encode(self._inner.openapi_schema.to_schema())
        return self._made["json"]
