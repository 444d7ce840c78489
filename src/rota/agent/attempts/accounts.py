"""To whom files of jobs are given: looked up by a child, because a directory may take its time."""

from __future__ import annotations

import os
import time

from rota.as_user.children import ErrandFailed, NotInTime, do, named
from rota.keeper.failures import NODE, NotReady

#: What is known of a user is asked again after this time.
KNOWN_S = 60.0
LOOKUP_S = 20.0


class LaunchFailed(NotReady):
    """The attempt cannot be handed to the keeper; the text says why."""


class JobUsers:
    """The users of jobs. Without the rights of root all files stay ours, and nobody is asked."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}
        self._asked_s: dict[str, float] = {}

    def knows(self, user: str) -> bool:
        """Whether ``owner_of`` can be asked without a lookup."""
        asked_s = self._asked_s.get(user)
        return not _is_other(user) or (asked_s is not None and time.monotonic() - asked_s < KNOWN_S)

    def learn(self, user: str) -> None:
        """For threads: it waits for the directory of users."""
        try:
            told = do(named(user), "who", LOOKUP_S)
        except NotInTime:
            late = f"user {user}: this node could not look it up in time"
            raise LaunchFailed(late, NODE) from None
        except ErrandFailed as error:
            raise LaunchFailed(str(error)) from None
        self._known[user] = (told["uid"], told["gid"])
        self._asked_s[user] = time.monotonic()

    def owner_of(self, user: str) -> tuple[int, int] | None:
        """To whom files are given; None: they stay ours."""
        if not _is_other(user):
            return None
        if user not in self._known:
            raise LaunchFailed(f"user {user}: not known on this node")
        return self._known[user]


def _is_other(user: str) -> bool:
    return os.geteuid() == 0 and user not in ("", "root")
