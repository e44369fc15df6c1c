# SPDX-License-Identifier: LGPL-2.1-or-later
"""The data read from a running kernel, before anything is made of them."""

from __future__ import annotations

from gilk.image.kernel.kallsyms import KernelSymbols
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class TextRegion:
    """The bytes of kernel memory from a live address on."""

    address: int
    data: bytes

    @property
    def end(self) -> int:
        return self.address + len(self.data)


@dataclass(frozen=True, slots=True)
class KernelTables:
    """The tables in which the kernel looks up addresses of instructions: arrays in their form in memory."""

    exceptions: TextRegion  # struct exception_table_entry
    jumps: TextRegion  # struct jump_entry: static keys
    bugs: TextRegion  # struct bug_entry
    static_calls: TextRegion  # struct static_call_site


@dataclass(frozen=True, slots=True)
class KernelPart:
    """The kernel itself, with the ``owner`` '', or a module. ``constants`` may hold addresses of code."""

    owner: str
    text: TextRegion
    constants: TextRegion
    tables: KernelTables


@dataclass(frozen=True)
class KernelSnapshot:
    """All that was read of a kernel. ``blacklist``: the ranges [start, end) in which the kernel forbids kprobes;
    ``probes``: the addresses of the kprobes that there are.
    """

    release: str
    build_id: str
    boot_id: str
    symbols: KernelSymbols
    parts: tuple[KernelPart, ...]
    blacklist: tuple[tuple[int, int], ...]
    probes: tuple[int, ...]
