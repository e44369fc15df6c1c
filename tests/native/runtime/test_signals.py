# SPDX-License-Identifier: LGPL-2.1-or-later
"""The context that signal handlers are shown, and the places where their threads go on, on the host of tests."""

from __future__ import annotations

import ctypes
import struct

import pytest

from gilk.arch import asm
from tests.native.runtime.arena import Arena, Registers, register

# The ucontext of a handler says where it has interrupted the thread.
RAX, RSP, RIP = 40 + 13 * 8, 40 + 15 * 8, 40 + 16 * 8  # in it, sys/ucontext.h
AFTER = 1 << 63
#: Memory of patches, whose code is not known to the runtime.
UNKNOWN = ctypes.create_string_buffer(bytes((0x06,)) * 64)  # push es, which is no 64-bit instruction
P = ctypes.addressof(UNKNOWN)
#: Patches at P to P + 0x20: before and behind the instruments of 0x400000, then the original code of 0x400004.
PATCHES = [(P, 0x400000), (P + 0x8, 0x400000 | AFTER), (P + 0x10, 0x400004), (P + 0x20, 0)]
#: A patch with nothing but a call that was moved, of 0x400008, whose return address is 0x40000d.
MOVED = ctypes.create_string_buffer(
    asm.CALL_NEXT + bytes.fromhex("c704240d004000") + bytes.fromhex("c744240400000000") + asm.JMP32 + bytes(4)
)
CALL = ctypes.addressof(MOVED)
#: A patch without a place of the original code: an instrument with a frame, and a jump by rax to a function.
INDIRECT = ctypes.create_string_buffer(
    asm.lea_stack(asm.RSP, -128) + asm.inc_gs(0) + asm.lea_stack(asm.RSP, 128) + bytes.fromhex("ffe0")
)
APART, FUNCTION = ctypes.addressof(INDIRECT), 0x400800
DISPLACED = [(0x400000, P), (0x400004, P + 0x10)]


class Handler:
    """A handler of a signal, from its entry to its return."""

    def __init__(self, library: ctypes.CDLL, arena: Arena) -> None:
        patches = sorted([*PATCHES, (CALL, 0x400008), (CALL + 26, 0), (APART, 1), (APART + 27, 0)])
        rows = [word for row in (*patches, *DISPLACED) for word in row]
        self._rows = struct.pack(f"<QQQ{len(rows)}Q", len(patches), len(DISPLACED), 1, *rows)
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


@pytest.mark.parametrize("behind", [6, 13, 21])
def test_a_handler_is_shown_a_moved_call_as_one_that_has_not_begun(handler: Handler, behind: int) -> None:
    assert handler.enter(CALL + behind) == 0x400008
    assert handler.word(RSP).value == 0x7008
    assert handler.leave() == CALL + behind
    assert handler.word(RSP).value == 0x7000


@pytest.mark.parametrize(("behind", "goes_on", "depth"), [(0, 0, 0), (8, 8, 128), (17, 25, 0), (25, 25, 0)])
def test_a_handler_is_shown_the_function_that_a_patch_without_places_leads_to(
    handler: Handler, behind: int, goes_on: int, depth: int
) -> None:
    """Where only the stack pointer is left to be moved back, the thread goes on behind that."""
    handler.word(RAX).value = FUNCTION
    assert handler.enter(APART + behind) == FUNCTION
    moved = 128 if behind == 17 else depth
    assert handler.word(RSP).value == 0x7000 + moved
    assert handler.leave() == APART + goes_on
    assert handler.word(RSP).value == 0x7000 + moved - depth


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
