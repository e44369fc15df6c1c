# SPDX-License-Identifier: LGPL-2.1-or-later
"""The programs that the fake executes: real ELF files, built once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.programs.build import OUT, compile_to, locked

_HERE = Path(__file__).resolve().parent
_BARE = ("-O2", "-nostdlib", "-nostartfiles", "-ffreestanding", "-fcf-protection=none", "-fno-stack-protector")
#: The ways in which each program can be linked.
VARIANTS = {
    "fixed": ("-static", "-no-pie", "-fno-pie"),
    "pie": ("-static-pie", "-fPIE"),
}


@cache
def built(name: str, variant: str = "fixed") -> Path:
    output = OUT / "fake" / variant / name
    with locked(output):
        return compile_to(output, [_HERE / f"{name}.c"], (*_BARE, *VARIANTS[variant]))
