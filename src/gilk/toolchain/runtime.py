# SPDX-License-Identifier: LGPL-2.1-or-later
"""The runtime with which every arena begins: as it came with the package, or built on first use and kept."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from gilk.cache.arrays import load_arrays, store_arrays
from gilk.cache.key import made_of
from gilk.image.elf import load
from gilk.toolchain.compilers import compiler, directory, flags
from gilk.toolchain.runtime_file import SHIPPED, build, read_files
from gilk.values import dataclass

_SYMBOLS = (
    *("gilk_claim_thunk", "gilk_registers_thunk", "gilk_vector_thunk", "gilk_log_registers", "gilk_params"),
    *("gilk_side_claim_thunk", "gilk_side_registers_thunk", "gilk_side_vector_thunk"),
    *("gilk_side_plain_thunk", "gilk_side_values_thunk"),
    *("gilk_signal_enter", "gilk_signal_enter_go", "gilk_signal_leave", "gilk_gate_reached"),
    *("gilk_advice_enter", "gilk_advice_returned", "gilk_advice_proceed", "gilk_advice_proceed_with"),
    *("gilk_advice_pass", "gilk_advice_reached", "gilk_advice_jumps", "gilk_advice_stays"),
    *("gilk_advice_jumps_back", "gilk_advice_unwinds", "gilk_advice_brief"),
    *("gilk_access_enter", "gilk_sigreturn", "gilk_copy_enter", "gilk_copy_leave"),
    *("gilk_trapped", "gilk_trapped_read", "gilk_trapped_written"),
    *("gilk_onward_jumps", "gilk_onward_passes", "gilk_onward_enters", "gilk_onward_begins", "gilk_onward_returns"),
)


@dataclass(frozen=True)
class Runtime:
    """Position-independent code; ``symbols`` are offsets from its start."""

    code: bytes
    symbols: dict[str, int]


@functools.cache
def runtime() -> Runtime:
    """The runtime, from the cache if it is there. Raises CompileError where it did not come with the package and there
    is no compiler."""
    key = f"runtime-{_digest()}"
    kept = load_arrays(key)
    if kept is not None and {"code", "offsets"} <= kept.keys() and len(kept["offsets"]) == len(_SYMBOLS):
        return Runtime(kept["code"].tobytes(), dict(zip(_SYMBOLS, kept["offsets"].tolist(), strict=True)))
    made = _made()
    offsets = np.array([made.symbols[name] for name in _SYMBOLS], np.int64)
    store_arrays(key, {"code": np.frombuffer(made.code, np.uint8), "offsets": offsets})
    return made


def _digest() -> str:
    if SHIPPED.exists():
        return made_of("shipped", [SHIPPED]).hex()
    return made_of((compiler(), flags()), read_files()).hex()


def _made() -> Runtime:
    if SHIPPED.exists():
        return _read(SHIPPED)
    with directory() as place:
        build(place / "runtime")
        return _read(place / "runtime")


def _read(linked: Path) -> Runtime:
    image = load(linked)
    segment = next(s for s in image.segments if s.executable)
    start = min(s.address for s in image.symbols if s.name == "gilk_claim_thunk")
    return Runtime(
        segment.data[start - segment.address :],
        {s.name: s.address - start for s in image.symbols if s.name in _SYMBOLS},
    )
