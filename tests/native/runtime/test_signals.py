# SPDX-License-Identifier: LGPL-2.1-or-later
"""The context that signal handlers are shown, and the places where their threads go on, on the host of tests."""

from __future__ import annotations

import ctypes
import struct

import pytest

from tests.native.runtime.arena import Arena, Registers, register

# The ucontext of a handler says where it has interrupted the thread.
RSP, RIP = 40 + 15 * 8, 40 + 16 * 8  # in it, sys/ucontext.h
AFTER = 1 << 63
#: Memory of patches, whose code is not known to the runtime.
UNKNOWN = ctypes.create_string_buffer(bytes((0x06,)) * 64)  # push es, which is no 64-bit instruction
P = ctypes.addressof(UNKNOWN)
#: Patches at P to P + 0x20: before and behind the instruments of 0x400000, then the original code of 0x400004.
PATCHES = [(P, 0x400000), (P + 0x8, 0x400000 | AFTER), (P + 0x10, 0x400004), (P + 0x20, 0)]
DISPLACED = [(0x400000, P), (0x400004, P + 0x10)]


class Handler:
    """A handler of a signal, from its entry to its return."""

    def __init__(self, library: ctypes.CDLL, arena: Arena) -> None:
        rows = [word for row in (*PATCHES, *DISPLACED) for word in row]
        self._rows = struct.pack(f"<QQQ{len(rows)}Q", len(PATCHES), len(DISPLACED), 1, *rows)
        library.t_open(ctypes.c_void_p(arena.address), self._rows)
        self._library = library
        self._stack = ctypes.create_string_buffer(4096)
        self._info = ctypes.create_string_buffer(128)
        self.context = ctypes.addressof(self._stack) + 1024

    def word(self, at: int) -> ctypes.c_uint64:
        return ctypes.c_uint64.from_address(self.context + at)

    def enter(self, rip: int, go: bool = False, signal: int = 10, code: int = 0) -> int:
        """Enter the handler in a thread that is at ``rip``. Returns the address that the handler is shown."""
        self.word(RIP).value, self.word(RSP).value = rip, 0x7000
        self._info[8:12] = struct.pack("<i", code)
        registers = Registers()
        registers[register("rdx")], registers[register("rsp")] = self.context, self.context - 8
        registers[register("rdi")], registers[register("rsi")] = signal, ctypes.addressof(self._info)
        enter = self._library.t_signal_enter_go if go else self._library.t_signal_enter
        enter(registers)
        return self.word(RIP).value

    def leave(self) -> int:
        """Return from the handler. Returns the address where the thread goes on."""
        registers = Registers()
        registers[register("rsp")] = self.context
        self._library.t_signal_leave(registers)
        return self.word(RIP).value


@pytest.fixture
def handler(library: ctypes.CDLL, arena: Arena) -> Handler:
    return Handler(library, arena)


SHOWN = [(P, 0x400000), (P + 0x7, 0x400000), (P + 0x9, 0x400000), (P + 0x10, 0x400004), (0x1000, 0x1000)]


@pytest.mark.parametrize(("rip", "shown"), [*SHOWN, (P + 0x21, P + 0x21)], ids=range(6))
def test_a_handler_is_shown_the_original_address(handler: Handler, arena: Arena, rip: int, shown: int) -> None:
    assert handler.enter(rip) == shown
    assert arena.shared.control["noted"] == 1
    assert handler.leave() == rip, "the thread goes on where it was"
    assert arena.shared.control["noted"] == 0


def test_a_thread_goes_on_in_the_patch_of_an_instruction_that_is_displaced_meanwhile(handler: Handler) -> None:
    """No thread is interrupted there later, but a handler may be under way when the patch comes."""
    assert handler.enter(0x400000) == 0x400000
    assert handler.leave() == P


def test_a_thread_goes_on_in_the_patch_where_its_handler_sends_it(handler: Handler, arena: Arena) -> None:
    handler.enter(P)
    handler.word(RIP).value = 0x400004
    assert handler.leave() == P + 0x10
    handler.enter(P)
    handler.word(RIP).value = 0x400001
    assert handler.leave() == 0x400001
    assert arena.shared.control["noted"] == 0


def test_a_handler_that_changes_the_stack_pointer_decides_where_to_go_on(handler: Handler) -> None:
    """As at 0x400000 with another stack: the instruments there run."""
    handler.enter(P + 0x8)
    handler.word(RSP).value += 8
    assert handler.leave() == P


def test_notes_of_handlers_left_by_a_jump_are_forgotten(handler: Handler, arena: Arena) -> None:
    handler.enter(P)
    assert handler.enter(P + 0x10) == 0x400004
    assert arena.shared.control["noted"] == 1
    assert handler.leave() == P + 0x10


def test_a_handler_called_as_a_function_is_not_treated_as_one(handler: Handler, library: ctypes.CDLL) -> None:
    handler.word(RIP).value = P
    registers = Registers()
    registers[register("rdx")], registers[register("rsp")] = handler.context, handler.context - 64
    library.t_signal_enter(registers)
    assert handler.word(RIP).value == P


@pytest.mark.parametrize(
    ("rip", "code", "shown"),
    [(P, 0, 0x400000), (P + 0x4, 0, P + 0x4), (P + 0x8, 0, P + 0x8), (P + 0x4, 1, 0x400000), (P + 0x8, 1, 0x400000)],
    ids=range(5),
)
def test_go_handlers_see_the_original_address_only_with_the_original_state(
    handler: Handler, rip: int, code: int, shown: int
) -> None:
    """The original address is also shown if the instruction itself has faulted (SIGSEGV, by the kernel)."""
    assert handler.enter(rip, go=True, signal=11, code=code) == shown
