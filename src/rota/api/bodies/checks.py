"""Whether single values of a request can be what they are said to be."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

from rota.core.facts.endpoints import port_variable
from rota.core.facts.errors import Rejected
from rota.core.facts.states import Cause
from rota.core.words.licenses import read_licenses
from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.words.licenses import Licenses

ENVIRONMENT_MAX = 2 * 1024 * 1024
SCRIPT_MAX = 8 * 1024 * 1024
COMMAND_MAX = 2 * 1024 * 1024
ROWS_MAX = 16 * 1024 * 1024
#: The kernel's limit on one argument or variable, less its final NUL.
ARGUMENT_MAX = 128 * 1024 - 1
NAME_MAX = 200
LABELS_MAX = 64
LABEL_MAX = 256
PORTS_MAX, PORT_NAME_MAX = 16, 40

_LIMITS = frozenset(
    name.removeprefix("RLIMIT_").lower() for name in dir(resource) if name.startswith("RLIMIT_")
)


def sized(field: str, text: str, most: int = SCRIPT_MAX) -> bytes:
    """The text as bytes, if it is not too long."""
    body = text.encode()
    if len(body) > most:
        raise Rejected.many(field, len(body), most, "bytes")
    return body


def refuse_nul(field: str, text: str) -> None:
    if "\0" in text:
        raise Rejected.bad(field, text, "it must not contain NUL characters")


def name(text: str) -> str:
    """A job's name: one short line."""
    if len(text) > NAME_MAX or not text.isprintable() or not text.strip():
        raise Rejected.bad("name", text, f"1 to {NAME_MAX} printable characters")
    return text


def word(field: str, text: str) -> str:
    """A name of something: printable, without blanks round it."""
    if text and (not text.isprintable() or text != text.strip()):
        raise Rejected.bad(field, text, "printable characters, no blanks at the ends")
    return text


def plain(field: str, text: str) -> None:
    """A path or pattern: no control characters that would only surprise."""
    if text and not text.isprintable():
        raise Rejected.bad(field, text, "a path of printable characters")


def image(text: str) -> str:
    """The name of a container image or a path; never something that reads as an option."""
    if text and (not text.isprintable() or text != text.strip() or " " in text or text[0] == "-"):
        raise Rejected.bad("image", text, "an image such as docker.io/library/python:3.12")
    return text


def port_names(given: list[str]) -> tuple[str, ...]:
    """Each becomes part of a variable's name, in which only few characters may be."""
    if len(given) > PORTS_MAX:
        raise Rejected.many("ports", len(given), PORTS_MAX, "names")
    for text in given:
        plain_text = text.replace("-", "").replace("_", "")
        if not (plain_text.isascii() and plain_text.isalnum() and text[0].isalpha()):
            raise Rejected.bad("ports", text, "letters, digits, - and _, beginning with a letter")
        if len(text) > PORT_NAME_MAX:
            raise Rejected.bad("ports", text, f"at most {PORT_NAME_MAX} characters")
    variables_ = [port_variable(text) for text in given]
    for number, text in enumerate(given):
        if variables_[number] in variables_[:number]:
            raise Rejected.bad("ports", text, "each name once")
    return tuple(given)


def licenses(given: list[str]) -> Licenses:
    """Each with how many of it."""
    for text in given:
        try:
            read_licenses(text)
        except ValueError:
            allowed = "NAME or NAME:COUNT, such as matlab:2"
            raise Rejected.bad("licenses", text, allowed) from None
    return read_licenses(",".join(given)) if given else ()


def folder(field: str, text: str) -> None:
    """A folder on the node; only an absolute path means the same to both of us."""
    if not text.startswith("/") or "\0" in text:
        raise Rejected.bad(field, text, "an absolute path")


