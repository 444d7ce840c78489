"""A member of an elastic gang: says how large its world is whenever that changes."""

import json
import os
import signal
import sys
import time
from pathlib import Path

WORLD, GOAL = Path(os.environ["ROTA_WORLD_FILE"]), Path(sys.argv[1])
TASK = int(os.environ["ROTA_TASK_INDEX"])
news = [True]
signal.signal(signal.SIGURG, lambda *_: news.append(True))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
while not GOAL.exists():
    if news:
        news.clear()
        world = json.loads(WORLD.read_text())
        ranks = {member["task"]: member["rank"] for member in world["members"]}
        sys.stdout.write(f"{ranks.get(TASK)} of {world['world_size']}\n")
        sys.stdout.flush()
    time.sleep(0.01)
