"""A network between namespaces whose weather the tests make.

Every host is a network namespace with one interface, a TUN device; whatever is sent there comes out
here as a packet, and is written to the device of whom it is for: at once, later, twice or never.
So delay, jitter, reordering, duplicates, loss, cuts and one-way cuts work on every kernel that has
TUN devices, also where the queueing discipline ``netem`` was not built in.
"""

from __future__ import annotations

import fcntl
import heapq
import itertools
import os
import random
import selectors
import shutil
import struct
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TUN = Path("/dev/net/tun")
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
PACKET_BYTES = 65536
#: Where the address of the receiver stands in a packet of IPv4.
TO = slice(16, 20)
PROGRAMS = ("ip", "nsenter")

_numbers = itertools.count(1)


def lacking() -> str:
    """What this machine lacks for networks of our own; empty: nothing."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"no program {' or '.join(absent)} (packages iproute2 and util-linux)"
    if os.geteuid() != 0:
        return "needs the rights of root"
    if not TUN.exists():
        return f"no {TUN}: the kernel has no TUN devices"
    return ""


@dataclass(frozen=True)
class Weather:
    """What happens to the packets of one direction."""

    cut: bool = False
    delay_s: float = 0.0
    #: Each packet is up to so much later: enough of it, and packets overtake each other.
    jitter_s: float = 0.0
    loss: float = 0.0
    twice: float = 0.0

    def fates(self, chance: random.Random) -> Iterator[float]:
        """After how long a packet arrives; nothing: never; two numbers: twice."""
        if self.cut or chance.random() < self.loss:
            return
        yield self.delay_s + chance.random() * self.jitter_s
        if chance.random() < self.twice:
            yield self.delay_s + chance.random() * self.jitter_s


FAIR = Weather()


class Ether:
    """All hosts of one network, and a thread that carries their packets."""

    def __init__(self, seed: int) -> None:
        self._id = f"rota{os.getpid()}x{next(_numbers)}"
        self._chance = random.Random(seed)
        self._devices: dict[bytes, int] = {}
        self._senders: dict[int, bytes] = {}
        self._spaces: list[str] = []
        #: By the address of the sender and that of the receiver.
        self._weather: dict[tuple[bytes, bytes], Weather] = {}
        self._later: list[tuple[float, int, int, bytes]] = []
        self._order = itertools.count()
        self._poll = selectors.DefaultSelector()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._carry, name="ether", daemon=True)
        self.carried = self.dropped = 0

    def add(self, address: str) -> str:
        """A host with this address in 10.77.0.0/24; the name of its namespace."""
        name = f"{self._id}-{address.rpartition('.')[2]}"
        device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        interface = f"r{os.getpid() % 100000}n{next(_numbers)}"
        request = struct.pack("16sH22x", interface.encode(), IFF_TUN | IFF_NO_PI)
        fcntl.ioctl(device, TUNSETIFF, request)
        # One that an aborted run left behind, whose process had our number.
        _ip("netns", "delete", name, check=False)
        _ip("netns", "add", name)
        self._spaces.append(name)
        _ip("link", "set", interface, "netns", name)
        _ip("-n", name, "address", "add", f"{address}/24", "dev", interface)
        for link in ("lo", interface):
            _ip("-n", name, "link", "set", link, "up")
        packed = bytes(map(int, address.split(".")))
        self._devices[packed] = device
        self._senders[device] = packed
        self._poll.register(device, selectors.EVENT_READ)
        return name

    def start(self) -> None:
        self._thread.start()

    def set(self, sender: str, receiver: str, weather: Weather) -> None:
        pair = (bytes(map(int, sender.split("."))), bytes(map(int, receiver.split("."))))
        self._weather[pair] = weather

    def clear_up(self) -> None:
        """Fair weather everywhere."""
        self._weather.clear()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for device in self._senders:
            os.close(device)
        for name in self._spaces:
            _ip("netns", "delete", name, check=False)

    def _carry(self) -> None:
        while not self._stop.is_set():
            wait_s = 0.2
            if self._later:
                wait_s = min(wait_s, max(0.0, self._later[0][0] - time.monotonic()))
            for key, _ in self._poll.select(wait_s):
                self._take(key.fd)
            while self._later and self._later[0][0] <= time.monotonic():
                _, _, device, packet = heapq.heappop(self._later)
                self._deliver(device, packet)

    def _take(self, device: int) -> None:
        """Everything that waits at one device."""
        while True:
            try:
                packet = os.read(device, PACKET_BYTES)
            except BlockingIOError:
                return
            to = packet[TO]
            receiver = self._devices.get(to)
            if receiver is None or packet[0] >> 4 != 4:
                continue
            weather = self._weather.get((self._senders[device], to), FAIR)
            if weather is FAIR:
                self._deliver(receiver, packet)
                continue
            fates = list(weather.fates(self._chance))
            self.dropped += not fates
            for late_s in fates:
                due_s = time.monotonic() + late_s
                heapq.heappush(self._later, (due_s, next(self._order), receiver, packet))

    def _deliver(self, device: int, packet: bytes) -> None:
        try:
            os.write(device, packet)
            self.carried += 1
        except OSError:
            self.dropped += 1  # Its queue is full, or it is being taken down.


def _ip(*args: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *args], capture_output=True, text=True, check=False, timeout=60)
    if check and done.returncode:
        raise OSError(f"ip {' '.join(args)}: {done.stderr.strip()}")
