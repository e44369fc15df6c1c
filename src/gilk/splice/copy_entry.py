# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice where calls of a function begin without its own entry, and where they are left, as machine code in patches: at
an inlined copy of it, or at a copy under another name. The arguments are where debug information places them there.

The patch hands them to C as the bytes of a struct gilk_access (native/abi/gilk_access.h), by the thunk of accesses.
"""

from __future__ import annotations

from collections.abc import Mapping

from gilk.analysis.model import EVERYTHING
from gilk.arch import asm
from gilk.image.value_place import ValuePlace
from gilk.splice.access import BEHIND, FRAME, KEPT, R11, WHOLE, AccessAdvice, call_advice
from gilk.splice.code import CodeBuilder
from gilk.splice.frame import Frame
from gilk.splice.host import Context, Host
from gilk.splice.recording import load_places
from gilk.values import dataclass

_NOTHING_SAVED = Frame((), False, 0)
#: The numbers of words behind the arguments: the result, and the address of the frame (native/include/gilk_copies.h).
_RESULT, _FRAME = 6, 7


@dataclass(frozen=True, slots=True)
class EnteredCopy:
    """The instrument at the beginning of a copy. ``places``: those of the arguments, by their numbers; C reads nothing
    where there is none. ``frame``: the address by which a call is known again with the ``number`` of the copy; None if
    nothing waits for its end. ``thunk``: the runtime's way in.
    """

    advice: AccessAdvice
    thunk: int
    places: tuple[ValuePlace | None, ...]
    number: int = 0
    frame: ValuePlace | None = None

    @property
    def reads(self) -> int:
        return EVERYTHING

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        """Append the code."""
        words = {**dict(enumerate(self.places[:_RESULT])), _FRAME: self.frame}
        _call(builder, context, self, words, WHOLE)


@dataclass(frozen=True, slots=True)
class LeftCopy:
    """The instrument where calls of a copy are left. ``entry``: the address at which they begin in the process; the
    other fields are those of its EnteredCopy. In a copy that returns as functions do, rax has its result.
    """

    advice: AccessAdvice
    thunk: int
    number: int
    frame: ValuePlace
    entry: int

    @property
    def reads(self) -> int:
        return EVERYTHING

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        """Append the code."""
        _call(builder, context, self, {_RESULT: ValuePlace(asm.RAX), _FRAME: self.frame}, BEHIND, self.entry)


def _call(
    builder: CodeBuilder, context: Context, of: EnteredCopy | LeftCopy, words: Mapping[int, ValuePlace | None],
    phase: int, pc: int = 0,
) -> None:  # fmt: skip
    """Append a call of the advice with values from their places, by the numbers of the words in which C has them. A
    return address that the splice has pushed lies in the red zone meanwhile."""
    below = FRAME - context.pushed
    builder.emit(asm.lea_stack(asm.RSP, -below))
    builder.emit(asm.store_stack(asm.R11, R11) + asm.store_stack(asm.RAX, KEPT))
    places = {number: place for number, place in words.items() if place is not None}
    for number, (code, held) in zip(places, load_places(_NOTHING_SAVED, [*places.values()], FRAME), strict=True):
        again = b"" if held != asm.RAX else asm.load_stack(asm.RAX, KEPT)
        builder.emit(code + asm.store_stack(held, 8 * number) + again)
    end = builder.label()
    call_advice(builder, context, of.thunk, of.advice, of.number, end, phase=phase, pc=pc)
    builder.place(end)
    builder.emit(asm.lea_stack(asm.RSP, below))
