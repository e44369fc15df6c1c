# SPDX-License-Identifier: LGPL-2.1-or-later
"""Key combinations, read from the kernel's input devices (Documentation/input/input.rst, input-event-codes.h)."""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from types import TracebackType

from gilk.errors import TargetError, UsageError

DEVICES = Path("/dev/input")
_EVENT = struct.Struct("@llHHi")  # struct input_event: seconds, microseconds, type, code, value
_EV_KEY = 1
_UP = 0

_ROWS = ((2, "1234567890"), (16, "qwertyuiop"), (30, "asdfghjkl"), (44, "zxcvbnm"))
_CODES: dict[str, tuple[int, ...]] = {letter: (first + n,) for first, row in _ROWS for n, letter in enumerate(row)}
_CODES |= {f"f{n}": (58 + n,) for n in range(1, 11)} | {"f11": (87,), "f12": (88,)}
_CODES |= {"ctrl": (29, 97), "alt": (56, 100), "shift": (42, 54), "super": (125, 126)}
_CODES |= {"esc": (1,), "tab": (15,), "enter": (28,), "space": (57,), "pause": (119,), "scrolllock": (70,)}


def codes(keys: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """The codes of each key, two if there is a left and a right one. Raises UsageError `bad-event`."""
    for key in keys:
        if key not in _CODES:
            raise UsageError("bad-event", f"there is no key {key!r}", f"keys are {', '.join(sorted(_CODES))}")
    return tuple(_CODES[key] for key in keys)


class Keyboard:
    """Watches all input devices that can be read for a key combination. Use it as a context manager, or call
    close()."""

    def __init__(self, keys: tuple[str, ...], devices: Path = DEVICES) -> None:
        """Raises UsageError `bad-event`, TargetError `no-keyboard`."""
        self._wanted = codes(keys)
        self._down: set[int] = set()
        self._files: dict[int, bytes] = {}
        for path in sorted(devices.glob("event*")):
            with contextlib.suppress(OSError):
                self._files[os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)] = b""
        if not self._files:
            raise TargetError(
                "no-keyboard",
                f"there is no input device in {devices} that may be read",
                "it takes root, or group input",
            )

    def pressed(self) -> bool:
        """Whether the combination has been pressed since the last call."""
        found = False
        for file in self._files:
            for code, value in self._events(file):
                self._down.discard(code) if value == _UP else self._down.add(code)
                found |= value == 1 and code in self._wanted[-1] and self._together()
        return found

    def _together(self) -> bool:
        return all(not self._down.isdisjoint(either) for either in self._wanted)

    def _events(self, file: int) -> list[tuple[int, int]]:
        data = self._files[file]
        with contextlib.suppress(OSError):
            while part := os.read(file, 64 * _EVENT.size):
                data += part
        whole = len(data) - len(data) % _EVENT.size
        self._files[file] = data[whole:]
        return [(code, value) for _, _, kind, code, value in _EVENT.iter_unpack(data[:whole]) if kind == _EV_KEY]

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = {}

    def __enter__(self) -> Keyboard:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
