"""What only some machines have, a real GPU or version 2 of control groups: asked for by name.

``script/test hardware`` collects these tests; nothing else does, so that a machine without the
hardware neither fails nor skips without a word.
"""

from __future__ import annotations

import os

from tests.hardware.cards import measured
from tests.journeys.conftest import box, new_box, open_folder
from tests.web.conftest import browser, pictures

__all__ = ["box", "browser", "measured", "new_box", "open_folder", "pictures"]

collect_ignore_glob = [] if os.environ.get("ROTA_TEST_HARDWARE") else ["test_*.py"]
