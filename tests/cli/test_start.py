"""Commands start fast and import little: scripts call them in loops."""

import contextlib
import os
import pty
import resource
import signal
import subprocess
import sys

import pytest

#: In starts of a bare interpreter, so that it holds on a slow machine too.
BUDGET_STARTS = 10


def imports_of(*arguments):
    code = (
        "import sys; from rota.cli.main import _run; _run(sys.argv[1:]); "
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    environment = {**os.environ, "ROTA_STATE_DIR": "/nonexistent", "ROTA_URL": ""}
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return set(ended.stderr.splitlines()[-1].split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["version"], ["queue"], ["submit", "--", "true"], ["wait", "1"], ["--help"]]
)
def test_a_command_imports_no_framework(arguments):
    heavy = {"rich", "msgspec", "litestar", "asyncio", "uvicorn", "sqlalchemy", "psutil", "sqlite3"}

    assert not heavy & imports_of(*arguments)


@pytest.mark.slow
def test_the_version_needs_no_connection_library():
    assert "http.client" not in imports_of("version")


@pytest.mark.slow
def test_the_version_is_printed_within_the_budget():
    def cpu_s(*words):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    rounds = [(cpu_s("-m", "rota.cli.main", "version"), cpu_s("-c", "pass")) for _ in range(5)]
    best_s, bare_s = map(min, zip(*rounds, strict=True))

    assert best_s < BUDGET_STARTS * bare_s


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_traceback():
    pipeline = f"{sys.executable} -m rota.cli.main --help | true"

    ended = subprocess.run(["bash", "-c", pipeline], capture_output=True, text=True, check=False)

    assert "Traceback" not in ended.stderr
    assert "Exception" not in ended.stderr


def started(*arguments, before="pass"):
    """``rota`` as its entry point starts it, after some words of Python."""
    code = f"{before}\nfrom rota.cli.start import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )


#: Somebody presses Ctrl-C at the moment when the commands are imported.
INTERRUPTED = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "rota.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.slow
def test_an_interrupt_before_anything_happened_is_no_traceback():
    ended = started("version", before=INTERRUPTED)

    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.slow
def test_who_was_told_to_ignore_interrupts_goes_on_doing_so():
    ignoring = INTERRUPTED + "signal.signal(signal.SIGINT, signal.SIG_IGN)"

    ended = started("version", before=ignoring)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("rota ")


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("words", "code"), [("version", 0), ("nonsense", 2)])
def test_closed_streams_lead_nowhere_and_do_no_harm(closed, words, code):
    entry = "from rota.cli.start import main; main()"
    line = f"{sys.executable} -c '{entry}' {words} {closed}"

    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)

    assert ended.returncode == code
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", ["--help", "version"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_standard_output_is_one_line(words, unbuffered):
    entry = "from rota.cli.start import main; main()"
    line = f"{sys.executable} -c '{entry}' {words} >/dev/full"

    ended = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )

    assert ended.returncode == 1
    assert ended.stderr == "rota: standard output: No space left on device\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("surroundings", "coloured"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_are_for_terminals_that_show_them(tmp_path, surroundings, coloured):
    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    here = {"ROTA_STATE_DIR": str(tmp_path), "ROTA_URL": ""}
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "rota.cli.main", "doctor"],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        env={**plain, **here, **surroundings},
    ) as running:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 65536):
                said += piece
    os.close(ours)

    assert running.returncode == 1
    assert (b"\x1b[" in said) is coloured
