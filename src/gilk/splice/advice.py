# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice on calls, as machine code in patches: at a function's entry and where it returns (native/runtime/advice.h). A
function with advice may end in a jump to another function: that one has instruments, too, at its entry, where it jumps
on, and where it returns.

Advice stands at the end of a patch: the thread may leave the patch for the advice, and comes back behind it, or not at
all. So at a point it stands behind all other instruments, and several pieces of advice at a point share one instrument.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

from gilk.analysis.model import EVERYTHING
from gilk.arch import asm
from gilk.splice.code import CodeBuilder
from gilk.splice.copy_entry import EnteredCopy
from gilk.splice.frame import FLAGS, enter, frame_for, leave, scratch
from gilk.splice.host import Context, Host
from gilk.splice.instrument import Instrument
from gilk.values import dataclass

_SHOWN = 200  # struct gilk_block: advising.shown
_BELOW = 128  # bytes that native/host/advice.S expects below the stack pointer
_JAE32 = b"\x0f\x83"


def _leave(builder: CodeBuilder, end: int, again: int, thunk: int, tell: Callable[[], None]) -> None:
    """Append a jump to the thunk. The thunk goes on at the label ``end``, which is placed here, with all registers and
    flags unchanged, or at the jump to ``again`` just before it. ``tell`` appends the code that loads r11 for the thunk.
    """
    builder.emit(asm.lea_stack(asm.RSP, -_BELOW) + asm.push(asm.R11))
    builder.local(asm.LEA_R11_RIP, end)
    builder.emit(asm.push(asm.R11))
    tell()
    builder.external(asm.JMP32, thunk)
    builder.local(asm.JMP32, again)
    builder.place(end)


@dataclass(frozen=True, slots=True)
class Advised(ABC):
    """An instrument for advice on calls. ``words`` are the addresses of words, each of which holds the address of a
    struct gilk_advice.
    """

    words: tuple[int, ...]

    @property
    def reads(self) -> int:
        return EVERYTHING

    @abstractmethod
    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None: ...

    def joined(self, other: Advised) -> Self:
        """This instrument, with the advice of ``other`` added."""
        return replace(self, words=tuple(dict.fromkeys((*self.words, *other.words))))

    def _list(self, builder: CodeBuilder) -> Callable[[], None]:
        """Lay a list of the words behind all code; the returned function appends the code that loads r11 with the
        list's address.
        """
        label = builder.label()

        def lay() -> None:
            builder.place(label)
            for word in self.words:
                builder.external(b"", word)
            builder.emit(bytes(4))

        builder.cold(lay)
        return lambda: builder.local(asm.LEA_R11_RIP, label)

    def _compare(self, builder: CodeBuilder, host: Host, context: Context, thunk: int) -> None:
        """Append one comparison of the stack pointer; the thread goes to the thunk if a call at this stack pointer may
        have advice.
        """
        flags = bool(context.live & FLAGS)
        reg = scratch(context.live, 1 << asm.RSP | (1 << asm.RAX if flags else 0))
        frame = frame_for(context.live, 1 << reg | FLAGS, red_zone=host.red_zone)
        start, candidate, back, end = (builder.label() for _ in range(4))
        builder.place(start)
        enter(builder, frame)
        builder.emit(asm.lea_stack(reg, frame.size) + asm.cmp_gs(reg, _SHOWN))
        builder.local(_JAE32, candidate)
        leave(builder, frame)
        builder.place(end)
        tell = self._list(builder)

        def look() -> None:
            builder.place(candidate)
            leave(builder, frame)
            _leave(builder, back, start, thunk, tell)
            builder.local(asm.JMP32, end)

        builder.cold(look)


@dataclass(frozen=True, slots=True)
class AdvisedEntry(Advised):
    """The instrument at the entry of a function with advice: ``advice`` is the address of its struct gilk_advice.
    ``thunk`` is the runtime's way in at entries, and ``returned`` its way in at returns: the call may be over at once,
    and the calls that jumped to it with it.
    """

    advice: int
    thunk: int
    returned: int

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        end, over, out = (builder.label() for _ in range(3))
        _leave(builder, end, over, self.thunk, lambda: builder.external(asm.LEA_R11_RIP, self.advice))
        tell = self._list(builder)

        def look() -> None:
            builder.place(over)
            _leave(builder, out, over, self.returned, tell)
            builder.emit(asm.RET)

        builder.cold(look)


