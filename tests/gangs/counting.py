"""A job that counts, saves when it is asked to and goes on where an earlier try had come to."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SAVED = Path(os.environ["ROTA_CHECKPOINT_DIR"]) / "count"
GOAL = Path(sys.argv[1])
asked: list[int] = []
for number in (signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda signum, _: asked.append(signum))


def say(text: str) -> None:
    sys.stdout.write(f"{text} on {os.environ['ROTA_NODELIST']}\n")
    sys.stdout.flush()


count = int(SAVED.read_text()) if os.environ["ROTA_RESUME"] == "1" else 0
say(f"begins at {count}")
while not GOAL.exists():
    count += 1
    time.sleep(0.01)
    if asked:
        SAVED.write_text(str(count))
        say(f"saved {count} for {signal.Signals(asked[0]).name}")
        subprocess.run(
            [sys.executable, "-m", "rota.cli.main", "checkpoint", "--step", str(count)], check=False
        )
        if asked.pop(0) == signal.SIGUSR1:
            sys.exit(0)
say(f"ends at {count}")
