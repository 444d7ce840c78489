"""bpf(2), as far as a filter of devices needs it: load a program, attach it to a control group.

The standard library has no such call, and a library for it would bring a compiler along.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

_NUMBERS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361}
_LOAD, _ATTACH = 5, 8
_TYPE_CGROUP_DEVICE, _AT_CGROUP_DEVICE = 15, 6
#: Programs of groups above stay in force, and more may be attached below.
_ALLOW_MULTI = 2
_LICENSE = b"Apache-2.0"
_NAME = b"rota_devices"
_STEP_BYTES = 8


def attach_device_filter(program: bytes, group: str) -> None:
    """From now on the kernel asks the program; until the group is removed, with or without us."""
    try:
        loaded = _load(program)
        try:
            folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                wanted = struct.pack("=IIII", folder, loaded, _AT_CGROUP_DEVICE, _ALLOW_MULTI)
                _bpf(_ATTACH, wanted)
            finally:
                os.close(folder)
        finally:
            os.close(loaded)
    except OSError as error:
        raise OSError(error.errno, f"device filter: {error.strerror}", group) from None


def _load(program: bytes) -> int:
    steps = ctypes.create_string_buffer(program, len(program))
    license_text = ctypes.create_string_buffer(_LICENSE)
    return _bpf(
        _LOAD,
        struct.pack(
            "=IIQQIIQII16s",
            _TYPE_CGROUP_DEVICE,
            len(program) // _STEP_BYTES,
            ctypes.addressof(steps),
            ctypes.addressof(license_text),
            0,
            0,
            0,
            0,
            0,
            _NAME,
        ),
    )


def _bpf(command: int, attributes: bytes) -> int:
    number = _NUMBERS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"not known how to ask for it on {platform.machine()}")
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result: int = libc.syscall(number, command, buffer, len(attributes))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
