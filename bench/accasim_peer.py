"""A log through AccaSim, run by the Python of AccaSim's own environment.

``python accasim_peer.py LOG.swf MACHINE.json FOUND.json``: first fit, EASY backfill, its own
reader, nothing written on the way.
"""

from __future__ import annotations

import collections
import collections.abc
import json
import sys
import tempfile
import time
from pathlib import Path

# Its last release was made for a Python that kept this name in both places.
collections.Mapping = collections.abc.Mapping  # type: ignore[attr-defined]


def main() -> None:
    from accasim.base.allocator_class import FirstFit  # type: ignore[import-not-found]
    from accasim.base.scheduler_class import EASYBackfilling  # type: ignore[import-not-found]
    from accasim.base.simulator_class import Simulator  # type: ignore[import-not-found]

    log, machine, found = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        simulator = Simulator(
            log, machine, EASYBackfilling(FirstFit()),
            scheduling_output=False, statistics_output=False, show_statistics=False,
            RESULTS_FOLDER_PATH=scratch,
        )  # fmt: skip
        before_s = time.process_time()
        simulator.start_simulation()
        cpu_s = time.process_time() - before_s
    Path(found).write_text(json.dumps({"jobs": simulator.dispatched_jobs, "cpu_s": cpu_s}))


if __name__ == "__main__":
    main()
