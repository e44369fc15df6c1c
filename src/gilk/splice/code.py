# SPDX-License-Identifier: LGPL-2.1-or-later
"""Machine code whose address is not decided yet.

A ``PatchCode`` is bytes plus *fixups*, the 32-bit relative fields that point at absolute addresses outside of it. A
``CodeBuilder`` makes a PatchCode; labels inside are resolved when it finishes, so only references to the outside need
an address. A ``Template`` is code that a builder made once, to be copied into other code with one number changed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from gilk.values import dataclass

_REL32 = struct.Struct("<i")
_WORD = struct.Struct("<I")
_pack = _REL32.pack_into


#: (offset, end, target, jump): the rel32 at ``offset``, in an instruction that ends at ``end``, refers to ``target``.
#: ``jump``: the instruction transfers control, and may as well go to a patch that stands for its target.
Fixup = tuple[int, int, int, bool]

#: (offset, address, before): at ``offset`` the machine is in the state of the original code at ``address``.
#: ``before`` tells whether the instruments of that address have yet to run.
Mark = tuple[int, int, bool]


@dataclass(frozen=True, slots=True)
class PatchCode:
    """Machine code that is position-independent but for its fixups, and for the absolute addresses in ``words``.

    ``words`` are the offsets of the low halves of absolute addresses; the high half is eight bytes on. ``holes`` are
    the offsets of the numbers of instruments.
    """

    data: bytes
    fixups: tuple[Fixup, ...]
    marks: tuple[Mark, ...]
    words: tuple[int, ...] = ()
    holes: tuple[int, ...] = ()

    def placed(self, address: int, links: dict[int, int]) -> bytes:
        """The bytes for the address ``address``; a jump whose target is a key of ``links`` goes to the value instead.

        Raises OverflowError when a target is out of reach.
        """
        data = bytearray(self.data)
        try:
            for offset, end, target, jump in self.fixups:
                if jump:
                    target = links.get(target, target)
                _pack(data, offset, target - address - end)
        except struct.error:
            raise OverflowError(f"{target:#x} is out of reach of {address:#x}") from None
        return bytes(data)


class Template(NamedTuple):
    """Code in a hot and a cold part, which are laid apart. ``hole`` is the offset in the hot part of the number that
    differs from copy to copy.

    ``crossing`` are the rel32 fields that lead from one part to the other, as (offset, target), counted from the start
    of the hot part with the cold part right behind it.
    """

    hot: bytes
    cold: bytes
    hole: int
    hot_fixups: tuple[Fixup, ...]
    cold_fixups: tuple[Fixup, ...]
    crossing: tuple[tuple[int, int], ...]


class CodeBuilder:
    """Appends code to a patch; code of ``cold`` parts is laid behind the rest."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.fixups: list[Fixup] = []
        self.marks: list[Mark] = []
        self.words: list[int] = []
        self.holes: list[int] = []
        self._labels: dict[int, int] = {}
        self._locals: list[tuple[int, int]] = []
        self._count = 0
        self._cold: list[Callable[[], None]] = []
        self._templates: list[tuple[int, Template]] = []
        self._hole = -1

    def emit(self, data: bytes) -> None:
        self.data += data

    def external(self, opcode: bytes, target: int, tail: bytes = b"", jump: bool = False) -> None:
        """Append ``opcode rel32 tail``, where rel32 refers to the absolute address ``target``."""
        data = self.data
        data += opcode
        offset = len(data)
        data += b"\0\0\0\0" + tail
        self.fixups.append((offset, len(data), target, jump))

    def word(self, low: bytes, high: bytes, address: int) -> None:
        """Append ``low imm32`` and ``high imm32`` with the two halves of the absolute ``address``; ``high`` has four
        bytes.
        """
        data = self.data
        data += low
        self.words.append(len(data))
        data += _WORD.pack(address & 0xFFFFFFFF) + high + _WORD.pack(address >> 32)

    def label(self) -> int:
        self._count += 1
        return self._count

    def place(self, label: int) -> None:
        self._labels[label] = len(self.data)

    def local(self, opcode: bytes, label: int) -> None:
        """Append ``opcode rel32``, where rel32 refers to a label."""
        self.data += opcode + b"\0\0\0\0"
        self._locals.append((len(self.data) - 4, label))

    def cold(self, part: Callable[[], None]) -> None:
        """Have ``part`` emit its code after everything else."""
        self._cold.append(part)

    def mark(self, address: int, before: bool) -> None:
        self.marks.append((len(self.data), address, before))

    def hole(self) -> None:
        """Note that the last four bytes are the number that differs between copies of a template."""
        self._hole = len(self.data) - 4
        self.holes.append(self._hole)

    def insert(self, template: Template, number: int) -> None:
        """Append a template's code with ``number`` in its hole."""
        data, at = self.data, len(self.data)
        data += template.hot
        hole = at + template.hole
        _WORD.pack_into(data, hole, number)
        self.holes.append(hole)
        for offset, end, target, jump in template.hot_fixups:
            self.fixups.append((at + offset, at + end, target, jump))
        self._templates.append((at, template))

    def template(self) -> Template:
        """All code so far, with its cold parts, as a template."""
        size, hot = len(self.data), set(self._labels)  # a label at ``size`` may belong to either part
        code = self.finish()
        crossing = tuple((o, self._labels[n]) for o, n in self._locals if (o < size) != (n in hot))
        return Template(
            code.data[:size],
            code.data[size:],
            self._hole,
            tuple(f for f in code.fixups if f[0] < size),
            tuple(f for f in code.fixups if f[0] >= size),
            crossing,
        )

    def finish(self) -> PatchCode:
        for at, template in self._templates:
            self._lay_cold(at, template)
        for part in self._cold:
            part()
        for offset, label in self._locals:
            _pack(self.data, offset, self._labels[label] - (offset + 4))
        return PatchCode(bytes(self.data), tuple(self.fixups), tuple(self.marks), tuple(self.words), tuple(self.holes))

    def _lay_cold(self, at: int, template: Template) -> None:
        """Append the cold part of a template whose hot part lies at ``at``, and correct the fields that lead from one
        part to the other.
        """
        data, size = self.data, len(template.hot)
        behind = len(data) - size
        far = behind - at  # how much farther apart the two parts lie here than in the template
        data += template.cold
        for offset, target in template.crossing:
            if offset < size:
                _pack(data, at + offset, target + far - offset - 4)
            else:
                _pack(data, behind + offset, target - offset - 4 - far)
        for offset, end, goal, jump in template.cold_fixups:
            self.fixups.append((behind + offset, behind + end, goal, jump))
