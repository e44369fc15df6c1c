# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice where calls of a function begin without its own entry, as machine code in patches: at an inlined copy of it,
or at a copy under another name. The arguments are where debug information places them there.

The patch hands them to C as the bytes of a struct gilk_access (native/abi/gilk_access.h), by the thunk of accesses.
"""

from __future__ import annotations

from gilk.arch import asm
from gilk.image.value_place import ValuePlace
from gilk.splice.access import FRAME, KEPT, R11, AccessAdvice, call_advice
from gilk.splice.code import CodeBuilder
from gilk.splice.frame import FLAGS, Frame
from gilk.splice.host import Context, Host
from gilk.splice.recording import load_places
from gilk.values import dataclass

_EVERYTHING = FLAGS | (1 << 16) - 1
_NOTHING_SAVED = Frame((), False, 0)


@dataclass(frozen=True, slots=True)
class EnteredCopy:
    """The instrument at the beginning of a copy. ``places``: those of the arguments, by their numbers; C reads nothing
    where there is none. ``thunk``: the runtime's way in.
    """

    advice: AccessAdvice
    places: tuple[ValuePlace | None, ...]
    thunk: int

    @property
    def reads(self) -> int:
        return _EVERYTHING

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        """Append the code. A return address that the splice has pushed lies in the red zone meanwhile."""
        below = FRAME - context.pushed
        builder.emit(asm.lea_stack(asm.RSP, -below))
        builder.emit(asm.store_stack(asm.R11, R11) + asm.store_stack(asm.RAX, KEPT))
        for number, (code, held) in enumerate(load_places(_NOTHING_SAVED, self.places, FRAME)):
            again = b"" if held != asm.RAX else asm.load_stack(asm.RAX, KEPT)
            builder.emit(code + asm.store_stack(held, 8 * number) + again)
        end = builder.label()
        call_advice(builder, context, self.thunk, self.advice, 0, end)
        builder.place(end)
        builder.emit(asm.lea_stack(asm.RSP, below))
