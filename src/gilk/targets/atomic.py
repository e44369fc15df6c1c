# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sets and clears bits of memory that is shared with other processes, atomically: by futex(2), whose FUTEX_WAKE_OP
changes a word in one step. No thread waits at these words, so none is woken."""

from __future__ import annotations

import ctypes
import os
from typing import Final

_FUTEX: Final = 202
_WAKE_OP: Final = 5
_OR, _ANDN, _SHIFTED = 2, 3, 8  # FUTEX_OP_OR, FUTEX_OP_ANDN, FUTEX_OP_ARG_SHIFT: the argument is the number of a bit
_libc = ctypes.CDLL(None, use_errno=True)


def set_bit(view: memoryview, at: int, bit: int, on: bool) -> None:
    """Set or clear ``bit`` of the little-endian words from byte ``at`` on, which is a multiple of 4. Raises OSError."""
    word = ctypes.addressof(ctypes.c_uint32.from_buffer(view, at + bit // 32 * 4))
    operation = (_SHIFTED | (_OR if on else _ANDN)) << 28 | (bit % 32) << 12
    idle = ctypes.c_uint32()
    if _libc.syscall(_FUTEX, ctypes.byref(idle), _WAKE_OP, 0, None, ctypes.c_void_p(word), operation) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
