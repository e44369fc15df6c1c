# SPDX-License-Identifier: LGPL-2.1-or-later
"""Helpers take no more instructions than the checker counts for them, whatever their arguments: counted step by
step."""

from __future__ import annotations

import ctypes
import re
import socket

import pytest

from gilk.lang.to_kernel.code import LARGEST_FRAME
from gilk.trace.d.events import DropKind
from gilk.trace.d.layout import GRANULE, BufferPolicy
from gilk.trace.d.memory import MemoryOptions
from gilk.trace.d.records import Records
from tests.native.checked.counted import Bench
from tests.seldom import seldom

SPECULATIONS = 256  # ILK_D_SPECULATIONS_MAX
AT_ONCE = 1024  # ILK_D_AT_ONCE
NOBODY = 1 << 40


def speculating(policy: BufferPolicy = BufferPolicy.SWITCH, nspec: int = 1, bufsize: int = 4096) -> Bench:
    return Bench(MemoryOptions(1, bufsize, policy, nspec=nspec, specsize=4 * AT_ONCE, scratches=0, globals_size=512))


def record(bench: Bench, size: int) -> int:
    """Make a record of ``size`` bytes, with its head. Returns whether there was room."""
    got = bench.within("reserve", 1, size - GRANULE).result
    if got:
        assert bench.within("commit", bench.put(0, bytes(size)), size - GRANULE).result
    bench.within("end")
    bench.begin()
    return got


def speculate(bench: Bench, sizes: list[int]) -> int:
    """Make a speculation with records of these sizes. Returns its number."""
    number = bench.within("speculation").result
    for size in sizes:
        assert bench.within("speculate", number).result
        assert record(bench, size)
    return number


def test_a_free_speculation_is_found_within_the_bound() -> None:
    bench = speculating(nspec=SPECULATIONS)
    assert [bench.within("speculation").result for _ in range(SPECULATIONS)] == [*range(1, SPECULATIONS + 1)]
    assert bench.within("speculation").result == 0
    assert bench.memory.drops[DropKind.SPECULATION_UNAVAILABLE] == 1


