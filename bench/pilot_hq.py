"""Tasks through HyperQueue's server and workers, in one process; for the Python that has it.

The wheel has no program ``hq``, so that its automatic allocation cannot be started from it. What
it can do is what comes after the allocation: as many workers as there are nodes, with no network
and no start of a program between them.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from importlib import import_module
from typing import Any

hyperqueue: Any = import_module("hyperqueue")
workers_of: Any = import_module("hyperqueue.cluster")


def main(tasks: int, workers: int, cores: int, seconds: str) -> None:
    with contextlib.redirect_stderr(io.StringIO()), hyperqueue.LocalCluster() as cluster:
        for _ in range(workers):
            cluster.start_worker(workers_of.WorkerConfig(cores=cores))
        client = cluster.client()
        job = hyperqueue.Job(max_fails=None)
        for _ in range(tasks):
            job.program(["sleep", seconds], stdout=None, stderr=None)
        began_s = time.perf_counter()
        client.wait_for_jobs([client.submit(job)])
        took_s = time.perf_counter() - began_s
    print(json.dumps({"took_s": took_s}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
