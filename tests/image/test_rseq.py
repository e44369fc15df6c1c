# SPDX-License-Identifier: LGPL-2.1-or-later
"""Restartable sequences are reserved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gilk.image.elf import load

PROGRAM = r"""
__asm__(
    ".pushsection __rseq_cs, \"aw\"\n.balign 32\n"
    "cs: .long 0, 0\n.quad critical_start, critical_end - critical_start, critical_abort\n.popsection\n"
    ".text\n.globl critical_start, critical_end, critical_abort\n"
    "critical_start: movq %rdi, (%rsi)\n nop\ncritical_end: ret\n"
    ".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\n"
    "critical_abort: jmp critical_start\n");
int main(void) { return 0; }
"""


@pytest.mark.parametrize("flags", [(), ("-no-pie",), ("-static",), ("-static-pie",), ("-Wl,-z,pack-relative-relocs",)])
def test_critical_sections_and_abort_handlers_are_reserved(flags: tuple[str, ...], build: Callable[..., Path]) -> None:
    image = load(build(PROGRAM, *flags))
    at = {symbol.name: symbol.address for symbol in image.symbols}
    start, end, abort = at["critical_start"], at["critical_end"], at["critical_abort"]
    assert (start, end, "rseq") in image.reserved
    (handler,) = [extent for extent in image.reserved if extent[0] == abort - 4]
    assert image.read(handler[0], 4) == (0x53053053).to_bytes(4, "little")
    assert handler[1] - abort == {0xEB: 2, 0xE9: 5}[image.read(abort, 1)[0]]


def test_a_program_without_restartable_sequences_reserves_nothing(
    build: Callable[..., Path], sources: dict[str, str]
) -> None:
    assert load(build(sources["small"])).reserved == ()
