# SPDX-License-Identifier: LGPL-2.1-or-later
"""System calls in a target: their results are checked, and the place from which they are made is chosen with care."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest

from gilk.errors import TargetError
from gilk.targets import memory as memories
from gilk.targets import ptrace
from gilk.targets.keeper import Keeper
from gilk.targets.maps import Mapping, read_maps
from gilk.targets.memory import Memory, stretches
from gilk.targets.remote import find_syscall
from tests.behaviour.harness import Loop
from tests.programs.build import build
from tests.targets.keepers import borrowed, kept

_GETPID, _PAGE = 39, 4096
_SYSCALL = b"\x0f\x05"


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    with Loop([build("hot8")]) as loop, kept(loop.pid) as keeper:
        yield keeper


def lying(monkeypatch: pytest.MonkeyPatch, **values: int) -> None:
    """Make the registers of every thread have these values from now on."""
    truth = ptrace.get_registers

    def told(tid: int) -> ptrace.Registers:
        registers = truth(tid)
        for name, value in values.items():
            setattr(registers, name, value)
        return registers

    monkeypatch.setattr(ptrace, "get_registers", told)


@pytest.mark.parametrize("lie", [{"orig_rax": 59}, {"rip": 0x1000}, {"rdi": 7}, {"r9": 7}])
def test_the_result_of_another_system_call_is_refused(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, lie: dict[str, int]
) -> None:
    with borrowed(keeper) as call:
        assert call.call(_GETPID, 1, 2, 3, 4, 5, 6) == keeper.process.pid
        with monkeypatch.context() as patch, pytest.raises(TargetError) as caught:
            lying(patch, **lie)
            call.call(_GETPID, 1, 2, 3, 4, 5, 6)
        assert caught.value.slug == "not-our-call"


@pytest.mark.parametrize("address", [0, 0x1001, 0x7FFFFFFFF000, 1 << 47, 1 << 63, (1 << 64) - 4096])
def test_an_impossible_address_of_mapped_memory_is_refused(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, address: int
) -> None:
    with borrowed(keeper) as call, monkeypatch.context() as patch:
        patch.setattr(call, "call", lambda *_: address)
        with pytest.raises(TargetError) as caught:
            call.anonymous(0, _PAGE)
        assert caught.value.slug == "not-our-call"


def test_memory_mapped_elsewhere_than_requested_is_refused(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    with borrowed(keeper) as call, monkeypatch.context() as patch:
        patch.setattr(call, "call", lambda *_: 0x2000)
        assert call.anonymous(0, _PAGE) == 0x2000
        with pytest.raises(TargetError) as caught:
            call.anonymous(0x3000, _PAGE)
        assert caught.value.slug == "not-our-call"


def test_an_impossible_error_number_is_refused(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    with borrowed(keeper) as call, monkeypatch.context() as patch:
        assert keeper.held.calls is not None
        patch.setattr(type(keeper.held.calls), "results", lambda *_: [-(1 << 63)])
        with pytest.raises(TargetError) as caught:
            call.many(keeper.held.calls, [(_GETPID,)])
        assert caught.value.slug == "not-our-call"


def test_a_list_of_calls_is_in_private_memory(keeper: Keeper) -> None:
    """With shared memory, a forked child could have its parent make any call, even one that a sandbox forbids both
    of them."""
    calls = keeper.held.calls
    assert calls is not None
    for address in (calls.loop, calls.page):
        mapping = next(each for each in read_maps(keeper.process.pid) if each.start <= address < each.end)
        assert mapping.permissions.endswith("p")
        assert mapping.inode == 0
        assert not ("w" in mapping.permissions and mapping.executable)


class _Memory(Memory):
    """Memory with the given bytes, which counts how often it is read."""

    def __init__(self, content: dict[int, bytes]) -> None:
        self.content, self.bytes = content, 0

    def some(self, address: int, size: int) -> bytes:
        for start, content in self.content.items():
            if start <= address < start + len(content):
                found = content[address - start :][:size]
                self.bytes += len(found)
                return found
        return b""

    def read(self, address: int, size: int) -> bytes:
        raise OSError(errno.EIO, "")


def mapped(start: int, permissions: str, path: str, size: int = _PAGE) -> Mapping:
    return Mapping(start, start + size, permissions, 0, 1, path)


@pytest.mark.parametrize("kept", [5, 4, 3, 2, 1])
def test_syscall_instructions_in_unwritable_memory_are_preferred(kept: int) -> None:
    order = [
        mapped(0x1000, "r-xp", "[vdso]"),
        mapped(0x5000, "r-xp", "/program"),
        mapped(0x4000, "rwxp", "/program"),
        mapped(0x3000, "rwxp", ""),
        mapped(0x2000, "r-xs", "/file"),
    ][-kept:]
    memory = _Memory({each.start: b"\x90" * 7 + _SYSCALL for each in order})
    vsyscall = Mapping(0xFFFFFFFFFF600000, 0xFFFFFFFFFF601000, "--xp", 0, 0, "[vsyscall]")
    maps = (*sorted(order, key=lambda each: each.start), mapped(0x9000, "rw-p", "/data"), vsyscall)
    assert find_syscall(maps, memory) == order[0].start + 7


def test_a_syscall_instruction_may_lie_across_two_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "_PIECE", 16)
    memory = _Memory({0x1000: b"\x90" * 15 + _SYSCALL})
    assert find_syscall((mapped(0x1000, "r-xp", "/program"),), memory) == 0x100F


def test_the_search_for_a_syscall_instruction_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "_MOST", 1 << 22)
    memory = _Memory({1 << 32: bytes(1 << 24)})
    assert list(stretches([mapped(1 << 32, "r-xp", "", 1 << 45)], memory, 1))
    assert memory.bytes <= 1 << 23
    with pytest.raises(TargetError, match="no system call instruction"):
        find_syscall((mapped(1 << 32, "r-xp", "", 1 << 45),), memory)


@pytest.mark.parametrize("address", [-1, 1 << 63, (1 << 64) - 8])
def test_accesses_at_impossible_addresses_are_errors(keeper: Keeper, address: int) -> None:
    asked: list[Any] = [lambda: keeper.memory.read(address, 8), lambda: keeper.memory.write(address, b"12345678")]
    for ask in asked:
        with pytest.raises(OSError):
            ask()
    assert keeper.memory.some(address, 8) == b""
