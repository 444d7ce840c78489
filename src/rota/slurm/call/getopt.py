"""Options as glibc's ``getopt_long`` takes them, with its messages.

Scripts glue values to options, bundle short ones and shorten long ones; a parser that is
friendlier takes a different set of command lines than Slurm does.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NO, REQUIRED, OPTIONAL = 0, 1, 2


class BadOption(Exception):
    """What getopt would have printed, with the name of the program."""


class Option(NamedTuple):
    """One name of an option. ``key`` is the same for all names and for the letter."""

    name: str
    key: str
    short: str = ""
    arg: int = NO


class OptionEntry(NamedTuple):
    """One option, as people read it."""

    letter: str
    names: tuple[str, ...]
    arg: int
    #: What stands for its value, and what it does.
    value: str
    says: str

    @property
    def takes(self) -> str:
        """Nothing, ``=VALUE`` or ``[=VALUE]``."""
        if self.arg == NO:
            return ""
        return f"[={self.value}]" if self.arg == OPTIONAL else f"={self.value}"


class OptionTable:
    """The options of one command, each written as ``"x name|alias=VALUE: what it does"``.

    The letter in front may be missing. ``=`` behind the names: it takes a value; ``=?``: it may
    take one, glued to it; nothing: it takes none. A word of one letter has no long name.
    ``later``: what versions after 22.05 have; by the full name only, so that short forms stay.
    """

    def __init__(self, *lines: str, later: Iterable[str] = ()) -> None:
        self.entries = list(map(read_entry, lines))
        self.long: list[Option] = []
        self.short: dict[str, Option] = {}
        for entry in self.entries:
            for name in entry.names:
                option = Option(name, entry.names[0], entry.letter, entry.arg)
                if len(name) > 1:
                    self.long.append(option)
                if entry.letter:
                    self.short.setdefault(entry.letter, option)
        # In this order glibc names them when a short form could be several of them.
        self.long.sort(key=lambda option: option.name)
        self.by_name = {option.name: option for option in self.long}
        added = list(map(read_entry, later))
        self.entries += added
        for entry in added:
            for name in entry.names:
                option = Option(name, entry.names[0], "", entry.arg)
                self.by_name.setdefault(name, option)


@cache
def read_entry(line: str) -> OptionEntry:
    """What a line of a table says of an option."""
    head, _, says = line.partition(": ")
    letter, _, names = head.rpartition(" ")
    plain, mark, value = names.partition("=")
    arg = OPTIONAL if value[:1] == "?" else REQUIRED if mark else NO
    alone = letter or (plain if len(plain) == 1 else "")
    return OptionEntry(alone, tuple(plain.split("|")), arg, value.removeprefix("?"), says)


class Parsed(NamedTuple):
    """Options by key in the order given (no value: an empty text), and what is left."""

    options: list[tuple[str, str]]
    rest: list[str]


def parse(table: OptionTable, argv: Sequence[str], program: str, *, permute: bool = True) -> Parsed:
    """Read a command line. Without ``permute`` the first word that is no option ends it."""
    options: list[tuple[str, str]] = []
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        if word == "--":
            rest += words
        elif word.startswith("--"):
            options.append(_long(table, word, words, program))
        elif word.startswith("-") and word != "-":
            options += _short(table, word, words, program)
        else:
            rest.append(word)
            if not permute:
                rest += words
    return Parsed(options, rest)


def _long(table: OptionTable, word: str, words: Iterator[str], program: str) -> tuple[str, str]:
    name, mark, value = word[2:].partition("=")
    option = _find(table, name, word, program)
    if mark:
        if option.arg == NO:
            raise BadOption(f"{program}: option '--{option.name}' doesn't allow an argument")
        return option.key, value
    if option.arg == REQUIRED:
        following = next(words, None)
        if following is None:
            raise BadOption(f"{program}: option '--{option.name}' requires an argument")
        return option.key, following
    return option.key, ""


def _find(table: OptionTable, name: str, word: str, program: str) -> Option:
    """The option of this name, or the only one that begins so."""
    if (exact := table.by_name.get(name)) is not None:
        return exact
    close = [option for option in table.long if option.name.startswith(name)]
    if not close:
        raise BadOption(f"{program}: unrecognized option '{word}'")
    if any((option.key, option.arg) != (close[0].key, close[0].arg) for option in close):
        known = "".join(f" '--{option.name}'" for option in close)
        raise BadOption(f"{program}: option '{word}' is ambiguous; possibilities:{known}")
    return close[0]


def _short(
    table: OptionTable, word: str, words: Iterator[str], program: str
) -> Iterator[tuple[str, str]]:
    rest = word[1:]
    while rest:
        letter, rest = rest[0], rest[1:]
        option = table.short.get(letter)
        if option is None:
            raise BadOption(f"{program}: invalid option -- '{letter}'")
        if option.arg == NO:
            yield option.key, ""
            continue
        if not rest and option.arg == REQUIRED:
            following = next(words, None)
            if following is None:
                raise BadOption(f"{program}: option requires an argument -- '{letter}'")
            rest = following
        yield option.key, rest
        return
