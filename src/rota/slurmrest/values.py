"""Values as the versions of Slurm's REST interface write them."""

from __future__ import annotations

import math
import re


def plain(value: object) -> int:
    """A number, as each version writes one: plain, as text, or as ``{set, infinite, number}``.

    None and infinity are 0.
    """
    if isinstance(value, dict):
        unset = not value.get("set", True) or value.get("infinite")
        value = 0 if unset else value.get("number")
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"-?[0-9]+", value) else 0
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else 0
