# SPDX-License-Identifier: LGPL-2.1-or-later
"""Object files that call probes as functions (lang/d/called.py): the calls become nops with notes, as DTrace's -G makes
of them places of its own."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from gilk.errors import ImageError, UsageError
from gilk.image.header import SHT_NOTE
from gilk.image.object_file import R_NONE, R_PC32, R_PLT32, ObjectFile, Relocation
from gilk.lang.d.called import BASE, Called, arguments, called
from gilk.lang.d.tree import Interface
from gilk.lang.types import Type

#: Types of arguments by the names of provider and probe as in C.
_Types = Mapping[tuple[str, str], tuple[Type, ...]]
_CALL, _JUMP = 0xE8, 0xE9  # with a displacement of 32 bits behind it
#: The bytes that take the place of a call, and of a jump that is a call at the function's end: a return.
_INSTEAD = {_CALL: bytes.fromhex("0f1f440000"), _JUMP: bytes.fromhex("c30f1f4000")}
_PUSHED = {_CALL: 0, _JUMP: 8}  # bytes on the stack before the arguments there: none, or the address to return to
_OWNER, _KIND = b"stapsdt\0", 3
_ADDRESSES = 3  # in a note: of the probe, of the base, and of its counter


def types_of(interfaces: Sequence[Interface]) -> _Types:
    return {(each.name, probe): types for each in interfaces for probe, types in each.probes}


def linked(name: str, content: bytes, types: _Types) -> tuple[bytes, set[Called]]:
    """The object file with notes in the place of its calls of probes, and the probes that it calls or called; the
    content as it was if nothing is left to be replaced. ``name``: the file's, for messages.

    Raises UsageError `foreign-dtrace-object`, `not-for-a-header`.
    """
    try:
        file = ObjectFile(content)
        probes = {n: each for n, symbol in enumerate(file.symbols) if (each := called(symbol.name))}
        for probe in probes.values():
            _check(name, probe, types)
        replaced = [_in_section(name, file, section, probes, types) for section in list(file.executable())]
    except ImageError as error:
        raise UsageError("foreign-dtrace-object", f"{name}: {error.message}") from None
    return (file.content() if any(replaced) else content), set(probes.values())


def _check(name: str, probe: Called, types: _Types) -> None:
    if (probe.provider, probe.probe) not in types:
        what = f"{name} calls probe {probe.probe} of provider {probe.provider}, which no program defines"
        raise UsageError("foreign-dtrace-object", what, "give the file that defines it with -s")


def _in_section(name: str, file: ObjectFile, section: int, probes: Mapping[int, Called], types: _Types) -> int:
    """Replace the section's calls of probes. Returns how many there were."""
    replaced = 0
    for relocation in list(file.relocations(section)):
        probe = probes.get(relocation.symbol)
        if probe is not None and not probe.enabled and relocation.kind != R_NONE:
            _replace(name, file, section, relocation, probe, types[probe.provider, probe.probe])
            replaced += 1
    return replaced


def _replace(
    name: str, file: ObjectFile, section: int, relocation: Relocation, probe: Called, types: tuple[Type, ...]
) -> None:
    """Replace a call by a nop, and add its note. Raises UsageError `foreign-dtrace-object`, ImageError."""
    at = relocation.offset - 1
    opcode, near = file.read(section, at, 5)[:1], file.name_near(section, at)
    instead = _INSTEAD.get(opcode[0]) if opcode and relocation.kind in (R_PC32, R_PLT32) else None
    if instead is None or near is None:
        what = f"{name} uses probe {probe.probe} of provider {probe.provider} in another way than by a direct call"
        raise UsageError("foreign-dtrace-object", what, "compile it without -fno-plt")
    file.write(section, at, instead)
    file.disable(relocation)
    file.weaken(relocation.symbol)
    start = len(_note_head(0)) + len(_OWNER)
    fixes = [(start, *near), (start + 8, file.undefined(BASE), 0), (start + 16, file.undefined(probe.counter), 0)]
    note = _note(probe, arguments(probe, types, _PUSHED[opcode[0]]))
    file.add_section(".note.stapsdt", SHT_NOTE, note, section, fixes)


def _note(probe: Called, operands: str) -> bytes:
    described = bytes(8 * _ADDRESSES) + b"".join(
        each.encode() + b"\0" for each in (probe.provider, probe.probe, operands)
    )
    return _note_head(len(described)) + _OWNER + described + bytes(-len(described) % 4)


def _note_head(size: int) -> bytes:
    return struct.pack("<3I", len(_OWNER), size, _KIND)