@dataclass(frozen=True, slots=True)
class Compared(Advised):
    """An instrument at a point where only the newest call with advice matters: all other calls cost one comparison."""

    thunk: int

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        """Append the comparison. A return address that the splice has pushed lies in the red zone meanwhile."""
        if context.pushed:
            builder.emit(asm.lea_stack(asm.RSP, context.pushed))
        self._compare(builder, host, context, self.thunk)
        if context.pushed:
            builder.emit(asm.lea_stack(asm.RSP, -context.pushed))


@dataclass(frozen=True, slots=True)
class ReachedEntry(Compared):
    """The instrument at the entry of a function that a function with advice may jump to."""


@dataclass(frozen=True, slots=True)
class AdvisedStay(Compared):
    """The instrument behind a conditional jump to another function, on the path where the jump was not taken."""


@dataclass(frozen=True, slots=True)
class AdvisedJump(Compared):
    """The instrument in front of a jump to another function, or to the function's own entry."""


@dataclass(frozen=True, slots=True)
class AdvisedReturn(Compared):
    """The instrument in front of a return."""


@dataclass(frozen=True, slots=True)
class LeavingEntry:
    """The instrument at the entry of a function by which calls are left that do not return. ``thunk`` is the runtime's
    way in.
    """

    thunk: int

    @property
    def reads(self) -> int:
        return EVERYTHING

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        """Append the code. A return address that the splice has pushed lies in the red zone meanwhile."""
        if context.pushed:
            builder.emit(asm.lea_stack(asm.RSP, context.pushed))
        end = builder.label()
        _leave(builder, end, end, self.thunk, lambda: None)
        if context.pushed:
            builder.emit(asm.lea_stack(asm.RSP, -context.pushed))


@dataclass(frozen=True, slots=True)
class JumpsBack(LeavingEntry):
    """The instrument of longjmp()."""


@dataclass(frozen=True, slots=True)
class Unwinds(LeavingEntry):
    """The instrument of _Unwind_SetIP()."""


#: The functions of the runtime to which the instruments at entries of functions lead by which calls are left.
LEAVING = {JumpsBack: "gilk_advice_jumps_back", Unwinds: "gilk_advice_unwinds"}
_THUNKS: dict[type[Advised], str] = {
    ReachedEntry: "gilk_advice_reached",
    AdvisedStay: "gilk_advice_stays",
    AdvisedJump: "gilk_advice_jumps",
    AdvisedReturn: "gilk_advice_returned",
}
#: The order of these instruments at one point: a function may begin with a jump, or with its return.
_ORDER = (AdvisedEntry, ReachedEntry, AdvisedStay, AdvisedJump, AdvisedReturn)


def compared(kind: type[Advised], words: tuple[int, ...], symbol: Callable[[str], int]) -> Advised:
    """An instrument of ``kind``, a subclass of Compared; ``symbol`` tells the address of a function of the runtime."""
    assert issubclass(kind, Compared)
    return kind(words, symbol(_THUNKS[kind]))


def last(instruments: list[Instrument]) -> list[Instrument]:
    """The instruments, with those of advice moved behind all others and joined so that there is one of each kind.

    A LeavingEntry comes behind the advice: until the function itself goes on, the calls that it will leave are under
    way, and advice in its place may keep it from leaving any. So does an EnteredCopy: a function that begins with a
    copy of another one is called before that one.
    """
    found = [each for each in instruments if isinstance(each, Advised)]
    if not found:
        return instruments
    behind = [each for each in instruments if isinstance(each, EnteredCopy | LeavingEntry)]
    others = (each for each in instruments if not isinstance(each, Advised | EnteredCopy | LeavingEntry))
    return [*others, *_joined(found), *behind]


def _joined(found: Sequence[Advised]) -> list[Advised]:
    """One instrument of each kind, in the order of _ORDER. An entry that has advice takes in one that is reached by
    jumps.
    """
    advised = any(isinstance(each, AdvisedEntry) for each in found)
    kinds: dict[type[Advised], Advised] = {}
    for each in sorted(found, key=lambda each: _ORDER.index(type(each))):
        kind = AdvisedEntry if advised and isinstance(each, ReachedEntry) else type(each)
        kinds[kind] = kinds[kind].joined(each) if kind in kinds else each
    return list(kinds.values())
