"""A driver on whose bugs its host does not break.

An engine may say what its driver has never seen: another version, a proxy with a page of its own, a
list that is cut. That ends neither the host nor the work; it is silence, told in words.
"""

from __future__ import annotations

import inspect
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from rota.backends.api import EngineAway, EngineError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rota.backends.api import Driver

#: Of a submit nobody knows then whether it has happened: who asks for it judges by itself.
_UNGUARDED = "submit"

log = logging.getLogger("rota.engine")


def guarded(driver: Driver) -> Driver:
    """The same driver; what is no error of an engine is told as its silence."""
    return cast("Driver", _Guarded(driver))


class _Guarded:
    def __init__(self, driver: Driver) -> None:
        self.__dict__["_driver"] = driver
        self.__dict__["_said"] = ""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        found = getattr(self._driver, name)
        if name == _UNGUARDED or not inspect.iscoroutinefunction(found):
            return found
        return partial(self._ask, found)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._driver, name, value)

    async def _ask(self, call: Callable[..., Awaitable[Any]], *args: object) -> Any:  # noqa: ANN401
        try:
            return await call(*args)
        except EngineError:
            raise
        except Exception as error:
            why = f"its driver breaks on what it says: {error!r}"
            if why != self._said:  # With where it happened, once.
                self.__dict__["_said"] = why
                log.exception("engine %s", self._driver.kind)
            raise EngineAway(why) from error
