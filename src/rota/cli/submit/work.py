"""What a job runs: a command, a shell line or a script, taken exactly as it was given."""

from __future__ import annotations

import codecs
import os
import shlex
import shutil
import sys
from typing import Any, NamedTuple

from rota.client.errors import ClientError

#: The most that is sent as a script or as standard input.
MAX_TEXT_BYTES = 8 << 20


class Work(NamedTuple):
    """One of three: an argument list, a shell line, or a script with arguments.

    A script that an interpreter is called for is an argument list, too: it stays where it is.
    """

    argv: tuple[str, ...] = ()
    line: str = ""
    script: str = ""
    script_args: tuple[str, ...] = ()
    #: Names the script in messages; "" for a command.
    source: str = ""

    def body(self) -> dict[str, Any]:
        """Its part of the request."""
        if self.travels:
            return {"script": self.script, "script_args": list(self.script_args)}
        return {"command": self.line or list(self.argv)}

    @property
    def travels(self) -> bool:
        """Whether the text of a script is sent along."""
        return bool(self.source) and not self.argv

    def name(self) -> str:
        """A script is called after its file when nobody says otherwise."""
        base = "stdin" if self.source == "<stdin>" else os.path.basename(self.source)
        return "".join(char for char in base if char.isprintable())[:200].strip() or "script"


def work_from(words: tuple[str, ...], *, is_command: bool, line: str | None, run: bool) -> Work:
    """Which of the three the command line means.

    ``is_command``: the words came behind ``--``. ``run`` is more lenient: a word that is no file
    is a command there.
    """
    if line is not None:
        if words:
            raise ClientError(f"--shell takes the whole line; what is '{words[0]}' for?")
        if not line.strip():
            raise ClientError("--shell: the line is empty")
        return Work(line=line)
    if not words:
        raise ClientError("nothing to run: give '-- COMMAND', a script file, or - for stdin")
    if is_command:
        return _command(words)
    if words[0] == "-":
        return _script(_read_stdin(), "<stdin>", words[1:])
    if os.path.isfile(words[0]):
        return _python(_script(_read_file(words[0]), words[0], words[1:]))
    if os.path.isdir(words[0]):
        raise ClientError(f"{words[0]} is a folder; give a script, or '-- COMMAND'")
    if run:
        return _command(words)
    raise ClientError(
        f"there is no script {words[0]!r} here; for a command write: {_as_command(words)[:140]}"
    )


def _as_command(words: tuple[str, ...]) -> str:
    """How to say it. One word with spaces in it is a line for the shell."""
    if len(words) == 1 and " " in words[0]:
        return f"rota submit --shell {shlex.quote(words[0])}"
    return f"rota submit -- {shlex.join(words)}"


def _command(words: tuple[str, ...]) -> Work:
    if not words[0]:
        raise ClientError("the command is an empty word")
    return Work(argv=words)


def _script(raw: bytes, source: str, arguments: tuple[str, ...]) -> Work:
    """A script is text with something in it; everything else gets a clear refusal."""
    if not raw.strip():
        raise ClientError(f"{source}: the script is empty")
    if b"\0" in raw:
        raise ClientError(f"{source}: is not a text file; to run a program write '-- {source}'")
    if raw.startswith(codecs.BOM_UTF8):
        raise ClientError(
            f"{source}: begins with a byte order mark, which no shell knows; "
            "save it as UTF-8 without one"
        )
    text = as_text(raw, source)
    if text.partition("\n")[0].endswith("\r"):
        raise ClientError(f"{source}: has DOS line ends (\\r\\n); convert it with dos2unix")
    return Work(script=text, script_args=arguments, source=source)


def _python(work: Work) -> Work:
    """A file of Python that names no interpreter is run as ``python FILE`` in its place, so that
    it finds the modules beside it; a shell would make nothing of it."""
    if not work.source.endswith(".py") or work.script.startswith("#!"):
        return work
    program = next((name for name in ("python", "python3") if shutil.which(name)), "")
    if not program:
        raise ClientError(
            f"{work.source}: there is no python in PATH; write '-- /path/to/python {work.source}'"
        )
    return work._replace(argv=(program, work.source, *work.script_args))


def as_text(raw: bytes, source: str) -> str:
    """UTF-8 of a bearable size."""
    if len(raw) > MAX_TEXT_BYTES:
        raise ClientError(
            f"{source}: larger than {MAX_TEXT_BYTES >> 20} MiB; put it in a file "
            "that the job reads itself"
        )
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ClientError(f"{source}: is not UTF-8 text (byte {error.start})") from None


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(MAX_TEXT_BYTES + 1)


def _read_stdin() -> bytes:
    return sys.stdin.buffer.read(MAX_TEXT_BYTES + 1)


def read_text(path: str, option: str) -> str:
    """The text of a file that an option names; ``-`` is standard input."""
    if path == "-":
        return as_text(_read_stdin(), "<stdin>")
    try:
        return as_text(_read_file(path), path)
    except OSError as error:
        raise ClientError(f"{option}: {path}: {error.strerror}") from None


def with_hooks(work: Work, prologue: str, epilogue: str) -> Work:
    """The work between two shell lines, as a bash wrapper; its exit code is the work's.

    A prologue that fails ends the job. The epilogue runs after a failure too, and after TERM as
    far as the grace allows: the trap keeps the wrapper alive until the work has gone.
    """
    if not prologue and not epilogue:
        return work
    before = f"{{ {prologue}\n}} || exit $?\n" if prologue else ""
    after = f"{{ {epilogue}\n}}\n" if epilogue else ""
    if work.travels:
        return _wrapped_script(work, before, after)
    # A subshell, so that an `exit` in the line does not skip the epilogue.
    inner = f"(\n{work.line}\n)" if work.line else '"$@"'
    text = f"trap : TERM INT\n{before}{inner}\nstatus=$?\n{after}exit $status"
    return Work(argv=("/bin/bash", "-c", text, "rota", *work.argv))


def _wrapped_script(work: Work, before: str, after: str) -> Work:
    """The script travels inside the wrapper, byte for byte, and runs from a temporary file."""
    mark = "ROTA_SCRIPT"
    while mark in work.script:
        mark += "_"
    ends = "" if work.script.endswith("\n") else "\n"
    text = (
        "#!/bin/bash\ntrap : TERM INT\n"
        'file=$(mktemp "${TMPDIR:-/tmp}/rota.XXXXXX") || exit $?\ntrap \'rm -f "$file"\' EXIT\n'
        f"cat > \"$file\" <<'{mark}'\n{work.script}{ends}{mark}\n"
        f'chmod u+x "$file"\n{before}"$file" "$@"\nstatus=$?\n{after}exit $status\n'
    )
    return work._replace(script=text)