def arguments(field: str, words: list[str]) -> list[str]:
    """An argument list that the kernel would take."""
    total = 0
    for number, word_ in enumerate(words):
        if "\0" in word_:
            raise Rejected.bad(f"{field}[{number}]", word_, "it must not contain NUL characters")
        size = len(word_) if word_.isascii() else len(word_.encode())
        if size > ARGUMENT_MAX:
            raise Rejected(
                f"{field}[{number}]: {size} bytes are more than any program can be given as one "
                f"argument ({ARGUMENT_MAX}); submit a script instead",
                field=f"{field}[{number}]",
                value=size,
                allowed=f"at most {ARGUMENT_MAX} bytes",
            )
        # As the kernel counts: its bytes, their end, and where it is.
        total += size + 1 + 8
    if total > COMMAND_MAX:
        raise Rejected(
            f"{field}: {total} bytes are too many; at most {COMMAND_MAX}",
            field=field,
            value=total,
            allowed=f"at most {COMMAND_MAX} bytes",
        )
    if words and not words[0] and field == "command":
        raise Rejected.bad("command[0]", words[0], "the name of a program")
    return words


def variable_name(field: str, text: str) -> None:
    if not text or "=" in text or "\0" in text:
        raise Rejected.bad(field, text, "a name without = and NUL")


def variables(field: str, given: dict[str, str], total_max: int = ENVIRONMENT_MAX) -> None:
    """Environment variables that the kernel would take."""
    keys, values = "".join(given), "".join(given.values())
    plain_keys = "" not in given and "=" not in keys and "\0" not in keys
    if plain_keys and "\0" not in values and len(keys) + len(values) < ARGUMENT_MAX // 4:
        return  # Almost every environment: looked at as a whole, which is ten times faster.
    total = 0
    for key, value in given.items():
        if not key or "=" in key or "\0" in key:
            variable_name(field, key)
        if "\0" in value:
            raise Rejected.bad(f"{field}.{key}", value, "it must not contain NUL characters")
        size = len(key) + len(value) + 2
        if size > ARGUMENT_MAX // 4 and len(key.encode()) + len(value.encode()) >= ARGUMENT_MAX:
            raise Rejected(
                f"{field}.{key}: is longer than any program can be given ({ARGUMENT_MAX} bytes)",
                field=f"{field}.{key}",
                allowed=f"at most {ARGUMENT_MAX} bytes",
            )
        total += size
    if total > total_max:
        raise Rejected(
            f"{field}: {total} bytes are too many; at most {total_max}",
            field=field,
            value=total,
            allowed=f"at most {total_max} bytes",
        )


def labels(given: dict[str, str]) -> None:
    if len(given) > LABELS_MAX:
        raise Rejected.many("labels", len(given), LABELS_MAX, "labels")
    for key, value in given.items():
        good = key.strip() == key and key.isprintable() and value.isprintable() and "=" not in key
        if not key or not good or len(key) > LABEL_MAX or len(value) > LABEL_MAX:
            raise Rejected.bad(
                "labels", f"{key}={value}", f"printable text of up to {LABEL_MAX} characters"
            )


def ulimits(given: dict[str, int]) -> dict[str, int]:
    for key in given:
        if key not in _LIMITS:
            raise Rejected.bad("ulimits", key, "known limits: " + ", ".join(sorted(_LIMITS)))
    return given


def retry_on(given: list[int | str]) -> tuple[str, ...]:
    """Exit codes and causes, as text."""
    if not given:
        return ()
    causes = [str(cause) for cause in Cause]
    wanted = tuple(str(entry) for entry in given)
    for entry in wanted:
        if entry not in causes and not (is_digits(entry) and len(entry) < 4 and int(entry) < 256):
            raise Rejected.bad("retry_on", entry, "an exit code (0 to 255) or " + ", ".join(causes))
    return wanted


def rows(given: Iterable[tuple[str, ...]]) -> None:
    total = 0
    for row in given:
        for value in row:
            total += len(value)
            if "\0" in value:
                raise Rejected.bad("parameters.rows", value, "no NUL characters")
    if total > ROWS_MAX:
        raise Rejected.bad("parameters.rows", total, f"at most {ROWS_MAX} characters in all")
