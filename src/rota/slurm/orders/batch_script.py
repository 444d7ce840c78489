"""Batch scripts: whether a text is one, and the options that stand in its comments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.slurm.call.command import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = "#SBATCH"
_PARTS = frozenset({"hetjob", "packjob"})


def check_script(body: bytes) -> None:
    """Refuse what no shell could run, in the words of sbatch."""
    problem = _problem(body)
    if problem:
        raise CommandFailed("".join(f"sbatch: error: {line}\n" for line in problem), 1)


def _problem(body: bytes) -> tuple[str, ...]:
    if not body:
        return ("Batch script is empty!",)
    if not body.strip():
        return ("Batch script contains only whitespace!",)
    if not body.startswith(b"#!"):
        return (
            "This does not look like a batch script.  The first",
            "line must start with #! followed by the path to an interpreter.",
            "For instance: #!/bin/sh",
        )
    if b"\0" in body:
        return (
            "The Slurm controller does not allow scripts that",
            "contain a NULL character '\\0'.",
        )
    if b"\r\n" in body:
        return (
            "Batch script contains DOS line breaks (\\r\\n)",
            "instead of expected UNIX line breaks (\\n).",
        )
    return ()


def directives(body: bytes, name: str) -> list[list[str]]:
    """The words of the ``#SBATCH`` lines, one list for each part of a heterogeneous job."""
    parts: list[list[str]] = [[]]
    for _, words in numbered_directives(body, name):
        if words and words[0] in _PARTS:
            parts.append(words[1:])
        else:
            parts[-1] += words
    return parts


def numbered_directives(body: bytes, name: str) -> Iterator[tuple[int, list[str]]]:
    """The words of each ``#SBATCH`` line, with its number.

    They end where the first command begins.
    """
    for number, line in enumerate(body.decode(errors="replace").splitlines(), 1):
        if line.startswith(MAGIC):
            yield number, split_words(line[len(MAGIC) :], f"{name}: line {number}")
        elif line.strip() and not line.lstrip().startswith("#"):
            return


def split_words(text: str, place: str) -> list[str]:
    """As sbatch splits a line: quotes and backslashes as in a shell, ``#`` begins a comment."""
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    letters = iter(text)
    for letter in letters:
        if quote:
            if letter == quote:
                quote = ""
            elif letter == "\\" and quote == '"':
                word = [*(word or []), next(letters, "")]
            else:
                word = [*(word or []), letter]
        elif letter.isspace():
            if word is not None:
                words.append("".join(word))
            word = None
        elif letter == "#" and word is None:
            break
        else:
            word = word if word is not None else []
            if letter in "\"'":
                quote = letter
            else:
                word.append(next(letters, "") if letter == "\\" else letter)
    if quote:
        raise CommandFailed(f"sbatch: fatal: {place}: Unmatched `{quote}` in [{text}]\n", 1)
    return [*words, "".join(word)] if word is not None else words
