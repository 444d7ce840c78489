"""What a job inherits from its submitter: one rule for the commands, Python and Slurm's.

Imported by every command, so it knows the standard library only.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

#: Names of variables that look like secrets, in any case: ``GITHUB_TOKEN``, ``PGPASSWORD``,
#: ``AWS_ACCESS_KEY_ID``. ``TOKEN`` counts as a word or at the end, because ``TOKENIZERS_…`` is
#: none. docs/security.md has the same list.
_SECRET = re.compile(
    r"(?:^|_)TOKENS?(?:_|$)|TOKEN$|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL"
    r"|(?:API|PRIVATE|ACCESS|SIGNING|ENCRYPTION)_?KEY"
    r"|^AWS_(?!(?:DEFAULT_)?REGION$|CA_BUNDLE$)",
    re.IGNORECASE,
)
#: Of our own variables these may travel; a token never does, nor what describes another job.
OWN_KEPT = frozenset({"ROTA_URL", "ROTA_STATE_DIR", "ROTA_CONFIG"})
#: These say something about the shell, not about the job.
OF_THE_SHELL = frozenset({"_", "OLDPWD", "SHLVL"})


def is_inherited(name: str) -> bool:
    """Whether a variable travels with a job."""
    return name in OWN_KEPT or not (name in OF_THE_SHELL or name.startswith("ROTA_"))


@lru_cache(4096)
def looks_secret(name: str) -> bool:
    """Whether a variable stays behind unless it is asked for by its name.

    Shells have the same variables again and again, and a server hears of all of them.
    """
    return _SECRET.search(name) is not None


def is_text(text: str) -> bool:
    """Whether it can be sent: names and values of variables may be any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def umask() -> int:
    """This process's mask; the kernel tells it only in exchange for a new one."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
