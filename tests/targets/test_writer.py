# SPDX-License-Identifier: LGPL-2.1-or-later
"""Changes of code: combined, compared with what is there, written page by page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gilk.splice.plan import Equivalence, FunctionPlan, Patch, Site, Splice
from gilk.targets.batch import Batch, pack
from gilk.targets.writer import Mismatch, combine, differing, overwrite, write

BASE = 0x40000
PATCH = 0x900000


class FakeMemory:
    """Three pages of 0x90."""

    def __init__(self) -> None:
        self.content = bytearray(b"\x90" * 3 * 4096)
        self.writes = 0

    def read(self, address: int, size: int) -> bytes:
        if not BASE <= address < BASE + len(self.content):
            raise OSError(5, "nothing there")
        return bytes(self.content[address - BASE : address - BASE + size])

    def write(self, address: int, data: bytes) -> None:
        self.writes += 1
        self.content[address - BASE : address - BASE + len(data)] = data


def batch(*sites: tuple[int, bytes]) -> Batch:
    return pack((FunctionPlan("f", splices(*sites), (Patch(PATCH, b"\xcc" * 16),), (Equivalence(PATCH, BASE, True),)),))


def splices(*sites: tuple[int, bytes]) -> tuple[Splice, ...]:
    return tuple(Splice("jump", PATCH, Site(BASE + at, b"\x90" * len(new), new)) for at, new in sites)


def test_sites_are_written_across_pages_and_undone() -> None:
    memory = FakeMemory()
    one = batch((4094, b"\xe9\x01\x02\x03\x04"), (8191, b"\xeb"))
    assert write(memory, combine([], [one])) == 0  # type: ignore[arg-type]
    assert bytes(memory.content[4094:4099]) == b"\xe9\x01\x02\x03\x04"
    assert write(memory, combine([one], [])) == 0  # type: ignore[arg-type]
    assert bytes(memory.content) == b"\x90" * len(memory.content)
    assert differing(memory, one.at, one.old) == 0  # type: ignore[arg-type]


def test_nothing_is_written_if_a_byte_differs_from_the_expected() -> None:
    memory = FakeMemory()
    memory.content[5000] = 0xCC
    with pytest.raises(Mismatch) as caught:
        write(memory, combine([], [batch((0, b"\xe9\0\0\0\0"), (5000, b"\xe9\0\0\0\0"))]))  # type: ignore[arg-type]
    assert caught.value.args[0] == BASE + 5000
    assert memory.writes == 0


def test_foreign_bytes_are_left_alone_when_undoing() -> None:
    memory = FakeMemory()
    one = batch((0, b"\xe9\x01\x02\x03\x04"))
    write(memory, combine([], [one]))  # type: ignore[arg-type]
    memory.content[2] = 0xCC  # a debugger's breakpoint
    assert write(memory, combine([one], []), lenient=True) == 1  # type: ignore[arg-type]
    assert bytes(memory.content[:5]) == b"\x90\x90\xcc\x90\x90"


def test_unmapped_memory_counts_as_foreign() -> None:
    memory = FakeMemory()
    one = batch((1 << 20, b"\xe9\x01\x02\x03\x04"))
    assert write(memory, combine([one], []), lenient=True) == 5  # type: ignore[arg-type]
    with pytest.raises(Mismatch) as raised:
        write(memory, combine([], [one]))  # type: ignore[arg-type]
    assert raised.value.args == (int(one.at[0]),)


def test_replacing_goes_from_the_old_patch_to_the_new_in_one_step() -> None:
    memory = FakeMemory()
    old, new = batch((0, b"\xe9\x01\x02\x03\x04")), batch((2, b"\xeb\x05"))
    write(memory, combine([], [old]))  # type: ignore[arg-type]
    write(memory, combine([old], [new]))  # type: ignore[arg-type]
    assert bytes(memory.content[:6]) == b"\x90\x90\xeb\x05\x90\x90"


def test_a_batch_can_be_reduced_to_some_units() -> None:
    plans = tuple(FunctionPlan(f"f{n}", splices((16 * n, b"\xcc"))) for n in range(4))
    some = pack(plans).only({1, 3})
    assert some.at.tolist() == [BASE + 16, BASE + 48]
    assert np.all(some.new == 0xCC)


class Gone:
    """The memory of a process that has ended: there is nothing to read."""

    def read(self, _address: int, _size: int) -> bytes:
        return b""


def test_memory_that_has_gone_is_not_overwritten() -> None:
    gone: Any = Gone()
    with pytest.raises(OSError, match="not there any more"):
        overwrite(gone, np.array([0x1000, 0x1001], np.int64), np.zeros(2, np.uint8))
