"""Named policies, for the hosts of the core: the live controller, the simulator, the what-if.

They are defined in ``rota.core.presets``, which the settings may know as well.
"""

from __future__ import annotations

from rota.core.presets import ALIASES, PRESETS, name_of, preset, with_preset

__all__ = ["ALIASES", "PRESETS", "name_of", "preset", "with_preset"]
