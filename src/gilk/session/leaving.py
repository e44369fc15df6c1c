# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions by which a program leaves calls that do not return: longjmp(), and the function that tells the unwinder
of exceptions where to go on. A session whose advice asks which calls are under way has instruments at their entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from iced_x86 import Mnemonic, Register

from gilk.arch.decode import decode
from gilk.image import lookup
from gilk.session.places import FunctionView, functions
from gilk.session.request import CFunction, Wanted
from gilk.splice.advice import LEAVING, JumpsBack, LeavingEntry, Unwinds
from gilk.targets.base import Target
from gilk.values import dataclass

#: The names that C libraries give to longjmp(); __longjmp_chk checks its argument first (_FORTIFY_SOURCE).
_JUMPS = ("longjmp", "_longjmp", "siglongjmp", "__longjmp_chk")
#: The file that has the code of the instruments.
_OURS = Path("advice.S")
#: Where native/host/advice.S finds the stack pointer in the first argument of _Unwind_SetIP().
_CFA_AT = 144


@dataclass(frozen=True, slots=True)
class LeavingFunction:
    """A function by which calls are left, and the instrument that its entry gets."""

    view: FunctionView
    kind: type[LeavingEntry]

    @property
    def wanted(self) -> Wanted:
        place = self.view.entry
        return Wanted(place.loaded, place.function, place.point, CFunction(_OURS, LEAVING[self.kind]), "other")


def leaving(process: Target) -> tuple[LeavingFunction, ...]:
    """The functions of a process by which calls are left, in all of its images."""
    jumps = (LeavingFunction(view, JumpsBack) for name in _JUMPS for view in _named(process, name))
    unwinders = (LeavingFunction(view, Unwinds) for view in _named(process, "_Unwind_SetIP") if _is_known(view))
    return tuple({one.view.address: one for one in (*jumps, *unwinders)}.values())


def _named(process: Target, name: str) -> Iterator[FunctionView]:
    for loaded in process.loaded():
        for span in lookup.matching(process.image(loaded.path), name):
            yield FunctionView(process, loaded, process.analysis(loaded).function(span))


def _is_known(view: FunctionView) -> bool:
    """Whether the unwinder is libgcc's: its _Unwind_GetCFA() loads the stack pointer from _CFA_AT."""
    found = functions(view.process, "_Unwind_GetCFA", view.loaded.name)
    return any(_loads_from(one.function.code, _CFA_AT) for one in found)


def _loads_from(code: bytes, at: int) -> bool:
    """Whether the function returns the word at offset ``at`` of its first argument, and does nothing else."""
    made = [one for one in decode(code, 0) if one.mnemonic != Mnemonic.ENDBR64]
    return (
        [one.mnemonic for one in made[:2]] == [Mnemonic.MOV, Mnemonic.RET]
        and made[0].op0_register == Register.RAX
        and made[0].memory_base == Register.RDI
        and made[0].memory_displacement == at
    )
