# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds out, from QEMU's monitor, where the processors of a virtual machine are that does not answer any more."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_PROCESSOR: Final = re.compile(
    r"CPU#(\d+).*?RSP=([0-9a-f]+).*?RIP=([0-9a-f]+).*?HLT=(\d)", re.DOTALL
)  # of "info registers -a"
_WORD: Final = re.compile(r"0x([0-9a-f]{16})\b(?!:)")
_WORDS: Final = 200  # words of a stack that are looked at
_CALLERS: Final = 16
#: The addresses of the kernel's text, modules and patches (Documentation/x86/x86_64/mm.rst).
_CODE: Final = range(0xFFFF_FFFF_8000_0000, 0xFFFF_FFFF_FF00_0000)


def whereabouts(monitor: Callable[[str], str]) -> str:
    """A line for each processor: its program counter, and the addresses on its stack that look like return addresses.
    ``monitor`` runs a command of QEMU's monitor."""
    rows = _PROCESSOR.findall(monitor("info registers -a"))
    return "\n".join(_line(monitor, index, row) for index, row in enumerate(rows))


def _line(monitor: Callable[[str], str], index: int, row: tuple[str, str, str, str]) -> str:
    number, rsp, rip, halted = row
    monitor(f"cpu {index}")
    words = [int(word, 16) for word in _WORD.findall(monitor(f"x /{_WORDS}gx 0x{rsp}"))]
    way = [f"{word:#x}" for word in words if word in _CODE][:_CALLERS]
    state = ", halted" if halted == "1" else ""
    return f"processor {number}{state}: " + " < ".join([f"0x{rip}", *way])
