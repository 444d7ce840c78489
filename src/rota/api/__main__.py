"""``python -m rota.api PLAN``: the controller process, as ``rota up`` starts it."""

from __future__ import annotations

import logging
import logging.handlers
import sys

import msgspec

from rota.api.plan import ControllerPlan
from rota.api.process import run
from rota.core.facts.errors import RotaError
from rota.log_lines import LogLines

LOG_BYTES = 10 * 1024 * 1024
LOGS_KEPT = 3


def main(plan_text: str, log_path: str = "") -> int:
    """Run until told to stop; trouble at the start is one line and 2."""
    _set_up_logging(log_path)
    try:
        run(msgspec.json.decode(plan_text, type=ControllerPlan))
    except RotaError as error:
        sys.stderr.write(f"rota: {error}\n")
        return 2
    return 0


def _set_up_logging(path: str) -> None:
    """To a file that is rotated, or to stderr."""
    target: logging.Handler = logging.StreamHandler()
    if path:
        target = logging.handlers.RotatingFileHandler(path, "a", LOG_BYTES, LOGS_KEPT)
    target.setFormatter(LogLines("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.getLogger().addHandler(target)
    logging.getLogger("rota").setLevel(logging.INFO)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
