# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes the writes that give a signal frame other registers.

A tracer that is killed may have written one of two pages only. Whenever that happens, the context goes on with all old
registers or with all new ones. So where the registers lie on two pages, a *second frame*, in memory of gilk's, is
needed: a copy with the new registers. While the first one is written in parts, it leads to rt_sigreturn(2), and that to
the second frame.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gilk.arch import asm
from gilk.splice.allocator import PAGE
from gilk.targets import haven
from gilk.targets.frames import NOTE_MAGIC, NOTE_WORDS, ORDER, REGISTERS, ContextRegisters, SignalFrame
from gilk.targets.held import Held
from gilk.targets.memory import Memory
from gilk.values import dataclass

_CONTEXT: Final = 304  # bytes of struct ucontext; the registers are at 40, the address of the extended state at 224
_REGISTERS_AT: Final = 40
_STATE_AT: Final = _REGISTERS_AT + 23 * 8
_NOTE_AT: Final = 232  # GILK_NOTE, native/abi/gilk_abi.h
_SOFTWARE, _MAGIC = 464, 0x46505853  # struct _fpx_sw_bytes in the extended state (asm/sigcontext.h)
_LEAST_STATE, _MOST_STATE = 512, 1 << 14  # bytes; the latter holds AMX's
_ALIGNMENT: Final = 64
_WORD, _MAGIC_AND_SIZE = struct.Struct("<Q"), struct.Struct("<II")
_RSP, _RIP = 8 * ORDER.index(asm.RSP), 8 * len(ORDER)  # offsets from the first register


@dataclass(frozen=True, slots=True)
class FrameWrite:
    """A write: ``data`` at the address ``at``, where ``before`` was. It lies on one page, unless it is that of a second
    frame, whose ``before`` is ``data``."""

    at: int
    data: bytes
    before: bytes


