# SPDX-License-Identifier: LGPL-2.1-or-later
"""Destructive actions in C: impossible stores, requested signals, and the longest delay."""

from __future__ import annotations

import ctypes
import mmap
import signal
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gilk.trace.d.memory import MemoryOptions
from tests.native.d.session import Session, Shared

pytestmark = pytest.mark.usefixtures("either_host")
ADDRESS, ILLEGAL = 1, 3
PAGE = mmap.PAGESIZE
_shared = Shared(MemoryOptions(1, strsize=64, globals_size=512))


def fresh() -> Session:
    return _shared.session()


@contextmanager
def page(*, writable: bool = True, size: int = PAGE) -> Iterator[tuple[mmap.mmap, int]]:
    """Memory full of dots, and its address."""
    memory = mmap.mmap(-1, size)
    memory[:] = b"." * size
    view = ctypes.c_char.from_buffer(memory)
    address = ctypes.addressof(view)
    if not writable:
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ) == 0
    yield memory, address
    if not writable:
        ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_WRITE)
    del view


@given(text=st.binary(max_size=80), most=st.integers(0, 100))
def test_copyoutstr_stores_as_much_of_a_string_as_fits(text: bytes, most: int) -> None:
    stored = (text.split(b"\0")[0][:64] + b"\0")[:most]
    if len(text.split(b"\0")[0]) >= 64:
        return  # no string of D's is that long
    with page() as (memory, address):
        assert fresh().store_string(address, text, most)
        assert memory[:101] == stored + b"." * (101 - len(stored))


def test_stores_to_unwritable_memory_are_faults() -> None:
    with page(writable=False) as (memory, address):
        for at in (address, 0, 8, 1 << 63, (1 << 64) - 8):
            session = fresh()
            assert not session.store(at, b"12345678", 8)
            assert (session.fault(), session.fault_address() & (1 << 64) - 1) == (ADDRESS, at)
        assert memory[:8] == b"." * 8


def test_a_store_from_unreadable_memory_is_a_fault() -> None:
    """The kernel notices that, not the process."""
    with page() as (memory, address):
        session = fresh()
        assert not session.store(address, ctypes.c_void_p(8), 8)
        assert (session.fault(), memory[:8]) == (ADDRESS, b"." * 8)


@given(st.integers(-64, 64), st.integers(1, 128), st.booleans())
def test_stores_to_gilks_own_memory_are_refused(offset: int, size: int, end: bool) -> None:
    """The stores cover the memory, a part of it, or reach it from before or beyond its end. Stores that do not touch
    it are tried."""
    start = _shared.address + (_shared.layout.size if end else 0)
    met = max(start + offset, _shared.address) < min(start + offset + size, _shared.address + _shared.layout.size)
    before = bytes(_shared.map[:64])
    session = fresh()
    if met:
        assert not session.store(start + offset, b"\xff" * 128, size)
        assert session.fault() == ADDRESS
        assert bytes(_shared.map[:64]) == before


def test_raised_signals_are_sent_after_the_clause_to_this_thread(either_host: str) -> None:
    if either_host == "test":
        return  # which sends none: test_d_host.py
    got: list[int] = []
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, _: got.append(number))
    try:
        session = fresh()
        for number in (signal.SIGUSR2, signal.SIGUSR1, signal.SIGUSR2):
            assert session.ask_signal(number)
        assert got == []
        session.send_signals()
        assert sorted(got) == [signal.SIGUSR1, signal.SIGUSR2]
        waiting: list[set[int]] = []
        other = threading.Thread(target=lambda: waiting.append(_pending_after(signal.SIGUSR1)))
        other.start()
        other.join()
        assert waiting == [{signal.SIGUSR1}]
    finally:
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_DFL)


def _pending_after(number: int) -> set[int]:
    """The signals that a thread which blocks ``number`` has pending for itself."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    session = fresh()
    session.ask_signal(number)
    session.send_signals()
    pending = {int(each) for each in signal.sigpending()}
    signal.sigtimedwait([number], 0)
    return pending


@pytest.mark.parametrize("number", [0, -1, 65, 1 << 40, 1 << 63])
def test_an_invalid_signal_is_a_fault(number: int) -> None:
    session = fresh()
    assert not session.ask_signal(number)
    assert (session.fault(), session.signals()) == (ILLEGAL, 0)


def test_destructive_actions_in_the_consumer_are_refused() -> None:
    with page() as (memory, address):
        for deed in (lambda s: s.store(address, b"1234", 4), lambda s: s.ask_signal(signal.SIGKILL)):
            session = fresh()
            session.no_memory()
            assert not deed(session)
        assert memory[:4] == b"...."


# Delays.

NOW = 5_000_000_000


@contextmanager
def frozen() -> Iterator[None]:
    """Stop the clock: the counter's ticks become no nanoseconds."""
    _shared.memory.globals()[:32] = struct.pack("<QQQII", 0, NOW, 0, 0, 0)
    yield
    _shared.memory.globals()[:32] = bytes(32)


def spent(since: int, so_far: int) -> None:
    for head in _shared.memory.heads:
        head.chill_since, head.chill_spent = since, so_far


@pytest.mark.parametrize(("ns", "so_far"), [(2, 499_999_999), (500_000_001, 0), (1 << 62, 0), (-1, 0), (1 << 63, 1)])
def test_a_chill_of_more_than_half_of_a_second_is_refused(ns: int, so_far: int) -> None:
    with frozen():
        spent(NOW - 10**9, so_far)
        session = fresh()
        assert not session.chill(ns)
        assert session.fault() == ILLEGAL
        assert {head.chill_spent for head in _shared.memory.heads} == {so_far}


def test_the_limit_of_chill_starts_anew_each_second() -> None:
    with frozen():
        spent(NOW - 10**9 - 1, 500_000_000)
        assert fresh().chill(0)
        assert {head.chill_spent for head in _shared.memory.heads} == {0}
        assert {head.chill_since for head in _shared.memory.heads} == {NOW}


def test_time_spent_in_chill_is_counted() -> None:
    _shared.memory.globals()[:32] = struct.pack("<QQQII", 0, NOW, 0, 1 << 24, 24)  # a nanosecond a tick
    spent(0, 0)
    for _ in range(3):
        assert fresh().chill(1000)
    assert {head.chill_spent for head in _shared.memory.heads} == {3000}
