# SPDX-License-Identifier: LGPL-2.1-or-later
"""The checker, linker and helpers of the driver's D programs, as a library in this process."""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Sequence
from pathlib import Path

from gilk.lang.d.kernel_code import KernelCode
from gilk.targets.kernel import driver_abi
from gilk.targets.kernel.d_messages import CodeVerdict, pack_program
from gilk.toolchain.dprogram import ClauseEvent, program_flags
from tests.native.host import ALONE, build

SOURCE = Path(__file__).parent / "library.c"
TIME = 50_000
MOST = 1_000_000  # ILK_D_TIME_MAX, so that programs of any length run
_U32, _POINTER = ctypes.c_uint32, ctypes.c_void_p


@functools.cache
def library() -> ctypes.CDLL:
    flags = (*program_flags(), "-O2", "-mgeneral-regs-only", "-shared", "-fPIC", "-fvisibility=hidden", *ALONE)
    return ctypes.CDLL(str(build([SOURCE], "checked.so", *flags)))


def check(
    code: bytes, frame: int, entries: Sequence[int] = (0,), clausetime: int = TIME, deeds: bool = False
) -> tuple[CodeVerdict, int]:
    """The checker's verdict, and the place of the error."""
    ways = (_U32 * (len(code) + 1))()
    where = _U32()
    verdict = library().checked(
        code, _U32(len(code)), _U32(frame), _U32(clausetime), _U32(len(entries)), (_U32 * len(entries))(*entries), ways,
        ctypes.byref(where), _U32(deeds),
    )  # fmt: skip
    return CodeVerdict(verdict), where.value


def linked_to(code: bytes, at: int, helpers: int, out: int) -> bytes:
    """Checked code, linked for an emulator."""
    copy = ctypes.create_string_buffer(code, len(code) + 8)
    library().linked_to(copy, _U32(len(code)), ctypes.c_uint64(at), ctypes.c_uint64(helpers), ctypes.c_uint64(out))
    return copy.raw[: len(code)]


class Program:
    """A program that is loaded here; there is one at a time. ``memory`` is its address."""

    def __init__(self, code: KernelCode, layout: Sequence[int], memory: int) -> None:
        assert check(code.code, code.frame, code.entries, MOST, True)[0] is CodeVerdict.SOUND
        body = driver_abi.message(pack_program(code, layout, MOST))
        self._message = ctypes.create_string_buffer(body, len(body))
        self._code = mmap.mmap(-1, len(code.code) + 8)
        self.at = ctypes.addressof(ctypes.c_char.from_buffer(self._code))
        self._code[: len(code.code)] = code.code
        library().linked(_POINTER(self.at), _U32(len(code.code)), ctypes.c_uint64(self.at))
        protect = ctypes.CDLL(None).mprotect
        assert not protect(_POINTER(self.at), ctypes.c_size_t(len(self._code)), mmap.PROT_READ | mmap.PROT_EXEC)
        library().loaded(self._message, _POINTER(memory))

    def settle(self, cpu: int = 0) -> int:
        """Append the records of committed speculations that clauses have left to the others. Returns their number."""
        return int(library().settled(_U32(cpu)))

    def fire(self, group: int, event: ClauseEvent, always: bool) -> None:
        library().fired(_POINTER(self.at), _U32(group), _U32(always), ctypes.byref(event))
