"""What a request says: its parameters and its body."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rota.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Mapping


def given(parameters: Mapping[str, object]) -> dict[str, str]:
    """The parameters of a request that say something."""
    return {
        name: str(int(value) if isinstance(value, bool) else value)
        for name, value in parameters.items()
        if value is not None and value != ""
    }


def encode(body: object) -> bytes:
    """A body as it is sent."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        broken = str(error.object)[error.start : error.start + 1]
        raise ClientError(
            f"the request holds text that is not valid UTF-8 ({broken!r}); it cannot be sent"
        ) from None
