"""Runs on the head to end what the job server cannot: a job that waits, or one that ignores TERM.

Its first argument is the name of the actor that holds the job's process, its second the place
where Ray keeps such actors. With the actor goes the job: one that waits has then never begun.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import ray  # type: ignore[import-not-found,unused-ignore]  # It is there on the cluster.

if __name__ == "__main__":
    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    with suppress(ValueError):  # It has ended by itself.
        ray.kill(ray.get_actor(sys.argv[1], namespace=sys.argv[2]))
