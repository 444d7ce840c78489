"""A last word of ours in the output of a job: why it was ended."""

from __future__ import annotations

import logging
import os
import stat
from typing import TYPE_CHECKING

from rota.agent.visits.logs import rights_of

if TYPE_CHECKING:
    from rota.rpc.visits import WriteRemark

log = logging.getLogger("rota.agent")
#: The file of a job that runs is there; one that its user has removed is not made again.
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def write_remark(message: WriteRemark) -> None:
    """Append it, with the rights of the job's user; where that cannot be done, nobody is harmed."""
    try:
        with rights_of(message):
            fd = os.open(message.path, _FLAGS)
    except (OSError, LookupError) as error:
        log.debug("no remark in %s: %s", message.path, error)
        return
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            os.write(fd, message.text.encode())
    except OSError as error:
        log.debug("no remark in %s: %s", message.path, error)
    finally:
        os.close(fd)
