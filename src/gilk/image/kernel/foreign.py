# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds functions that are patched already: by another session, or by a tool that is not in the kernel's list of
probes.

The bytes there are not the functions' own, and it cannot be seen where the code that was moved away leads, so such
functions are left alone completely. Signs of patches are jumps out of all code that has symbols, also by way of
padding, and traps that control reaches; the kernel itself has neither.
"""

from __future__ import annotations

import numpy as np
from iced_x86 import Code
from numpy.typing import NDArray

from gilk.image.kernel import tables
from gilk.image.kernel.kallsyms import Addresses, KernelSymbols
from gilk.image.kernel.opcodes import OpcodeFlow
from gilk.image.kernel.snapshot import KernelPart
from gilk.image.kernel.sweep import Sweep


def patched(sweep: Sweep, parts: tuple[KernelPart, ...], symbols: KernelSymbols) -> Addresses:
    """The addresses of signs of patches."""
    rows = sweep.direct[sweep.flows[sweep.direct] != OpcodeFlow.CALL]
    away = rows[_unknown(sweep.targets[rows], parts, symbols)]
    bounced = rows[np.isin(sweep.targets[rows], sweep.starts[away])]
    signs: Addresses = sweep.starts[np.concatenate((away, bounced, _trapped(sweep, parts)))]
    return signs


def _unknown(targets: Addresses, parts: tuple[KernelPart, ...], symbols: KernelSymbols) -> NDArray[np.bool_]:
    """A mask of those ``targets`` that are neither in the kernel, including its code for booting, nor in a module."""
    low, high = symbols.find("_text"), symbols.find("_end")
    ranges = [(part.text.address, part.text.end) for part in parts]
    if low is not None and high is not None:
        ranges.append((low, high))
    unknown = np.ones(len(targets), np.bool_)
    for start, end in ranges:
        unknown &= (targets < np.uint64(start)) | (targets >= np.uint64(end))
    return unknown


def _trapped(sweep: Sweep, parts: tuple[KernelPart, ...]) -> NDArray[np.int64]:
    """The rows of int3 that something leads to or runs into. Behind calls that do not return, int3 are padding."""
    rows = np.flatnonzero(sweep.codes == Code.INT3)
    before = np.maximum(rows - 1, 0)
    falls = np.isin(sweep.flows[before], (OpcodeFlow.NEXT, OpcodeFlow.BRANCH)) & ~sweep.padding[before]
    runs_in = falls & (sweep.ends[before] == sweep.starts[rows])
    pairs = [pairs for part in parts for pairs in (
        tables.static_keys(part.tables.jumps), tables.exceptions(part.tables.exceptions),
    )]  # fmt: skip
    # There may be text behind ud2: Xen has its hypervisor emulate the instruction that follows "ud2; .ascii \"xen\"".
    branches = sweep.direct[sweep.flows[np.maximum(sweep.direct - 1, 0)] != OpcodeFlow.STOP]
    ways = np.concatenate((sweep.targets[branches], *(each.others for each in pairs)))
    trapped: NDArray[np.int64] = rows[runs_in | np.isin(sweep.starts[rows], ways)]
    return trapped
