"""Tasks through dask-jobqueue on a Slurm, with adaptive scaling; for the Python that has it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib import import_module
from typing import Any

distributed: Any = import_module("distributed")
dask_jobqueue: Any = import_module("dask_jobqueue")


def work(number: int, seconds: str) -> int:
    return subprocess.run(["sleep", seconds], check=False).returncode + number


def left() -> int:
    done = subprocess.run(["squeue", "-h"], capture_output=True, check=False)
    return len(done.stdout.splitlines())


def main(tasks: int, workers: int, cores: int, seconds: str, scratch: str) -> None:
    cluster = dask_jobqueue.SLURMCluster(
        cores=cores,
        processes=1,
        memory="1GB",
        walltime="00:10:00",
        local_directory=scratch,
        log_directory=scratch,
        python=sys.executable,
        scheduler_options={"dashboard": False},
    )
    with cluster, distributed.Client(cluster) as client:
        cluster.adapt(minimum=0, maximum=workers, interval="1s", wait_count=3)
        began_s = time.perf_counter()
        client.gather(client.map(work, range(tasks), seconds=seconds, pure=False))
        ended_s = time.perf_counter()
        while left():
            time.sleep(0.1)
        gone_s = time.perf_counter()
    print(json.dumps({"took_s": ended_s - began_s, "gone_s": gone_s - ended_s}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
