"""What anybody may read without saying who they are: health, the OpenAPI document, its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from litestar import Litestar

    from rota.api.context import Context
    from rota.api.door.front import Page

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
            return 200, _JSON, self._once("json")
        if path == "/docs":
            return 200, b"text/html; charset=utf-8", self._once("html")
        return None

    def _ready(self) -> Page:
        if self._context.closing.is_set():
            return 503, _JSON, b'{"status":"stopping"}'
        trouble = self._context.host.trouble
        if trouble:
            return 503, _JSON, msgspec.json.encode({"status": "troubled", "reason": trouble})
        return 200, _JSON, b'{"status":"ready"}'

    def _once(self, form: str) -> bytes:
        """Made when first asked for, and kept: the routes do not change."""
        if form not in self._made:
            from rota.api.openapi.document import make_document
            from rota.api.openapi.page import make_page

            document = make_document(self._inner, self._context.settings.version)
            self._made = {"json": msgspec.json.encode(document), "html": make_page(document)}
        return self._made[form]
