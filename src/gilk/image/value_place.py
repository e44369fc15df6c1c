# SPDX-License-Identifier: LGPL-2.1-or-later
"""Places of values at an instruction, as debug information tells them: in registers, in the frame on the stack, or
nowhere, because they are known.
"""

from __future__ import annotations

from dataclasses import replace

from gilk.values import dataclass

RSP, RBP = 4, 5  # the hardware's numbers
_WORD = (1 << 64) - 1
_RED_ZONE = 128
_LARGEST_FRAME = 1 << 16
_GIVEN = 256  # bytes of arguments on the stack
FARTHEST = 1 << 30  # bytes from a register
CFA = 16  # stands for the canonical frame address among the numbers of registers


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """The place of a value of ``width`` bytes: 1, 2, 4 or 8. The value is the sum of register ``base`` and ``offset``;
    if ``loaded``, it is in the memory at that sum. ``base``: the hardware's number, CFA, or None if there is no
    register. ``of_image``: the offset is a link-time address.
    """

    base: int | None
    offset: int = 0
    loaded: bool = False
    width: int = 8
    of_image: bool = False

    def in_frame(self, base: int, above: int) -> ValuePlace | None:
        """The place in terms of register ``base``, RSP or RBP; the canonical frame address is ``above`` bytes above it.
        None for memory that may be outside of the frame and the arguments behind it."""
        place = replace(self, base=base, offset=self.offset + above) if self.base == CFA else self
        if not place.loaded:
            return place
        lowest = -_RED_ZONE if base == RSP else above - _LARGEST_FRAME
        inside = place.base == base and lowest <= place.offset <= above + _GIVEN - place.width
        return place if inside else None

    def moved(self, bias: int) -> ValuePlace:
        """The place in a process that has the image ``bias`` bytes behind its link-time addresses."""
        return replace(self, offset=self.offset + bias & _WORD, of_image=False) if self.of_image else self


@dataclass(frozen=True, slots=True)
class ArgumentPlace:
    """The place of an argument: ``number`` counts as argument registers do, so that arguments in none have None.
    ``name``: as the source has it, '' if it has none. ``place`` is None if there is none; ``why`` says why not: a slug
    of docs/refusals.md.
    """

    number: int | None
    name: str
    place: ValuePlace | None = None
    why: str = ""
