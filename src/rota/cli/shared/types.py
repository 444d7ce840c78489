"""Types of option values: text from the command line or a script line becomes numbers here."""

from __future__ import annotations

import re
import time
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, SupportsIndex, SupportsInt

import click

from rota.core.words import units
from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Callable

ULIMITS = ("as", "core", "cpu", "data", "fsize", "memlock", "nofile", "nproc", "rss", "stack")
#: Use is known by day for a year.
PERIOD_MAX_S = 366 * 86_400
_UNLIMITED = {"unlimited", "-1"}


class AmountType(click.ParamType[object]):
    """A value that one of the functions of ``core.units`` reads."""

    def __init__(self, name: str, read: Callable[[str], int | float]) -> None:
        self.name = name
        self.read = read

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _memory(text: str) -> int:
    units.refuse_bare_size(text)
    if not text.strip():
        raise ValueError("an empty size is not valid; write 8g, 512m or 0")
    return units.parse_memory_mib(text)


def _priority(text: str) -> int:
    word = text.strip().lower()
    number = units.BANDS.get(word, int(word) if re.fullmatch(r"[0-9]{1,9}", word) else -1)
    if not 0 <= number <= 100:
        words = ", ".join(units.BANDS)
        raise ValueError(f"'{text}' is not valid; expected 0 to 100, or {words}")
    return number


def _umask(text: str) -> int:
    if not re.fullmatch(r"0?o?[0-7]{1,4}", text):
        raise ValueError(f"'{text}' is not valid; expected octal digits such as 022")
    number = int(text.replace("o", ""), 8)
    if number > 0o777:
        raise ValueError(f"'{text}' is not valid; at most 777")
    return number


def _when(text: str) -> float:
    """A moment on the clock of this machine; a length of time with a unit is from now."""
    from rota.moments import parse_moment

    moment_s = parse_moment(text, time.time(), None)
    if moment_s <= 0:
        # The server would take it for none.
        raise ValueError(f"'{text}' is not valid; expected a moment after 1970-01-01")
    return moment_s


def _past(text: str, *, over: bool = True) -> float:
    """A moment that has passed, or may be to come; a length of time is that long ago."""
    from rota.moments import parse_last, parse_past

    return (parse_past if over else parse_last)(text, time.time(), None)


def _lasting(text: str) -> int:
    """How long from now on: a length of time, or the moment at which it ends."""
    try:
        return units.parse_duration_s(text)
    except ValueError:
        length_s = _when(text) - time.time()
    if length_s <= 0:
        raise ValueError(f"'{text}' has passed; expected a moment to come, or a time such as 30d")
    return max(1, round(length_s))


def _period(text: str) -> int:
    """A length of time that the history reaches back."""
    length_s = units.parse_duration_s(text)
    if not 1 <= length_s <= PERIOD_MAX_S:
        raise ValueError(f"'{text}' is not valid; expected at least 1s and at most 366d")
    return length_s


def _gpus(text: str) -> int | float:
    """Whole GPUs, or a share of one: 2, 0.5."""
    body = text.strip()
    if re.fullmatch(r"[0-9]{1,9}", body):
        return int(body)
    if re.fullmatch(r"0?\.[0-9]{1,3}", body) and float(body) > 0:
        return float(body)
    raise ValueError(
        f"'{text}' is not valid; expected whole GPUs such as 2, or a share such as 0.5"
    )


def _decimal(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,15}(?:\.[0-9]{1,15})?", text.strip()):
        raise ValueError(f"'{text}' is not valid; expected a number such as 2 or 1.5")
    return float(text)


MEMORY = AmountType("size", _memory)
CPUS = AmountType("number", units.parse_cpu_milli)
DURATION = AmountType("time", units.parse_duration_s)
SHORT_DURATION = AmountType("time", lambda text: units.parse_duration_ms(text) / 1000)
PRIORITY = AmountType("priority", _priority)
UMASK = AmountType("mask", _umask)
WHEN = AmountType("when", _when)
PAST = AmountType("when", _past)
LAST = AmountType("when", lambda text: _past(text, over=False))
# ``none`` takes it away.
DEADLINE = AmountType("when", lambda text: 0.0 if text.strip().lower() == "none" else _when(text))
LASTING = AmountType("time", _lasting)
PERIOD = AmountType("time", _period)
DECIMAL = AmountType("number", _decimal)
GPUS = AmountType("number", _gpus)


class Warned(click.ParamType[tuple[str, int]]):
    """A signal, and how long before the limit: ``USR1@5m``; a minute where nothing is said."""

    name = "signal@time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, _, before = str(value).strip().partition("@")
        try:
            before_s = units.parse_duration_s(before) if before else 60
        except ValueError:
            before_s = 0
        if not before_s or not re.fullmatch(r"[A-Za-z0-9+]{1,20}", name):
            self.fail(f"'{value}' is not valid; expected a signal and a time: USR1@5m", param, ctx)
        return name, before_s


WARNING = Warned()


class Number(click.IntRange):
    """A whole number whose bounds are told when they are broken, not in every line of help."""

    name = "n"

    def convert(
        self,
        value: SupportsInt | SupportsIndex,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> int:
        # ``int()`` reads 1_3 and the digits of other scripts, too.
        if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,18}", value):
            self.fail(f"{value!r} is not a whole number", param, ctx)
        number = int(value)
        if self.min is not None and number < self.min:
            self.fail(f"{number} is too small; the least is {self.min:g}", param, ctx)
        if self.max is not None and number > self.max:
            self.fail(f"{number} is too large; the most is {self.max:g}", param, ctx)
        return number

    def _describe_range(self) -> str:
        return ""


