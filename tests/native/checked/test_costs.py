# SPDX-License-Identifier: LGPL-2.1-or-later
"""Helpers take no more instructions than the checker counts for them, whatever they are given: counted step by step."""

from __future__ import annotations

import ctypes
import re
import socket

import pytest

from gilk.trace.d.events import DropKind
from gilk.trace.d.layout import GRANULE, BufferPolicy
from gilk.trace.d.memory import MemoryOptions
from gilk.trace.d.records import Records
from tests.native.checked.counted import Bench

SPECULATIONS = 256  # ILK_D_SPECULATIONS_MAX
AT_ONCE = 1024  # ILK_D_AT_ONCE
NOBODY = 1 << 40


def speculating(policy: BufferPolicy = BufferPolicy.SWITCH, nspec: int = 1, bufsize: int = 4096) -> Bench:
    return Bench(MemoryOptions(1, bufsize, policy, nspec=nspec, specsize=4 * AT_ONCE, scratches=0, globals_size=512))


def record(bench: Bench, size: int) -> int:
    """Make a record of ``size`` bytes, its head included: whether there was room."""
    got = bench.within("reserve", 1, size - GRANULE).result
    if got:
        assert bench.within("commit", bench.put(0, bytes(size)), size - GRANULE).result
    bench.within("end")
    bench.begin()
    return got


def speculate(bench: Bench, sizes: list[int]) -> int:
    """A speculation with records of these sizes: its number."""
    number = bench.within("speculation").result
    for size in sizes:
        assert bench.within("speculate", number).result
        assert record(bench, size)
    return number


def test_a_speculation_is_found_among_as_many_as_there_may_be() -> None:
    bench = speculating(nspec=SPECULATIONS)
    assert [bench.within("speculation").result for _ in range(SPECULATIONS)] == [*range(1, SPECULATIONS + 1)]
    assert bench.within("speculation").result == 0
    assert bench.memory.drops[DropKind.SPECULATION_UNAVAILABLE] == 1


@pytest.mark.parametrize("policy", BufferPolicy)
@pytest.mark.parametrize("size", [GRANULE, 3 * GRANULE, AT_ONCE // 2, AT_ONCE])
def test_a_commit_moves_what_it_may_move_at_once(policy: BufferPolicy, size: int) -> None:
    """With ring the buffer is full of the smallest records, which are given up one by one."""
    bench = speculating(policy)
    if policy is BufferPolicy.RING:
        assert all(record(bench, GRANULE) for _ in range(3 * 4096 // GRANULE))
    elif policy is BufferPolicy.SWITCH:
        assert record(bench, 4096 - size // GRANULE // 2 * GRANULE)  # some find no room
    number = speculate(bench, [size] * (AT_ONCE // size))
    assert bench.within("commit_speculation", number).result
    assert bench.program.settle() == 0
    assert bench.within("speculation").result == number  # it is free again


def test_what_a_commit_leaves_is_settled() -> None:
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


def test_a_speculation_that_is_being_written_is_left_until_that_is_done() -> None:
    """By whoever commits it meanwhile, as another processor's clause would; settled only when it is whole."""
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
def test_a_discard_is_as_cheap_whatever_was_recorded(size: int) -> None:
    bench = speculating()
    number = speculate(bench, [size] * (4 * AT_ONCE // size))
    assert bench.within("discard_speculation", number).result
    assert not Records(bench.memory, lambda tid: False).poll(final=True)
    assert bench.within("speculation").result == number


def test_a_speculation_that_is_full_counts_what_finds_no_room() -> None:
    bench = speculating()
    number = speculate(bench, [AT_ONCE] * 4)
    assert bench.within("speculate", number).result
    assert not record(bench, GRANULE)
    assert bench.memory.drops[DropKind.SPECULATION] == 1


@pytest.mark.parametrize("name", ["commit_speculation", "discard_speculation"])
def test_no_number_is_of_a_speculation_that_there_is_not(name: str) -> None:
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
        """Another clause, with these strings: their places."""
        self.bench.begin()
        padded = (text[: self.size].ljust(self.size, b"\0") for text in texts)
        return [self.bench.put(at, text) for at, text in zip(self._at, padded, strict=False)]

    def text(self, place: int) -> bytes:
        return bytes(self.bench.frame[place : place + self.size]).split(b"\0")[0]


@pytest.fixture(params=STRSIZES)
def texts(request: pytest.FixtureRequest) -> Texts:
    return Texts(request.param)


@pytest.mark.parametrize("part", ["none", "half", "half and other", "falls", "one", "worst"])
@pytest.mark.parametrize("whole", ["none", "same", "ends", "falls", "worst"])
def test_a_search_takes_no_longer_and_finds_what_python_finds(texts: Texts, whole: str, part: str) -> None:
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
def test_a_search_begins_where_it_is_told(texts: Texts, start: int, last: int) -> None:
    text, part = b"banana" * 5, b"an"
    _, left, right = texts.fill(b"", text, part)
    found = texts.bench.within("index", last, left, right, start, texts.size).result
    places = [at for at in range(len(text)) if text.startswith(part, at)]
    wanted = [at for at in places if (at <= start if last else at >= start)]
    assert found == ((wanted[-1] if last else wanted[0]) if wanted else -1) % (1 << 64)


@pytest.mark.parametrize("between", ["one", "same", "none"])
@pytest.mark.parametrize("whole", ["none", "same", "pairs", "triples", "other"])
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
def test_no_string_makes_a_helper_take_longer(texts: Texts, row: str) -> None:
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
def test_the_others_take_no_longer(row: str, size: int) -> None:
    name, *given = row.split()
    texts = Texts(257)
    places = texts.fill(b"a" * 256, b"a" * 256)
    sizes = {"SIZE": size}
    numbers = [
        int(each[1:]) if each.startswith("=") else sizes[each] if each in sizes else places[int(each)] for each in given
    ]
    texts.bench.within(name, *numbers)


def test_a_string_from_memory_takes_no_longer(texts: Texts) -> None:
    """Where memory is read by what tests have for that, not as in a kernel."""
    source = (ctypes.c_char * 4096)(*b"a" * 4095)
    [to] = texts.fill(b"")
    assert texts.bench.within("copyin_string", to, ctypes.addressof(source), texts.size, texts.size).result
    assert texts.text(to) == b"a" * (texts.size - 1)
