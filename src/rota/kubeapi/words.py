"""What an error of an API server, or of the way to it, says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from lightkube.core.exceptions import ApiError

if TYPE_CHECKING:
    import httpx2

#: What the library raises of an answer that is not an API server's: of a proxy before it, say.
SENSELESS = (msgspec.DecodeError, ValueError, KeyError, TypeError)


def said(error: httpx2.HTTPStatusError) -> str:
    """The server's own words where it has any."""
    if isinstance(error, ApiError):
        return str(error)
    try:
        return str(error.response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return error.response.text[:300]


def words(error: Exception) -> str:
    """Those of an error that is not an answer."""
    return f"{type(error).__name__}: {error}".rstrip(": ")
