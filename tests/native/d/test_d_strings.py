# SPDX-License-Identifier: LGPL-2.1-or-later
"""Strings, numbers and loads: what DTrace's subroutines return."""

from __future__ import annotations

import ctypes
import mmap
import posixpath
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gilk.trace.d.memory import MemoryOptions
from tests.native.d.session import Session, Shared, library

pytestmark = pytest.mark.usefixtures("either_host")
STRSIZE = 64
TEXT = st.binary(max_size=40).filter(lambda text: 0 not in text)
FEW = st.text("ab/.", max_size=12).map(str.encode)
_shared = Shared(MemoryOptions(1, strsize=STRSIZE, scratches=2, scratchsize=1024))


@pytest.fixture
def session() -> Iterator[Session]:
    made = _shared.session()
    yield made
    made.end()


def fresh() -> Session:
    return _shared.session()


@given(a=TEXT, b=TEXT)
def test_join_length_and_comparison(a: bytes, b: bytes) -> None:
    s = fresh()
    assert s.text("strjoin", a, b) == (a + b)[: STRSIZE - 1]
    assert s.strlen(a) == len(a)
    assert s.strcmp(a, b) == (a > b) - (a < b)
    assert s.text("toupper", a) == a.upper()
    assert s.text("tolower", a) == a.lower()


@given(a=FEW, b=st.text("ab/.", max_size=3).map(str.encode), start=st.integers(-20, 20))
def test_index_and_rindex(a: bytes, b: bytes, start: int) -> None:
    s = fresh()
    if b:
        assert s.index(a, b, start) == a.find(b, max(start, 0))
        assert s.rindex(a, b, start) == (a.rfind(b, 0, start + len(b)) if start >= 0 else -1)
    assert s.rindex(a, b, STRSIZE) == a.rfind(b)
    at = s.strstr(a, b)
    assert (at is None) == (b not in a)


@given(a=FEW, index=st.integers(-20, 20), length=st.integers(0, 20))
def test_substr_counts_back_from_the_end(a: bytes, index: int, length: int) -> None:
    start = index if index >= 0 else len(a) + index
    end = start + length
    assert fresh().text("substr", a, index, length) == a[max(start, 0) : max(end, 0)]


@pytest.mark.parametrize(
    ("index", "length", "expected"),
    [(2, -1, b"cde"), (-4, -1, b"cde"), (0, -6, b""), (6, 64, b""), (-10, 64, b"abcdef")],
)
def test_substr_with_negative_arguments(session: Session, index: int, length: int, expected: bytes) -> None:
    assert session.text("substr", b"abcdef", index, length) == expected


@pytest.mark.parametrize("extreme", [1 << 63, (1 << 63) - 1, -1])
def test_substr_and_index_survive_extremes(session: Session, extreme: int) -> None:
    for index, length in ((extreme, extreme), (0, extreme), (extreme, 3)):
        session.text("substr", b"abcdef", index, length)
        session.index(b"abcdef", b"b", extreme)
        session.rindex(b"abcdef", b"b", extreme)


def test_strchr_and_strrchr(session: Session) -> None:
    text = ctypes.create_string_buffer(b"a/b/c")
    start = ctypes.addressof(text)
    assert session.strchr(text, ord("/")) - start == 1
    assert session.strrchr(text, ord("/")) - start == 3
    assert session.strchr(text, 0) - start == 5
    assert session.strchr(text, ord("x")) is None


@given(a=st.text("ab,;", max_size=20).map(str.encode))
def test_tokens_of_strtok_agree_with_python(a: bytes) -> None:
    s, text, tokens = fresh(), ctypes.create_string_buffer(a), []
    token = s.text("strtok", text, b",;")
    while token is not None:
        tokens.append(token)
        token = s.text("strtok", None, b",;")
    assert tokens == [part for part in a.replace(b";", b",").split(b",") if part]


@given(a=FEW)
def test_basename_and_dirname(a: bytes) -> None:
    bare = a.rstrip(b"/")
    head, tail = posixpath.split(bare)
    s = fresh()
    assert s.text("basename", a) == (tail if bare else b"/" if a else b".")
    assert s.text("dirname", a) == ((head.rstrip(b"/") or (b"/" if head else b".")) if bare else b"/" if a else b".")