COUNT = Number(min=0)
AT_LEAST_ONE = Number(min=1)


class Pair(click.ParamType[tuple[str, str | None]]):
    """``key=value``; with ``bare`` a key alone is allowed and stands for itself."""

    name = "key=value"

    def __init__(self, *, bare: bool = False) -> None:
        self.bare = bare

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str | None]:
        if isinstance(value, tuple):
            return value
        key, equals, text = str(value).partition("=")
        if not key.strip() or not (equals or self.bare):
            self.fail(f"'{value}' is not valid; expected KEY=VALUE", param, ctx)
        return key.strip(), text if equals else None


class Ulimit(click.ParamType[tuple[str, int]]):
    """``nofile=4096``; ``unlimited`` is -1."""

    name = "name=number"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, _, text = str(value).partition("=")
        if name not in ULIMITS:
            self._fail(name, param, ctx)
        if text in _UNLIMITED:
            return name, -1
        if not re.fullmatch(r"[0-9]{1,18}", text):
            self.fail(f"'{value}' is not valid; expected {name}=NUMBER or {name}=unlimited", param)
        return name, int(text)

    def _fail(
        self, name: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> NoReturn:
        close = get_close_matches(name, ULIMITS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(ULIMITS)}"
        self.fail(f"there is no limit '{name}'; {hint}", param, ctx)


class Folder(click.ParamType[Path]):
    """A folder. An empty text is nearly always a variable that is not set."""

    name = "folder"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        if not str(value):
            self.fail("'' is not valid; expected a folder", param, ctx)
        return Path(str(value))


class Words(click.ParamType[tuple[str, ...]]):
    """A list with commas: ``a,b`` becomes ``("a", "b")``; empty parts are refused."""

    name = "list"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        words = tuple(part.strip() for part in str(value).split(","))
        if not all(words):
            self.fail(f"'{value}' is not valid; expected words with commas between", param, ctx)
        return words


class NumberList(click.ParamType[tuple[int, ...]]):
    """Numbers with commas: ``0,2``."""

    name = "numbers"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        words = [word.strip() for word in str(value).split(",")]
        if not all(is_digits(word) and len(word) <= 5 for word in words):
            self.fail(f"'{str(value)[:60]}' is not valid; expected numbers such as 0,2", param, ctx)
        return tuple(map(int, words))


class ServerText(click.ParamType[str]):
    """Text that the server reads as well; looked at here so that a mistake is seen at once.

    An empty text is allowed: it takes away what an update finds.
    """

    def __init__(self, name: str, read: Callable[[str], object]) -> None:
        self.name = name
        self.read = read

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        text = str(value).strip()
        if text:
            try:
                self.read(text)
            except ValueError as error:
                self.fail(str(error), param, ctx)
        return text


class Nodes(click.ParamType[tuple[str, ...]]):
    """Names of nodes: ``a,b`` or ``n[1-3,7]``."""

    name = "nodes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        from rota.hostlist import expand

        try:
            return expand(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def flat(
    ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, ...], ...]
) -> tuple[str, ...]:
    """The names of several lists, each once, in their order."""
    return tuple(dict.fromkeys(name for names in value for name in names))


class JobRefType(click.ParamType[str]):
    """How people name a job: ``12``, ``12_3``, ``@`` (my last one), ``@~2``, ``@_3``, its name."""

    name = "job"
    pattern = re.compile(
        r"[0-9]{1,18}(?:_[0-9]{1,12})?|@(?:~[0-9]{1,6})?(?:_[0-9]{1,12})?"
        r"|[0-9a-zA-Z][\w.-]{7,79}|[^\W\d_][^,/\\!?*\x00-\x1f\x7f]{0,199}"
    )
    forms = "expected a job id such as 12, 12_3, @ (your last job), @~2, @_3, or a job's name"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        text = str(value).strip()
        if not self.pattern.fullmatch(text):
            self.fail(f"'{text[:60]}' is not valid; {self.forms}", param, ctx)
        return text


class JobRefs(JobRefType):
    """The same where many jobs are taken: also ``12-15``, ``12_[0-3,7]``, ``label:exp=7``."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        from rota.cli.shared.naming import FORMS, PATTERN

        text = str(value).strip()
        if not (PATTERN.fullmatch(text) or self.pattern.fullmatch(text)):
            self.fail(f"'{text[:60]}' is not valid; {self.forms}; or {FORMS}", param, ctx)
        return text


class ParentJobs(click.ParamType[tuple[str, ...]]):
    """Jobs to wait for: like ``JobRefs``, with commas; ``12_*`` ties equal array indices."""

    name = "jobs"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        from rota.cli.shared.naming import FORMS, PATTERN

        if isinstance(value, tuple):
            return value
        # A comma in brackets belongs to the indices: 12_[0,3],15.
        words = tuple(word.strip() for word in re.split(r",(?![^\[]*\])", str(value)))
        for word in words:
            # With a space in it, it is a list without its commas rather than a name.
            one = " " not in word and JobRefType.pattern.fullmatch(word.removesuffix("_*"))
            if not (one or PATTERN.fullmatch(word)):
                forms = f"{JobRefType.forms}; or 12_*, {FORMS}"
                self.fail(f"'{word[:60]}' is not valid; {forms}", param, ctx)
        return words


class MadeBy(click.ParamType[tuple[str, str]]):
    """A job to wait for, and the name of what it makes: ``12:features``."""

    name = "job:name"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        job, _, data = str(value).strip().partition(":")
        if not JobRefType.pattern.fullmatch(job) or not data:
            text = str(value)[:60]
            self.fail(f"'{text}' is not valid; expected JOB:NAME such as 12:features", param, ctx)
        return job, data
