"""The Slurm commands on PATH: send what was typed to Rota, print what comes back.

Started for every call of a command, so it runs with ``python -I -S -E`` and imports almost
nothing. All parsing and formatting is the server's.
"""

import os
import sys
import time

#: Names of types are for the type checker only: importing them takes time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

try:
    import _socket as socket  # What ``socket`` itself is made of, at a third of the start-up time.
except ImportError:  # pragma: no cover - other Pythons
    import socket  # type: ignore[no-redef]

#: Where Rota listens if nothing in the environment says so; written by ``rota slurm install``.
DEFAULT_SOCKET = ""
#: A controller that is being restarted is waited for.
PATIENCE_S = 1.5
PART = 65536
UNREACHABLE = "Unable to contact slurm controller (connect failure)"
#: What each command says in front of it.
COMPLAINTS = {
    "sbatch": "sbatch: error: Batch job submission failed: ",
    "srun": "srun: error: Unable to allocate resources: ",
    "salloc": "salloc: error: Job submit/allocate failed: ",
    "sbcast": "sbcast: error: ",
    "sattach": "sattach: error: Could not get job step info: ",
    "scancel": "scancel: error: ",
    "sinfo": "slurm_load_partitions: ",
    "sacct": "sacct: error: ",
    "sacctmgr": "sacctmgr: error: ",
    "sdiag": "slurm_get_statistics: ",
    "sprio": "sprio: error: ",
    "sshare": "sshare: error: ",
    "sstat": "sstat: error: ",
}


def places(env: dict[str, str]) -> list[str]:
    """Addresses of Rota in the order to try them."""
    url = env.get("ROTA_URL", "")
    if url:
        return [url[7:] if url.startswith("unix://") else url]
    if env.get("ROTA_STATE_DIR"):
        return [os.path.abspath(env["ROTA_STATE_DIR"]) + "/rota.sock"]
    home = env.get("XDG_STATE_HOME", "")
    if not home.startswith("/"):
        home = (env.get("HOME") or "/").rstrip("/") + "/.local/state"
    known = [DEFAULT_SOCKET, home + "/rota/rota.sock", "/run/rota/rota.sock"]
    return [place for place in known if place]


def connect(env: dict[str, str]) -> "tuple[Any, bytes]":
    """A connection to the first Rota that answers, and the head of a request to it."""
    until = time.monotonic() + PATIENCE_S
    while True:
        for place in places(env):
            try:
                return dial(place), head(env)
            except OSError as error:
                if place == DEFAULT_SOCKET and is_away(place, error):
                    break
        if time.monotonic() > until:
            return None, b""
        time.sleep(0.05)


def is_away(place: str, error: OSError) -> bool:
    """Whether the Rota that we belong to is merely down: nobody else must answer in its place."""
    if isinstance(error, FileNotFoundError):
        return os.path.isdir(os.path.dirname(place))
    return isinstance(error, ConnectionRefusedError)


def dial(place: str) -> "Any":  # noqa: ANN401 - of one of two modules
    if place.startswith("/"):
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.connect(place)
        return line
    import socket as whole

    scheme, _, rest = place.partition("://")
    host, _, port = rest.rstrip("/").rpartition(":")
    line = whole.create_connection((host.strip("[]"), int(port)), 10)
    line.settimeout(None)
    if scheme == "https":
        line = encrypted(line, host.strip("[]"))
    return line


def encrypted(line: "Any", host: str) -> "Any":  # noqa: ANN401 - likewise
    """Over TLS; a server with a certificate of its own is known by its fingerprint."""
    import base64
    import hashlib
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    named = os.environ.get("ROTA_FINGERPRINT") or token().partition(".")[2]
    if named:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_default_certs()
    line = context.wrap_socket(line, server_hostname=host)
    if named:
        shown = base64.urlsafe_b64encode(hashlib.sha256(line.getpeercert(True)).digest())
        if shown.rstrip(b"=") != named.encode():
            raise OSError("another certificate")
    return line


def token() -> str:
    return os.environ.get("ROTA_TOKEN", "")


def head(env: dict[str, str]) -> bytes:
    shown = env.get("ROTA_TOKEN", "").partition(".")[0]
    lines = ["POST /api/v1/slurm/run HTTP/1.1", "Host: rota", "Transfer-Encoding: chunked"]
    if shown:
        lines.append("Authorization: Bearer " + shown)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def request(program: str, argv: list[str]) -> bytes:
    """The first frame: what was typed, where and in which surroundings."""
    umask = os.umask(0o022)
    os.umask(umask)
    try:
        # A terminal that nobody sized is one, too.
        columns = os.get_terminal_size(1).columns or 80
    except (OSError, ValueError):
        columns = 0
    try:
        cwd = os.getcwdb()
    except OSError:
        cwd = b"/"
    # Where the commands are: jobs shall find these, however this one was called.
    here = os.path.dirname(os.path.realpath(sys.argv[0]))
    os.environ.setdefault("ROTA_SLURM_FOLDER", here)
    fixed = [b"1", program.encode(), cwd, b"%o" % umask, b"%d" % columns]
    fixed += [os.uname().nodename.encode(), b"%d" % len(argv)]
    words = [os.fsencode(word) for word in argv]
    pairs = [name + b"=" + value for name, value in os.environb.items()]
    return b"\0".join(fixed + words + pairs)