@given(a=FEW)
def test_cleanpath_agrees_with_python(a: bytes) -> None:
    """The result is Python's, except that an empty path stays, and that two slashes at the start become one."""
    expected = posixpath.normpath(b"/" + a.lstrip(b"/") if a.startswith(b"/") else a) if a else b""
    assert fresh().text("cleanpath", a) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        *((b"/foo/bar/..", b"/foo"), (b"/../../a", b"/a"), (b"a/..b/.c/...", b"a/..b/.c/...")),
        *((b"../a/../..", b"../.."), (b"a/..", b"."), (b"", b""), (b"a/b/..//../c/", b"c")),
        (b"/" * (STRSIZE - 1), b"/"),
    ],
)
def test_cleanpath_of_paths_above_their_start(session: Session, path: bytes, expected: bytes) -> None:
    assert session.text("cleanpath", path) == expected


@given(value=st.integers(-(1 << 63), (1 << 63) - 1), base=st.integers(2, 36))
def test_numbers_to_text_and_back(value: int, base: int) -> None:
    s = fresh()
    text = s.text("lltostr", value, base, size=80) or b""
    if len(text) == STRSIZE - 1:
        return  # cut off: binary
    unsigned = value if base == 10 else value & (1 << 64) - 1
    assert int(text or b"0", base) == unsigned
    assert text[: 1 + (base == 16)] == {16: b"0x", 8: b"0"}.get(base, text[:1])
    assert s.strtoll(text, base) == value
    assert s.fault() == 0


@pytest.mark.parametrize("base", [0, 1, 37, -10])
def test_lltostr_with_an_invalid_base_is_a_fault(session: Session, base: int) -> None:
    session.text("lltostr", 5, base)
    assert session.fault() == 3


@given(
    address=st.one_of(
        st.binary(min_size=16, max_size=16),
        st.lists(st.sampled_from([b"\0\0", b"\xff\xff", b"\1\2"]), min_size=8, max_size=8).map(b"".join),
    )
)
def test_inet_ntoa_agrees_with_the_system(address: bytes) -> None:
    s = fresh()
    assert s.text("inet_ntoa", address) == socket.inet_ntop(socket.AF_INET, address[:4]).encode()
    assert s.text("inet_ntoa6", address) == socket.inet_ntop(socket.AF_INET6, address).encode()


def test_padding_a_key() -> None:
    text = ctypes.create_string_buffer(b"ab\0cd\0ef", 8)
    library().t_strpad(text, ctypes.c_uint64(8))
    assert text.raw == b"ab\0\0\0\0\0\0"


def test_scratch_is_bounded_and_given_back() -> None:
    first, second, third = (_shared.session(tid=tid) for tid in (1, 2, 3))
    a, b = first.alloca(1000), first.alloca(8)
    assert b - a == 1000
    assert first.alloca(64) is None and first.fault() == 5
    assert second.alloca(1025) is None and second.fault() == 5
    assert second.alloca(8) is not None
    assert third.alloca(8) is None, "both are in use"
    first.end()
    third.clear_fault()
    assert third.alloca(8) is not None
    assert _shared.memory.reap(lambda tid: tid == 3) == 1
    second.end()
    assert not any(_shared.memory.scratch_owners)


def test_loads_from_unmapped_memory_are_faults(session: Session) -> None:
    source = ctypes.create_string_buffer(b"hello", 32)
    to = ctypes.create_string_buffer(32)
    assert session.load(to, ctypes.addressof(source), 32) and to.value == b"hello"
    assert session.store(ctypes.addressof(source), b"there", 5) and source.value == b"there"
    assert not session.load(to, _shared.address, 8), "what they are kept with cannot"
    session.clear_fault()
    assert not session.store(_shared.address, b"x", 1), "the program's own memory is not the process's"
    session.clear_fault()
    assert not session.load(to, 16, 8)
    assert session.fault() == 1 and session.fault_address() == 16


def test_a_string_is_not_read_past_its_page(session: Session) -> None:
    pages = mmap.mmap(-1, 3 * 4096)
    base = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = ctypes.CDLL(None).mprotect
    assert protect(ctypes.c_void_p(base + 4096), ctypes.c_size_t(4096), 0) == 0
    pages[4090:4096] = b"hello\0"
    assert session.text("copyin_string", base + 4090, STRSIZE) == b"hello"
    pages[4090:4096] = b"hello!"
    session.text("copyin_string", base + 4090, STRSIZE)
    assert session.fault() == 1
    pages[100:200] = b"x" * 100
    assert session.text("copyin_string", base + 100, STRSIZE) == b"x" * (STRSIZE - 1)