@dataclass(frozen=True, slots=True)
class SecondFrame:
    """The place for a second frame: ``at`` is the address of its ucontext, a multiple of 64, with room for the extended
    state behind it; ``code`` is that of an rt_sigreturn(2)."""

    code: int
    at: int

    def content(self, frame: SignalFrame, new: bytes, memory: Memory) -> bytes | None:
        """The second frame, from its ucontext on, with its extended state behind it; None if the first cannot be read.
        Raises OSError."""
        context = bytearray(memory.read(frame.slot - _RIP - _REGISTERS_AT, _CONTEXT))
        if len(context) < _CONTEXT:
            return None
        state = _state(int(_WORD.unpack_from(context, _STATE_AT)[0]), memory)
        if state is None:
            return None
        context[_REGISTERS_AT : _REGISTERS_AT + REGISTERS.size] = new[: REGISTERS.size]
        context[_NOTE_AT : _NOTE_AT + 8] = bytes(8)
        gap = -_CONTEXT % _ALIGNMENT
        _WORD.pack_into(context, _STATE_AT, self.at + _CONTEXT + gap if state else 0)
        return bytes(context) + bytes(gap) + state

    def led_to(self, new: bytes) -> bytes:
        """The registers at the start of ``new``, and the note at its end if it has one, but those of a frame that leads
        here; the note does not count there."""
        words = list(REGISTERS.unpack_from(new))
        words[_RSP // 8], words[_RIP // 8] = self.at, self.code
        away = REGISTERS.pack(*words) + new[REGISTERS.size :]
        return away if len(new) == REGISTERS.size else away[: -NOTE_WORDS.size] + bytes(8) + away[8 - NOTE_WORDS.size :]


def _state(address: int, memory: Memory) -> bytes | None:
    """The extended state at an address that a frame has; empty for 0; None if it cannot be read."""
    if not address:
        return b""
    magic, size = _MAGIC_AND_SIZE.unpack(memory.some(address + _SOFTWARE, 8).ljust(8, b"\0"))
    size = size if magic == _MAGIC else _LEAST_STATE
    found = memory.some(address, size) if _LEAST_STATE <= size <= _MOST_STATE else b""
    return found if len(found) == size else None


def rewritten(
    frame: SignalFrame, registers: ContextRegisters, memory: Memory, second: SecondFrame | None = None
) -> tuple[FrameWrite, ...]:
    """The writes, in order, after which the frame restores other registers, also if there is a note on it. Were this
    process killed between them, the context would go on as before all of them, or as after them; the same holds if they
    are undone in reverse order.

    There are none if nothing changes, or if that is not possible: where the order of two pages matters, it takes a
    ``second`` frame. Raises OSError.
    """
    start, note = frame.slot - _RIP, frame.note
    old, new = memory.read(start, REGISTERS.size), _packed(registers)
    parts = tuple(_pieces(start, old, new))
    if note is None:
        return parts if len(parts) < 2 else _by_second_frame(start, old, new, second, frame, memory)
    end = note.at - start
    old = memory.read(start, end + NOTE_WORDS.size)
    new += old[len(new) : end] + _noted(registers.rip, registers.general[asm.RSP])
    whole = tuple(_pieces(start, old, new))
    if len(whole) == 1:
        return whole
    if len(parts) < 2 and (registers.rip, registers.general[asm.RSP]) != (note.shown, frame.rsp):
        plain = old[end:-8] + bytes(8)  # without an exchange, which must not be that of the new address
        return (*parts, *_pieces(note.at, old[end:], plain), *_pieces(note.at, plain, new[end:]))
    return _by_second_frame(start, old, new, second, frame, memory)  # the note may lead on between two writes


def second_frame(held: Held) -> SecondFrame | None:
    """The place for a second frame, in the middle of the memory for a borrowed thread's state: that thread's own frame
    lies at the high end, and handlers of signals that arrive meanwhile find room below. None if there is no such
    memory."""
    arena = next((arena for arena in held.arenas if arena.sigreturn), None)
    if arena is None or not held.shelter:
        return None
    return SecondFrame(arena.base + arena.sigreturn, held.shelter + haven.SIZE // 2)


def lead(frame: SignalFrame, out: ContextRegisters, memory: Memory, second: SecondFrame | None) -> None:
    """Have a context go on with the registers ``out``, while the code has no patches; it stays if that is not
    possible."""
    pieces = rewritten(replace(frame, note=None), out, memory, second)
    for piece in pieces:
        memory.write(piece.at, piece.data)
    if pieces:
        let_go(frame, memory)


def let_go(frame: SignalFrame, memory: Memory) -> None:
    """Have a context whose handler sees the original state go on with that, while the code has no patches."""
    if frame.note is not None:
        memory.write(frame.note.at, bytes(8))


def _by_second_frame(
    start: int, old: bytes, new: bytes, second: SecondFrame | None, frame: SignalFrame, memory: Memory
) -> tuple[FrameWrite, ...]:
    """The writes after which memory that begins with the frame's registers is ``new`` instead of ``old``, where it lies
    on two pages: on that of rip, so that the frame leads to the second one, on the other, and on that of rip again. The
    second frame is written first, and last for those who undo the writes.

    There are none if there is no second frame, or if the stack pointer and rip lie on two pages.
    """
    content = None if second is None else second.content(frame, new, memory)
    page = frame.slot // PAGE
    if second is None or content is None or (start + _RSP) // PAGE != page:
        return ()
    away = second.led_to(new)
    first, last = _pieces(start, old, away), _pieces(start, away, new)
    write = FrameWrite(second.at, content, content)
    return (
        write,
        *(piece for piece in first if piece.at // PAGE == page),
        *(piece for piece in _pieces(start, old, new) if piece.at // PAGE != page),
        *(piece for piece in last if piece.at // PAGE == page),
        write,
    )


def _packed(registers: ContextRegisters) -> bytes:
    """The registers as they lie in a frame."""
    return REGISTERS.pack(*(registers.general[number] for number in ORDER), registers.rip, registers.flags)


def _noted(rip: int, rsp: int) -> bytes:
    """A note that leads a context to where its handler was shown that it is."""
    return NOTE_WORDS.pack(NOTE_MAGIC, rip, rip, rsp, 0)


def _pieces(start: int, old: bytes, new: bytes) -> Iterator[FrameWrite]:
    """The writes that make ``new`` of ``old`` at ``start``, one for each page; none if nothing changes."""
    changed = [at for at in range(0, len(new), 8) if new[at : at + 8] != old[at : at + 8]]
    for page in sorted({(start + at) // PAGE for at in changed}):
        here = [at for at in changed if (start + at) // PAGE == page]
        low, high = here[0], here[-1] + 8
        yield FrameWrite(start + low, new[low:high], old[low:high])
