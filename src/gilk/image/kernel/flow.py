# SPDX-License-Identifier: LGPL-2.1-or-later
"""The control flow of a kernel that the bytes of its instructions do not show: other targets, and the meaning
of jumps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import numpy as np
from iced_x86 import Code
from numpy.typing import NDArray

from gilk.image.kernel import tables
from gilk.image.kernel.functions import Head
from gilk.image.kernel.kallsyms import Addresses, KernelSymbols
from gilk.image.kernel.opcodes import OpcodeFlow
from gilk.image.kernel.snapshot import KernelPart, TextRegion
from gilk.image.kernel.sweep import Sweep

_RETURNS: Final = re.compile(r"(__x86|retbleed|srso|srso_alias|its|call_depth)_return_thunk|zen_untrain_ret")
_DISPATCHERS: Final = re.compile(r"__x86_indirect_(its_|call_|jump_)?thunk_r\w+")
_NOP: Final = bytes.fromhex("0f1f440000")
_ENDBR: Final = bytes.fromhex("f30f1efa")
_TRACERS: Final = ("__fentry__", "ftrace_caller", "ftrace_regs_caller", "ftrace_stub")
_KEY, _TRAMPOLINE = "__SCK__", "__SCT__"


def returns(heads: Iterable[Head]) -> frozenset[int]:
    """The addresses of return thunks: a jump there is a return."""
    return _matching(heads, _RETURNS)


def dispatchers(heads: list[Head], symbols: KernelSymbols) -> frozenset[int]:
    """The addresses of retpolines and of trampolines of static calls: the target of a jump or call there is
    not known.
    """
    low, high = (symbols.find(f"__static_call_text_{end}") or 0 for end in ("start", "end"))
    return _matching(heads, _DISPATCHERS) | {head.address for head in heads if low <= head.address < high}


def _matching(heads: Iterable[Head], pattern: re.Pattern[str]) -> frozenset[int]:
    return frozenset(head.address for head in heads if any(pattern.fullmatch(name) for name in head.names))


def fentries(texts: Iterable[TextRegion], heads: list[Head], sweep: Sweep, symbols: KernelSymbols) -> Addresses:
    """The addresses of the instructions at functions' entries that belong to ftrace: its nop, or a call out of the
    kernel's code.
    """
    regions = sorted(texts, key=lambda region: region.address)
    starts = np.array([head.address for head in heads], np.uint64)
    found = [np.zeros(0, np.uint64)]
    tracers = np.array([at for name in _TRACERS if (at := symbols.find(name)) is not None], np.uint64)
    for region in regions:
        low, high = np.searchsorted(starts, np.array([region.address, region.end], np.uint64))
        offsets = (starts[low:high] - np.uint64(region.address)).astype(np.int64)
        data = region.data
        skip = [at + 4 if data.startswith(_ENDBR, at) else at for at in offsets.tolist()]
        likely = np.array([at for at in skip if data.startswith((_NOP, b"\xe8"), at)], np.uint64)
        found.append(likely + np.uint64(region.address))
    sites: Addresses = np.concatenate(found)
    targets = sweep.targets[sweep.row(sites)]
    ours: Addresses = sites[(targets == 0) | np.isin(targets, tracers) | _outside(targets, regions)]
    return ours


def _outside(targets: Addresses, regions: list[TextRegion]) -> NDArray[np.bool_]:
    outside = np.ones(len(targets), np.bool_)
    for region in regions:
        outside &= (targets < np.uint64(region.address)) | (targets >= np.uint64(region.end))
    return outside


def detours(parts: Iterable[KernelPart], sweep: Sweep, symbols: KernelSymbols) -> dict[int, tuple[int, ...]]:
    """The addresses that the instruction at each address may lead to, besides those in its bytes.

    A static key's branch may be on or off, an instruction that faults goes on at its fixup, the function continues
    behind hlt and behind a WARN's trap, and a static call that is a nop now may be a call next.
    """
    ways: dict[int, set[int]] = {}
    halts = sweep.codes == Code.HLT
    _add(ways, sweep.starts[halts], sweep.ends[halts])
    trampolines = _trampolines(symbols)
    for part in parts:
        known = part.tables
        keys = tables.static_keys(known.jumps)
        _add(ways, keys.sites, keys.others)
        rows = sweep.row(keys.sites)
        _add(ways, keys.sites[rows >= 0], sweep.ends[rows[rows >= 0]])
        faults = tables.exceptions(known.exceptions)
        _add(ways, faults.sites, faults.others)
        bugs, warnings = tables.bugs(known.bugs)
        _add(ways, bugs[warnings], bugs[warnings] + np.uint64(2))
        calls = tables.static_calls(known.static_calls)
        rows = sweep.row(calls.sites)
        idle = (rows >= 0) & (sweep.flows[rows] != OpcodeFlow.CALL)
        leads = np.array([trampolines.get(key, key) for key in calls.others[idle].tolist()], np.uint64)
        _add(ways, calls.sites[idle], leads)
    return {site: tuple(sorted(ways[site])) for site in ways}


def _add(ways: dict[int, set[int]], sites: Addresses, others: Addresses) -> None:
    for site, other in zip(sites.tolist(), others.tolist(), strict=True):
        ways.setdefault(site, set()).add(other)


def _trampolines(symbols: KernelSymbols) -> dict[int, int]:
    """The address of each static call's trampoline, by the address of its key."""
    known = dict(zip(symbols.names, symbols.addresses.tolist(), strict=True))
    keys = ((name, at) for name, at in known.items() if name.startswith(_KEY))
    return {at: known[_TRAMPOLINE + name[len(_KEY) :]] for name, at in keys if _TRAMPOLINE + name[len(_KEY) :] in known}