@pytest.mark.parametrize("policy", BufferPolicy)
@pytest.mark.parametrize("size", seldom([GRANULE, AT_ONCE, 3 * GRANULE, AT_ONCE // 2], 1))
def test_a_commit_moves_a_bounded_number_of_bytes_at_once(policy: BufferPolicy, size: int) -> None:
    """With the policy ring, the buffer is full of the smallest records, which are dropped one by one."""
    bench = speculating(policy)
    if policy is BufferPolicy.RING:
        assert all(record(bench, GRANULE) for _ in range(3 * 4096 // GRANULE))
    elif policy is BufferPolicy.SWITCH:
        assert record(bench, 4096 - size // GRANULE // 2 * GRANULE)  # some find no room
    number = speculate(bench, [size] * (AT_ONCE // size))
    assert bench.within("commit_speculation", number).result
    assert bench.program.settle() == 0
    assert bench.within("speculation").result == number  # it is free again


def test_the_rest_of_a_large_commit_is_moved_later() -> None:
    bench = speculating(bufsize=4 * AT_ONCE)
    number = speculate(bench, [AT_ONCE, GRANULE])
    assert bench.within("commit_speculation", number).steps < 200
    assert bench.within("speculation").result == 0
    assert bench.memory.drops[DropKind.SPECULATION_BUSY] == 1
    records = Records(bench.memory, lambda tid: False)
    assert not records.poll()
    assert bench.program.settle() == 2 and bench.program.settle() == 0
    assert [len(one.data) for one in records.poll()] == [AT_ONCE - GRANULE, 0]
    assert bench.within("speculation").result == number


def test_a_commit_waits_until_a_speculation_is_written() -> None:
    """A clause of another processor may commit it meanwhile; it is settled only when it is complete."""
    bench = speculating()
    number = bench.within("speculation").result
    bench.within("speculate", number)
    assert bench.within("reserve", 1, 8).result
    assert bench.within("commit_speculation", number).result
    assert bench.program.settle() == 0
    assert bench.within("commit", bench.put(0, bytes(8)), 8).result
    assert bench.program.settle() == 1
    assert len(Records(bench.memory, lambda tid: False).poll()) == 1


@pytest.mark.parametrize("size", [GRANULE, AT_ONCE])
def test_the_cost_of_a_discard_does_not_depend_on_its_records(size: int) -> None:
    bench = speculating()
    number = speculate(bench, [size] * (4 * AT_ONCE // size))
    assert bench.within("discard_speculation", number).result
    assert not Records(bench.memory, lambda tid: False).poll(final=True)
    assert bench.within("speculation").result == number


def test_a_full_speculation_counts_records_without_room() -> None:
    bench = speculating()
    number = speculate(bench, [AT_ONCE] * 4)
    assert bench.within("speculate", number).result
    assert not record(bench, GRANULE)
    assert bench.memory.drops[DropKind.SPECULATION] == 1


@pytest.mark.parametrize("name", ["commit_speculation", "discard_speculation"])
def test_numbers_of_unknown_speculations_are_faults(name: str) -> None:
    bench = speculating()
    assert bench.within(name, 0).result and bench.within(name, 1).result
    assert not bench.within(name, 2).result and bench.call(name, NOBODY).fault


# Strings.

STRSIZES = (64, 129)
WORDS = {
    "none": b"", "same": b"a" * 1024, "ends": b"a" * 62 + b"b", "falls": (b"a" * 7 + b"b") * 128, "half": b"a" * 32,
    "half and other": b"a" * 31 + b"b", "pairs": b"ab" * 512, "triples": b"aab" * 340, "path": b"/a" * 512,
    "parents": b"/.." * 340, "ups": b"a/../" * 200, "here": b"./" * 512, "blank": b" " * 1024, "number": b"z" * 1024,
    "high": b"\xff" * 1024, "one": b"a", "other": b"b", "worst": b"aabbabaa" + b"abbbabaa" * 127,
}  # fmt: skip
FIRST, LAST = 0, 1
LATEST = 0x7FFFFFFF


class Texts:
    """A bench with places for four strings, the third of which may be searched for."""

    def __init__(self, strsize: int) -> None:
        self.bench = Bench(MemoryOptions(1, 4096, strsize=strsize, scratches=0, globals_size=4096))
        self.size = strsize
        room = strsize + 7 & -8
        self._at = [0, room, 2 * room, 5 * room + 8]

    def fill(self, *texts: bytes) -> list[int]:
        """Begin another clause with these strings. Returns their places."""
        self.bench.begin()
        padded = (text[: self.size].ljust(self.size, b"\0") for text in texts)
        return [self.bench.put(at, text) for at, text in zip(self._at, padded, strict=False)]

    def text(self, place: int) -> bytes:
        return bytes(self.bench.frame[place : place + self.size]).split(b"\0")[0]


@pytest.fixture(params=STRSIZES)
def texts(request: pytest.FixtureRequest) -> Texts:
    return Texts(request.param)


@pytest.mark.parametrize("part", seldom(["none", "half and other", "worst", "half", "falls", "one"], 3))
@pytest.mark.parametrize("whole", ["none", "same", "ends", "falls", "worst"])
def test_string_search_is_within_its_bound_and_agrees_with_python(texts: Texts, whole: str, part: str) -> None:
    text, wanted = WORDS[whole][: texts.size], WORDS[part][: texts.size]
    call, size = texts.bench.within, texts.size
    to, left, right = texts.fill(b"", text, wanted)
    assert call("index", FIRST, left, right, 0, size).result == text.find(wanted) % (1 << 64)
    assert call("index", LAST, left, right, LATEST, size).result == text.rfind(wanted) % (1 << 64)
    found = call("strstr", to, left, right, size)
    assert found.result == (wanted in text)
    if found.result:
        assert texts.text(to) == text[text.find(wanted) :][: size - 1]


@pytest.mark.parametrize("start", [-5, -1, 0, 1, 3, 40, LATEST, -1 << 63, (1 << 63) - 1])
@pytest.mark.parametrize("last", [FIRST, LAST])
def test_a_string_search_begins_at_the_given_index(texts: Texts, start: int, last: int) -> None:
    text, part = b"banana" * 5, b"an"
    _, left, right = texts.fill(b"", text, part)
    found = texts.bench.within("index", last, left, right, start, texts.size).result
    places = [at for at in range(len(text)) if text.startswith(part, at)]
    wanted = [at for at in places if (at <= start if last else at >= start)]
    assert found == ((wanted[-1] if last else wanted[0]) if wanted else -1) % (1 << 64)


@pytest.mark.parametrize("between", seldom(["same", "one", "none"], 1))
@pytest.mark.parametrize("whole", seldom(["same", "pairs", "none", "triples", "other"], 2))
def test_tokens_are_those_of_the_c_library(texts: Texts, whole: str, between: str) -> None:
    text, set_ = WORDS[whole][: texts.size], WORDS[between]
    expected = [each for each in re.split(b"[" + bytes(sorted(set(set_))) + b"]" if set_ else b"(?!)", text) if each]
    to, left, right, keep = texts.fill(b"", text, set_, b"")
    found, source = [], left
    while texts.bench.within("strtok", to, source, right, keep, texts.size).result:
        found.append(texts.text(to))
        source = keep
    assert found == [each[: texts.size - 1] for each in expected]


PLAIN = """
    strlen          1
    strjoin         0 1 2
    substr          0 1 =0 =999999
    substr          0 1 =-40 =999999
    path_part       =0 0 1
    path_part       =1 0 1
    path_part       =2 0 1
    change_case     =0 0 1
    change_case     =1 0 1
    strtoll         0 1 =36
    find            =0 0 1 =98
    find            =1 0 1 =98
    find            =1 0 1 =97
    character       0 1 =40
    after           0 1 =0
    after           0 1 =40
    lltostr         0 =-9223372036854775808 =2
    lltostr         0 =9223372036854775807 =2
"""


@pytest.mark.parametrize("row", PLAIN.strip().splitlines(), ids=str.split)
def test_no_string_makes_a_helper_exceed_its_bound(texts: Texts, row: str) -> None:
    name, *given = row.split()
    for word in (WORDS[each] for each in ("none", "same", "blank", "number", "parents", "ups", "high")):
        places = texts.fill(b"", word, word)
        numbers = [int(each[1:]) if each.startswith("=") else places[int(each)] for each in given]
        texts.bench.within(name, *numbers, texts.size)


ADDRESSES = [
    bytes(16), b"\xff" * 16, b"\xfe" * 16, bytes(10) + b"\xff" * 6, bytes(12) + b"\xff" * 4, b"\x10\0" * 8,
    b"\x11\x11" + bytes(12) + b"\1\1", b"\0\1" * 7 + bytes(2), bytes(15) + b"\1", b"\x20\1\x0d\xb8" + bytes(11) + b"\1",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES, ids=bytes.hex)
def test_addresses_are_written_as_the_c_library_does(texts: Texts, address: bytes) -> None:
    given = (ctypes.c_ubyte * 20)(*address)
    for family, kind in ((socket.AF_INET, 2), (socket.AF_INET6, 2)):
        [to] = texts.fill(b"")
        called = texts.bench.within("address_text", kind, to, ctypes.addressof(given), int(family), texts.size)
        size = 4 if family is socket.AF_INET else 16
        assert called.result and texts.text(to).decode() == socket.inet_ntop(family, address[:size])
    for kind, what in ((0, 0), (1, 0), (1, 1), (3, 1), (3, 32), (2, 3)):
        [to] = texts.fill(b"")
        called = texts.bench.within("address_text", kind, to, ctypes.addressof(given), what, texts.size)
        assert called.result == (what != 3)


SMALL = """
    zero            0 SIZE
    copy            1 0 SIZE
    constant        =0 =200 0 SIZE
    execname        0 SIZE
    probe_text      =2 0 SIZE
    load_global     =512 0 SIZE
    store_global    0 =512 SIZE
    compare         0 SIZE 1 SIZE
    fail            =1 =0
    fault           =1 =1
    begin
    end
    timestamp
    walltimestamp
    identity        =1
    rand
    swap            =1 =8
    divide          =-9223372036854775808 =7 =2
    reserve         =1 SIZE
    exit            =1
"""


@pytest.mark.parametrize("size", [1, 7, 63, 200])
@pytest.mark.parametrize("row", SMALL.strip().splitlines(), ids=str.split)
def test_other_helpers_stay_within_their_bounds(row: str, size: int) -> None:
    name, *given = row.split()
    texts = Texts(257)
    places = texts.fill(b"a" * 256, b"a" * 256)
    sizes = {"SIZE": size}
    numbers = [
        int(each[1:]) if each.startswith("=") else sizes[each] if each in sizes else places[int(each)] for each in given
    ]
    texts.bench.within(name, *numbers)


def test_copying_a_string_from_memory_is_within_its_bound(texts: Texts) -> None:
    """Here the tests' own function reads memory, not the kernel's."""
    source = (ctypes.c_char * 4096)(*b"a" * 4095)
    [to] = texts.fill(b"")
    assert texts.bench.within("copyin_string", to, ctypes.addressof(source), texts.size, texts.size).result
    assert texts.text(to) == b"a" * (texts.size - 1)


# Scratch memory, and that of a process.

SCRATCH = 4096  # ILK_D_SCRATCH
BAD_ADDRESS, ILLEGAL, BAD_SIZE, NO_SCRATCH = 1, 3, 10, 5  # enum gd_fault
USER = 1 << 40  # nothing is there


@pytest.fixture
def bench() -> Bench:
    return Bench(MemoryOptions(1, 4096, scratches=0, globals_size=512))


def memory(data: bytes) -> tuple[ctypes.Array[ctypes.c_char], int]:
    made = ctypes.create_string_buffer(data, len(data))
    return made, ctypes.addressof(made)


def test_scratch_memory_is_cleared_and_limited(bench: Bench) -> None:
    first = bench.within("alloca", SCRATCH).result
    _source, address = memory(b"x" * SCRATCH)
    assert bench.within("bcopy", first, address, SCRATCH).result
    assert bench.within("alloca", 0).result == first + SCRATCH
    assert not bench.within("alloca", 1).result and bench.within("alloca", 8).fault == NO_SCRATCH
    bench.begin()
    assert bench.within("alloca", 7).result == first
    assert bench.within("alloca", SCRATCH - 8).result == first + 8
    assert ctypes.string_at(first, SCRATCH) == bytes(SCRATCH)
    bench.begin()
    assert not bench.within("alloca", SCRATCH + 1).result
    for size in (-1, 1 << 63, (1 << 64) - 7):
        bench.begin()
        called = bench.within("alloca", size)
        assert (called.result, called.fault) == (0, NO_SCRATCH)


@pytest.mark.parametrize("size", [0, 1, 8, 15, 63, 200])
def test_stores_go_only_to_scratch_memory(bench: Bench, size: int) -> None:
    other, elsewhere = memory(bytes(512))
    scratch = bench.within("alloca", 200).result
    place = bench.put(0, b"a" * 512)
    assert bench.within("assign", scratch + 200 - size, place, size).result or not size
    assert ctypes.string_at(scratch, 200) == bytes(200 - size) + b"a" * size
    for address in (elsewhere, scratch - 8, scratch + 201 - size if size else scratch + SCRATCH, USER, 0, -8):
        bench.begin()
        assert bench.within("alloca", 200).result == scratch
        called = bench.within("assign", address, place, size or 1)
        assert (called.result, called.fault) == (0, BAD_ADDRESS)
    bench.begin()
    assert bench.within("assign", scratch, place, size or 1).fault == BAD_ADDRESS  # it was of another clause
    assert other.raw == bytes(512)


def test_variables_have_addresses_and_nothing_else_does(bench: Bench) -> None:
    """A value that is stored in a variable is at its address; no number leads out of the frame or the globals."""
    place = bench.put(0, b"seen by address")
    assert ctypes.string_at(bench.within("address", 0, place, 15).result, 15) == b"seen by address"
    assert bench.within("store_global", place, 100, 15).result
    assert ctypes.string_at(bench.within("address", 1, 100, 15).result, 15) == b"seen by address"
    for which, end in ((0, LARGEST_FRAME), (1, 512)):
        assert bench.within("address", which, end - 8, 8).result
        for at, size in ((end, 8), (end - 7, 8), (0, end + 1), (-8, 8), (1 << 63, 8), (8, -8), (-8, -8)):
            bench.begin()
            called = bench.within("address", which, at, size)
            assert (called.result, called.fault) == (0, ILLEGAL), (which, at, size)


@pytest.mark.parametrize("size", [0, 1, 9, 4000, SCRATCH])
def test_bcopy_copies_memory_from_any_address(bench: Bench, size: int) -> None:
    source, address = memory(bytes(n & 255 for n in range(SCRATCH)))
    scratch = bench.within("alloca", SCRATCH).result
    assert bench.within("bcopy", scratch, address, size).result
    assert ctypes.string_at(scratch, SCRATCH) == source.raw[:size].ljust(SCRATCH, b"\0")
    assert bench.within("bcopy", scratch, USER, size or 1).fault == BAD_ADDRESS
    for to, origin, length, fault in (
        (address, scratch, size or 1, BAD_ADDRESS), (scratch, address, SCRATCH + 1, BAD_SIZE),
        (scratch, address, -1, BAD_SIZE), (scratch + SCRATCH, address, 1, BAD_ADDRESS),
        (scratch, scratch + SCRATCH - 1, 2, BAD_SIZE),
    ):  # fmt: skip
        bench.begin()
        bench.within("alloca", SCRATCH)
        assert bench.within("bcopy", to, origin, length).fault == fault


def test_scratch_memory_that_was_not_allocated_is_not_read(bench: Bench) -> None:
    scratch = bench.within("alloca", 16).result
    to = bench.put(0, bytes(64))
    assert bench.call("load", to, scratch + 8, 8).result  # by what tests have for that, which takes longer
    for address, size, fault in ((scratch + 16, 1, BAD_ADDRESS), (scratch + 9, 8, BAD_SIZE)):
        bench.begin()
        bench.within("alloca", 16)
        assert bench.call("load", to, address, size).fault == fault


def test_a_string_in_scratch_memory_ends_at_the_end_of_that(bench: Bench) -> None:
    scratch = bench.within("alloca", 24).result
    assert bench.within("bcopy_text", scratch, 24, bench.put(0, b"a" * 24), 24).result
    to = bench.put(64, b"x" * 64)
    assert bench.within("copyin_string", to, scratch + 8, 64, 64).result
    assert bytes(bench.frame[to : to + 64]) == (b"a" * 16).ljust(64, b"\0")
    assert bench.within("copyin_string", to, scratch, 9, 64).result
    assert bytes(bench.frame[to : to + 64]) == (b"a" * 8).ljust(64, b"\0")


@pytest.mark.parametrize("size", [0, 1, 8, 300, SCRATCH])
@pytest.mark.parametrize("text", [b"", b"abc", b"a" * 255])
def test_a_copied_string_is_padded_with_zeroes(bench: Bench, text: bytes, size: int) -> None:
    scratch = bench.within("alloca", SCRATCH).result
    _, address = memory(b"x" * SCRATCH)
    bench.within("bcopy", scratch, address, SCRATCH)
    assert bench.within("bcopy_text", scratch, size, bench.put(0, text.ljust(256, b"\0")), 256).result
    assert ctypes.string_at(scratch, SCRATCH) == text[:size].ljust(size, b"\0") + b"x" * (SCRATCH - size)


@pytest.mark.parametrize("size", [0, 1, 8, 100, SCRATCH])
def test_copyout_writes_to_a_process(bench: Bench, size: int) -> None:
    source, address = memory(bytes(255 - (n & 255) for n in range(SCRATCH)))
    other, to = memory(bytes(SCRATCH))
    assert bench.within("copyout", address, to, size).result
    assert other.raw == source.raw[:size].ljust(SCRATCH, b"\0")
    for origin, place, length, fault in (
        (USER, to, 1, BAD_ADDRESS), (address, USER, 1, BAD_ADDRESS), (address, to, SCRATCH + 1, BAD_SIZE),
        (address, to, -1, BAD_SIZE), (address, 0, 8, BAD_ADDRESS),
    ):  # fmt: skip
        bench.begin()
        called = bench.within("copyout", origin, place, length)
        assert (called.result, called.fault) == (0, fault)


@pytest.mark.parametrize("most", [0, 1, 3, 4, 5, 100, -1])
def test_copyoutstr_writes_to_a_process(bench: Bench, most: int) -> None:
    other, to = memory(b"x" * 300)
    assert bench.within("copyout_text", bench.put(0, b"text".ljust(64, b"\0")), 64, to, most).result
    written = b"text\0"[: most % (1 << 64)]
    assert other.raw == written + b"x" * (300 - len(written))
    assert bench.within("copyout_text", bench.put(0, b"a" * 200), 200, to, -1).result
    assert other.raw == b"a" * 200 + b"x" * 100


def test_a_chill_beyond_the_limit_is_refused(bench: Bench) -> None:
    """A test in a kernel shows that a chill lasts as long as it should."""
    assert bench.within("chill", 500_000_000).result and bench.within("chill", 0).result
    for time in (-1, 500_000_001, 1 << 63):
        bench.begin()
        assert bench.within("chill", time).fault