class Exchange:
    """One HTTP exchange, both bodies made of frames."""

    def __init__(self, line: "Any") -> None:  # noqa: ANN401 - likewise
        self.line = line
        self.buffer = b""
        self.left = 0
        self.first = True
        self.status = 0

    def send(self, kind: bytes, body: bytes, before: bytes = b"") -> None:
        frame = kind + len(body).to_bytes(4, "big") + body
        self.line.sendall(before + b"%x\r\n" % len(frame) + frame + b"\r\n")

    def _more(self) -> None:
        part = self.line.recv(PART)
        if not part:
            raise OSError("the line broke")
        self.buffer += part

    def _until(self, mark: bytes) -> bytes:
        while mark not in self.buffer:
            self._more()
        text, _, self.buffer = self.buffer.partition(mark)
        return text

    def begin(self) -> None:
        """Read the head of the answer."""
        lines = self._until(b"\r\n\r\n").split(b"\r\n")
        self.status = int(lines[0].split()[1])
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                self.left = int(value)
                self.first = False

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes of the body of the answer."""
        parts = b""
        while len(parts) < size:
            if not self.left:
                if not self.first:
                    self._until(b"\r\n")
                self.first = False
                self.left = int(self._until(b"\r\n").split(b";")[0], 16)
                if not self.left:
                    raise OSError("the answer ended early")
            if not self.buffer:
                self._more()
            part = self.buffer[: min(self.left, size - len(parts))]
            self.buffer = self.buffer[len(part) :]
            self.left -= len(part)
            parts += part
        return parts

    def frame(self) -> tuple[bytes, bytes]:
        head = self.read(5)
        return head[:1], self.read(int.from_bytes(head[1:], "big"))


def write(number: int, body: bytes) -> None:
    while body:
        body = body[os.write(number, body) :]


def read_file(path: bytes) -> bytes:
    """What the server wants to see: its content behind an errno of zero."""
    try:
        number = os.open(path, os.O_RDONLY)
        parts = []
        while part := os.read(number, PART):
            parts.append(part)
        os.close(number)
    except OSError as error:
        return (error.errno or 5).to_bytes(4, "big")
    return bytes(4) + b"".join(parts)


def write_file(path: bytes, body: bytes) -> bytes:
    """A file that the server makes here; how that went."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700)
        write(number, body)
        os.close(number)
    except OSError as error:
        return (error.errno or 5).to_bytes(4, "big")
    return bytes(4)


def send_input(exchange: Exchange) -> None:
    while True:
        try:
            part = os.read(0, PART)
        except OSError:
            part = b""
        exchange.send(b"I", part)
        if not part:
            return


def send_line(exchange: Exchange) -> None:
    """One line of what is typed: the answer to a question."""
    line = b""
    while not line.endswith(b"\n") and (part := os.read(0, 1)):
        line += part
    exchange.send(b"I", line)


def converse(exchange: Exchange) -> int:
    """Do what the server says, to the exit code."""
    while True:
        kind, body = exchange.frame()
        if kind == b"o":
            write(1, body)
        elif kind == b"e":
            write(2, body)
        elif kind == b"x":
            return body[0]
        elif kind == b"g":
            exchange.send(b"F", read_file(body))
        elif kind == b"p":
            exchange.send(b"F", write_file(*body.split(b"\0", 1)))
        elif kind == b"I":
            send_input(exchange)
        elif kind == b"l":
            send_line(exchange)


def refusal(exchange: Exchange, program: str) -> int:
    """A problem document instead of frames."""
    body = exchange.read(exchange.left)
    text = body.partition(b'"detail":"')[2].partition(b'"')[0]
    write(2, program.encode() + b": error: " + (text or b"the server refused") + b"\n")
    return 1


def main(program: str, argv: list[str]) -> int:
    env = dict(os.environ)
    line, begin = connect(env)
    if line is None:
        lead = COMPLAINTS.get(program, "slurm_load_jobs error: ")
        write(2, (lead + UNREACHABLE + "\n").encode())
        return 1
    exchange = Exchange(line)
    try:
        exchange.send(b"R", request(program, argv), begin)
        exchange.begin()
        return converse(exchange) if exchange.status == 200 else refusal(exchange, program)
    except BrokenPipeError:
        return 141
    except OSError as error:
        text = program + ": error: " + (error.strerror or str(error)) + "\n"
        write(2, text.encode())
        return 1


if __name__ == "__main__":
    name, *words = (os.path.basename(sys.argv[0]), *sys.argv[1:])
    if name == "relay.py" and words:
        name, *words = words
    try:
        os._exit(main(name, words))
    except KeyboardInterrupt:
        os._exit(130)
