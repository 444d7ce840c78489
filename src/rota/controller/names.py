"""Names that nobody else has: of jobs, of sessions, and of the start of a controller."""

from __future__ import annotations

import secrets


class Names:
    """Drawn by chance; a world counts instead."""

    def uid(self) -> str:
        return secrets.token_hex(16)

    def number(self) -> int:
        """Above 0, and exact in every language."""
        return secrets.randbits(52) + 1
