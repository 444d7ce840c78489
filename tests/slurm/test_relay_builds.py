"""The compiled relay says the same, whether it is linked with a C library or with our own few."""

import os
import platform
import shutil
import socket
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rota.cli.service.slurm import WAYS
from rota.slurm.relay.programs import relay_sources
from tests.support.machine import missing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        platform.machine() not in ("x86_64", "aarch64"), reason="no bare build for this processor"
    ),
]
BARE, FULL = WAYS[0], ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
STRICT = ("-Wall", "-Wextra", "-Werror")
WAIT_S = 20.0


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """``sbatch``, linked in two ways."""
    if shutil.which("cc") is None:
        missing("there is no C compiler")
    folder = tmp_path_factory.mktemp("relay")
    for name, text in relay_sources().items():
        (folder / name).write_text(text)
    made = {}
    for kind, way in (("bare", BARE), ("full", FULL)):
        (folder / kind).mkdir()
        made[kind] = folder / kind / "sbatch"
        words = ["cc", "-O2", *STRICT, "-o", made[kind], "relay.c", *way]
        subprocess.run(words, check=True, cwd=folder, timeout=60)
    return made


def chunk(body: bytes) -> bytes:
    return b"%X\r\n" % len(body) + body + b"\r\n"


def frame(kind: bytes, body: bytes) -> bytes:
    return chunk(struct.pack(">cI", kind, len(body)) + body)


class Door:
    """Answers one relay with what a test wrote down, a frame for each frame that it sends."""

    def __init__(self, place: Path, *answers: bytes) -> None:
        self.heard = b""
        self._answers = answers
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(place))
        self._listener.listen()
        self._listener.settimeout(WAIT_S)

    def serve(self) -> None:
        line, _ = self._listener.accept()
        line.settimeout(WAIT_S)
        with self._listener, line, line.makefile("rb") as read:
            while (field := read.readline()) != b"\r\n":
                self.heard += field
            for answer in self._answers:
                size = int(read.readline(), 16)
                self.heard += read.read(size + 2)
                line.sendall(answer)


HEAD = b"HTTP/1.1 200 OK\r\nX-Request-Id: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
END = frame(b"x", b"\3")
LARGE = bytes(range(256)) * 1024


def played(
    program: Path, folder: Path, answers: tuple[bytes, ...], env: dict[str, str], stdin: bytes = b""
) -> tuple[int, bytes, bytes, bytes]:
    """The exit code, both outputs, and what was heard at the door."""
    (folder / "rota.sock").unlink(missing_ok=True)
    door = Door(folder / "rota.sock", *answers)
    words = [str(program), "--wrap", "true", "", "\xe4"]
    # What it holds at its end it need not give back.
    env = {**env, "ASAN_OPTIONS": "detect_leaks=0"}
    with ThreadPoolExecutor(1) as clerk:
        served = clerk.submit(door.serve)
        done = subprocess.run(
            words, env=env, cwd=folder, input=stdin, capture_output=True, timeout=WAIT_S
        )
        served.result()
    # The folders are named alike, so that both requests are of one length.
    heard = door.heard.replace(os.fsencode(program.parent), b"HERE")
    return done.returncode, done.stdout, done.stderr, heard


@pytest.mark.parametrize(
    ("answers", "stdin"),
    [
        ((HEAD + frame(b"o", b"Submitted\n") + END,), b""),
        ((HEAD + frame(b"e", b"careful\n") + frame(b"o", LARGE) + END,), b""),
        ((HEAD + frame(b"g", b"script"), END), b""),
        ((HEAD + frame(b"g", b"nothing/there"), END), b""),
        ((HEAD + frame(b"p", b"made\0" + LARGE), END), b""),
        ((HEAD + frame(b"p", b"no/such/folder\0x"), END), b""),
        ((HEAD + frame(b"l", b""), frame(b"I", b""), b"", END), b"yes\nand the rest"),
        ((b"HTTP/1.1 429 Too Many\r\nContent-Length:  17\r\n\r\n" + b'{"detail":"busy"}',), b""),
        ((b"HTTP/1.1 503 Away\r\ncontent-length: 2\r\n\r\n{}",), b""),
        ((b"SSH-2.0\r\n\r\n",), b""),
        ((b"",), b""),
    ],
)
def test_a_relay_without_a_c_library_says_what_the_other_one_says(
    builds: dict[str, Path], tmp_path: Path, answers: tuple[bytes, ...], stdin: bytes
) -> None:
    (tmp_path / "script").write_bytes(LARGE)
    state = {"ROTA_STATE_DIR": str(tmp_path), "ROTA_TOKEN": "rota_a_b.c"}
    env = {**state, "LONG": "x" * 100_000, "EMPTY": "", "ROTA_SLURM_FOLDER": "/elsewhere"}

    said = {
        kind: played(program, tmp_path, answers, env, stdin) for kind, program in builds.items()
    }

    assert said["bare"] == said["full"]
    heard = said["bare"][3]
    assert b"Authorization: Bearer rota_a_b\r\n" in heard
    assert heard.count(b"ROTA_SLURM_FOLDER=") == heard.count(b"ROTA_SLURM_FOLDER=HERE\0")


def test_a_relay_without_a_c_library_writes_a_large_file(
    builds: dict[str, Path], tmp_path: Path
) -> None:
    answers = (HEAD + frame(b"p", b"made\0" + LARGE), END)

    code, _out, _err, _heard = played(
        builds["bare"], tmp_path, answers, {"ROTA_STATE_DIR": str(tmp_path)}
    )

    assert code == 3
    assert (tmp_path / "made").read_bytes() == LARGE


@pytest.mark.parametrize("kind", ["bare", "full"])
@pytest.mark.parametrize(
    "env",
    [
        {"ROTA_URL": "unix://{}/rota.sock"},
        {"ROTA_URL": "{}/rota.sock"},
        {"ROTA_STATE_DIR": "."},
        {"XDG_STATE_HOME": "{}/state"},
        {"HOME": "{}/home", "XDG_STATE_HOME": "not/absolute"},
    ],
)
def test_a_relay_finds_the_socket_wherever_a_variable_says_it_is(
    builds: dict[str, Path], tmp_path: Path, kind: str, env: dict[str, str]
) -> None:
    filled = {name: value.format(tmp_path) for name, value in env.items()}
    for name in ("state/rota", "home/.local/state/rota"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).symlink_to(tmp_path)

    code, _out, _err, _heard = played(builds[kind], tmp_path, (HEAD + END,), filled)

    assert code == 3


def test_a_relay_without_a_c_library_waits_for_a_controller_and_then_says_that_it_is_away(
    builds: dict[str, Path], tmp_path: Path
) -> None:
    env = {"ROTA_STATE_DIR": str(tmp_path / "nowhere")}

    done = subprocess.run(
        [str(builds["bare"])], env=env, capture_output=True, text=True, timeout=WAIT_S
    )

    lead = "sbatch: error: Batch job submission failed: "
    away = "Unable to contact slurm controller (connect failure)\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", lead + away)
