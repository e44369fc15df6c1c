# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run checked code under an emulator that reports every access. The results of helpers, and the memory that they
change, are random."""

from __future__ import annotations

import random
from importlib import import_module
from typing import Any

from tests.native.checked.library import linked_to

u: Any = import_module("unicorn")
x: Any = import_module("unicorn.x86_const")

CODE, HELPERS, OUT, FRAME, STACK = 0x10000000, 0x20000000, 0x20010000, 0x30000000, 0x40000000
_CODE_SIZE, _STACK_SIZE = 1 << 20, 0x1000
_TOP = STACK + _STACK_SIZE - 64  # of the stack, where the return address of whoever entered would be
_CLOBBERED = ("RAX", "RCX", "RDX", "RSI", "RDI", "R8", "R9", "R10", "R11")
_KEPT = {"RSP": _TOP, "RBX": FRAME, "RBP": 0xB0, "R12": 0xC0, "R13": 0xD0, "R14": 0xE0, "R15": 0xF0}
#: Frequent results of helpers.
_LIKELY = (0, 0, 1, 1, (1 << 64) - 1, 1 << 63, 0x7FFFFFFF, FRAME)


class Escaped(Exception):
    """The code did something that checked code must not do."""


class Emulator:
    def __init__(self) -> None:
        self._engine = engine = u.Uc(u.UC_ARCH_X86, u.UC_MODE_64)
        engine.mem_map(CODE, _CODE_SIZE)
        engine.mem_map(HELPERS, 0x20000)
        engine.mem_map(FRAME - 0x10000, 0x30000)  # all mapped, so that the hook reports accesses
        engine.mem_map(STACK, _STACK_SIZE)
        engine.mem_write(HELPERS, b"\xc3" * 0x20000)
        engine.hook_add(u.UC_HOOK_MEM_READ | u.UC_HOOK_MEM_WRITE, self._touched)
        engine.hook_add(u.UC_HOOK_CODE, self._stepped)
        engine.hook_add(u.UC_HOOK_MEM_INVALID, self._beyond)
        self._random = random.Random(0)
        self._frame = self._steps = self._most = self._size = 0
        self._wrong = ""
        self.called: set[int] = set()  # helpers, by number, in the last run

    def run(self, code: bytes, entry: int, frame: int, most: int, seed: int, linked: bool = False) -> int:
        """Run from a group to the exit. Returns the number of instructions, at most ``most``. Raises Escaped.

        With ``linked``, unchecked code runs as it is.
        """
        self._engine.mem_write(CODE, b"\xcc" * (len(code) + 64))
        self._engine.mem_write(CODE, code if linked else linked_to(code, CODE, HELPERS, OUT))
        self._engine.ctl_remove_cache(CODE, CODE + _CODE_SIZE)
        self._random, self._frame, self._most, self._steps, self._wrong = random.Random(seed), frame, most, 0, ""
        self._size = len(code)
        self.called = set()
        for name in _CLOBBERED:
            self._set(name, self._random.getrandbits(64))
        for name, value in _KEPT.items():
            self._set(name, value)
        try:
            self._engine.emu_start(CODE + entry, OUT)
        except u.UcError as error:
            raise Escaped(self._wrong or str(error)) from None
        for name, value in _KEPT.items():
            if self._engine.reg_read(getattr(x, f"UC_X86_REG_{name}")) != value:
                self._tell(f"{name} has changed")
        if self._wrong:
            raise Escaped(self._wrong)
        return self._steps

    def _set(self, name: str, value: int) -> None:
        self._engine.reg_write(getattr(x, f"UC_X86_REG_{name}"), value)

    def _tell(self, what: str) -> None:
        self._wrong = self._wrong or what
        self._engine.emu_stop()

    def _touched(self, engine: Any, access: int, address: int, size: int, value: int, data: object) -> None:
        in_frame = address >= FRAME and address + size <= FRAME + self._frame
        if not in_frame and not (address >= _TOP - 8 and address + size <= _TOP):
            self._tell(f"it touches {address:#x}")

    def _beyond(self, engine: Any, access: int, address: int, size: int, value: int, data: object) -> bool:
        self._tell(f"it touches {address:#x}")
        return False

    def _stepped(self, engine: Any, address: int, size: int, data: object) -> None:
        self._steps += 1
        if self._steps > self._most:
            self._tell("it does not end")
        elif HELPERS <= address < OUT:
            self._helped(address)
        elif address != OUT and not CODE <= address < CODE + self._size:
            self._tell(f"it goes to {address:#x}")

    def _helped(self, address: int) -> None:
        """Called at the entry of a helper, which must be called from the code with its frame."""
        engine = self._engine
        if address % 16 or engine.reg_read(x.UC_X86_REG_RDI) != FRAME or engine.reg_read(x.UC_X86_REG_RSP) != _TOP - 8:
            self._tell("it calls what is no helper, or not as one")
        self.called.add((address - HELPERS) // 16)
        for name in _CLOBBERED:
            self._set(name, self._random.choice((*_LIKELY, self._random.getrandbits(64))))
