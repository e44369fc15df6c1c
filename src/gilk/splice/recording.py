# SPDX-License-Identifier: LGPL-2.1-or-later
"""Machine code that makes sure of the thread's block, and code that writes a record into one of the block's rings.

native/abi/gilk_abi.h has the protocol of both.
"""

from __future__ import annotations

from collections.abc import Sequence

from gilk.arch import asm
from gilk.image.value_place import ValuePlace
from gilk.splice.code import CodeBuilder
from gilk.splice.frame import FLAGS, Frame
from gilk.splice.host import ClientPart, Host

_OWNER = 0
_RINGS, _RING_STRIDE = 64, 32
_WPOS, _LIMIT, _DROPS = 0, 8, 16
STAMP_CLASS, ARGUMENTS_CLASS = 0, 2
RECORD_SIZE = (16, 32, 64, 256)
#: The registers and flags that record() overwrites.
RECORDER = 1 << asm.RAX | 1 << asm.RCX | 1 << asm.RDX | FLAGS


def own_block(builder: CodeBuilder, host: Host, reg: int) -> int:
    """Append a comparison of this thread with the owner of the block, and a claim if they differ; returns the label
    that a failed claim goes to, which the caller places. Overwrites ``reg`` and the flags.
    """
    retry, slow, skip = builder.label(), builder.label(), builder.label()
    builder.place(retry)
    builder.emit(asm.rdfsbase(reg))
    builder.external(asm.add_rip(reg), host.key)
    builder.emit(asm.cmp_gs(reg, _OWNER))
    builder.local(asm.JNE32, slow)

    def claim() -> None:
        builder.place(slow)
        builder.emit(asm.lea_stack(asm.RSP, -host.red_zone) if host.red_zone else b"")
        builder.external(asm.CALL32, host.claim)
        builder.emit(asm.lea_stack(asm.RSP, host.red_zone) if host.red_zone else b"")
        builder.local(asm.JC32, skip)
        builder.local(asm.JMP32, retry)

    builder.cold(claim)
    return skip


#: Code, and the register in which it leaves a value.
Loads = Sequence[tuple[bytes, int]]


def load_arguments(frame: Frame) -> Loads:
    """The code that loads each argument register's value, in order: from its slot if it was saved."""
    return [_held(frame, reg) for reg in (asm.RDI, asm.RSI, asm.RDX, asm.RCX, asm.R8, asm.R9)]


def load_places(frame: Frame, places: Sequence[ValuePlace | None], depth: int) -> Loads:
    """The code that loads values from their places; nothing is loaded for None. ``depth`` is the number of bytes by
    which rsp has moved."""
    return [(b"", asm.RBP) if place is None else _from(frame, place, depth) for place in places]


def _held(frame: Frame, reg: int) -> tuple[bytes, int]:
    return (asm.load_stack(asm.RAX, frame.slot(reg)), asm.RAX) if reg in frame.saved else (b"", reg)


def _from(frame: Frame, place: ValuePlace, depth: int) -> tuple[bytes, int]:
    base, width = place.base, place.width
    if base is None:
        return asm.move_immediate64(asm.RAX, place.offset & (1 << 8 * width) - 1), asm.RAX
    offset = place.offset + (depth if base == asm.RSP else 0)
    if place.loaded:
        return asm.load_frame(asm.RAX, base, offset, width), asm.RAX
    if base == asm.RSP:
        code = asm.lea_stack(asm.RAX, offset)
    else:
        code, held = _held(frame, base)
        code += asm.move(asm.RAX, held) if held != asm.RAX else b""
        code += asm.lea(asm.RAX, asm.RAX, offset) if offset else b""
    return code + (asm.narrow(asm.RAX, width) if width < 8 else b""), asm.RAX


def record(
    builder: CodeBuilder,
    host: Host,
    part: ClientPart | None,
    kind: int,
    depth: int,
    values: Loads = (),
) -> None:
    """Append the code that reserves a record, fills it and commits it; the iid is the hole. Overwrites rax, rcx, rdx
    and the flags.

    ``depth`` is the number of bytes by which rsp has moved. ``values``: they may
    overwrite rax.
    """
    offset, size = (part or host).rings[kind]
    full, done = builder.label(), builder.label()
    _reserve(builder, part, kind, full)
    builder.emit(asm.move(asm.RCX, asm.RAX) + asm.and_immediate(asm.RCX, size - 1))
    if part is not None:
        builder.emit(asm.add(asm.RCX, asm.RDX))
    builder.emit(asm.RDTSC + asm.SHL_RDX_32 + asm.OR_RAX_RDX)
    builder.emit(asm.store_gs(asm.RAX, asm.RCX, offset))
    builder.emit(asm.lea_stack(asm.RAX, depth) + asm.store_gs32(asm.RAX, asm.RCX, offset + 12))
    for index, (code, reg) in enumerate(values):
        builder.emit(code + asm.store_gs(reg, asm.RCX, offset + 16 + 8 * index))
    builder.emit(asm.store_gs32_immediate(asm.RCX, offset + 8, 0))
    builder.hole()
    builder.place(done)

    def drop() -> None:
        drops = _RINGS + kind * _RING_STRIDE + _DROPS
        builder.place(full)
        builder.emit(asm.inc_gs(drops) if part is None else asm.inc_gs_based(asm.RDX, drops))
        builder.local(asm.JMP32, done)

    builder.cold(drop)


def _reserve(builder: CodeBuilder, part: ClientPart | None, kind: int, full: int) -> None:
    """Append code that reserves a place in a ring: rax has its position, and rdx the distance to the block of ``part``.
    It jumps to the label ``full`` if there is no room.
    """
    position = _RINGS + kind * _RING_STRIDE + _WPOS
    limit, again = position - _WPOS + _LIMIT, builder.label()
    if part is None:
        load, compare = asm.load_gs(asm.RAX, position), asm.cmp_gs(asm.RCX, limit)
        exchange = asm.cmpxchg_gs(asm.RCX, position)
    else:
        builder.emit(asm.load_gs(asm.RDX, part.at))
        load, compare = (
            asm.load_gs_based(asm.RAX, asm.RDX, position), asm.cmp_gs_based(asm.RCX, asm.RDX, limit)
        )  # fmt: skip
        exchange = asm.cmpxchg_gs_based(asm.RCX, asm.RDX, position)
    builder.emit(load)
    builder.place(again)
    builder.emit(asm.lea(asm.RCX, asm.RAX, RECORD_SIZE[kind]) + compare)
    builder.local(asm.JA32, full)
    builder.emit(exchange)
    builder.local(asm.JNE32, again)
