"""From an answer of the API server to one of the four errors, for what follows from each."""

from __future__ import annotations

import re

from rota.backends.api import EngineAway, EngineError, EngineRefused, Full, Unsure
from rota.core.facts.states import Blame

#: A list in pages that took too long, or a version that is too old to go on from: begin anew.
EXPIRED = 410
FORBIDDEN, TOO_MANY = 403, 429
#: A quota refuses with the same number as missing rights do: only the words tell them apart. A new
#: namespace has its service account a moment later.
_NOT_NOW = ("exceeded quota", "error looking up service account", "is being terminated")
#: A webhook of the site that does not answer is told as an error of the server; nothing is made.
_NO_WEBHOOK = "failed calling webhook"
#: These speak of this one pod: a limit range, a quota on what it does not ask for, or a webhook
#: of the site.
_OF_JOB = re.compile(
    r"(minimum|maximum) [\w.\-/]+ (usage|limit)|denied the request|failed quota: .* must specify"
)


def refusal(code: int, message: str) -> EngineError:
    """Why a pod was not created: the server has answered, so nothing is left open below 500."""
    words = " ".join(message.split()) or f"the API server answers {code}"
    if code == TOO_MANY or (code == FORBIDDEN and any(part in words for part in _NOT_NOW)):
        return Full(words)
    if code >= 500 and _NO_WEBHOOK in words:
        return Full(words)
    if code in (400, 413, 422) or _OF_JOB.search(words):
        return EngineRefused(words)
    if code >= 500:
        return Unsure(words)
    if code == 401:
        return EngineAway(words)
    return EngineRefused(words, Blame.NODE)


def trouble(code: int, message: str) -> EngineError:
    """Why any other request failed: tried again later, unless it never will succeed."""
    words = " ".join(message.split()) or f"the API server answers {code}"
    if code in (401, EXPIRED, TOO_MANY) or code >= 500:
        return EngineAway(words)
    return EngineRefused(words, Blame.NODE)
