# SPDX-License-Identifier: LGPL-2.1-or-later
"""Moves threads when code changes under them: out of patches that are removed, into patches that are added.

A stopped thread counts as standing where its ``rip`` is, and wherever a signal handler that it is in will return to.
Such a thread, or a handler that waits to return, is called a context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gilk.arch import asm
from gilk.targets import advised, gates
from gilk.targets.context_writes import Write, of_word
from gilk.targets.frame_writes import lead, let_go, rewritten, second_frame
from gilk.targets.frames import NOTE_MAGIC, ContextRegisters, SignalFrame, registers_of
from gilk.targets.handlers_under_way import HandlersUnderWay
from gilk.targets.held import Held
from gilk.targets.places import Places, long_jump
from gilk.targets.staged_batches import StagedBatches
from gilk.targets.thread import Thread
from gilk.targets.traced import Traced
from gilk.targets.waiting_contexts import WaitingContexts
from gilk.targets.way_out import Led, between_instruments, reads_none, way_out
from gilk.values import dataclass

_BUSY = 32  # in struct gilk_block
_LONGEST = 0.25  # seconds that a thread may take to leave an instrument while the others stand still
_TRIES = 40  # tries at least, however busy the machine is
_MOST_LED_OUT = 4096  # contexts: a program can make memory that looks like any number of them
_MOMENT = 0.00001  # seconds of the first try; each is longer, for a busy machine
_NEAR = 1 << 14  # bytes of stack within which the runtime notes something on a frame above it

#: An original address, and whether its instruments have yet to run (True) or have run (False).
Place = tuple[int, bool]


@dataclass(frozen=True)
class Standing:
    """The place in the original code for a thread that stands in a patch; with ``registers``, if it needs others
    there."""

    place: Place
    registers: ContextRegisters | None = None


@dataclass(frozen=True)
class _Stacks:
    """Stack pointers of threads and contexts: of those that are ``inside`` the runtime or a compiled instrument, and of
    those that are ``returning`` from a handler, or may be, as the runtime is called for that."""

    inside: list[int]
    returning: list[int]


class Busy(Exception):
    """A thread is inside an instrument, or is to return to one, and does not leave it in time."""


class Movement:
    """Finds and moves the contexts of one process. ``held`` is called for the memory that gilk has in the process, at
    the time of use. ``batches``: the batches whose patches threads may be in."""

    def __init__(self, process: Traced, held: Callable[[], Held], batches: StagedBatches) -> None:
        self._process = process
        self._memory = process.memory
        self._held = held
        self._batches = batches
        self._everywhere = batches.everywhere
        self.contexts = WaitingContexts(process, held, batches.everywhere)
        self._handlers = HandlersUnderWay(self._memory, held, batches)
        self.searches = False  # whether contexts may wait in handlers on stacks without a thread
        self.left_behind = False  # whether one waits inside a removed patch: its memory has to stay
        self.stays_inside = False  # whether a thread was inside an instrument when its patch was removed

    def stand(
        self, threads: dict[int, Thread], old: Places, new: Places, tolerant: bool = False, late: bool = False
    ) -> tuple[dict[int, Standing], list[Write]]:
        """The places in the original code for threads that stand in patches of ``old``, by tid, and what to write into
        signal frames.

        No thread is moved yet: a thread that was moved, and had to go on because another was not ready, would run an
        instrument twice. Raises Busy; but if ``tolerant``, threads and contexts that cannot be moved stay where they
        are. If it is ``late``, and the program switches stacks, contexts stay whether they may wait or not.
        """
        places = self._settle_all(threads, old, new, tolerant) if old else {}
        found = {tid: place for tid, place in places.items() if place is not None}
        return found, self._frame_moves(threads, found, old, new, tolerant or (late and self.searches))

    def _settle_all(
        self, threads: dict[int, Thread], old: Places, new: Places, tolerant: bool
    ) -> dict[int, Standing | None]:
        """Settle all threads, also those that one of them has made when it went on; returns their places in the
        original code by tid, None where a thread stands in no patch of ``old``."""
        places: dict[int, Standing | None] = {}
        while fresh := [thread for tid, thread in threads.items() if tid not in places]:
            went_on = False
            for thread in fresh:
                places[thread.tid], ran = self._settle_if(thread, old, new, tolerant)
                went_on |= ran
            if went_on:
                self._process.threads.catch_up()
        return places

    def _settle_if(self, thread: Thread, old: Places, new: Places, tolerant: bool) -> tuple[Standing | None, bool]:
        """Settle a thread as _settle() does; if ``tolerant``, a thread inside an instrument stays there instead of
        raising Busy."""
        try:
            return self._settle(thread, old, new)
        except Busy:
            if not tolerant:
                raise
            self.stays_inside = True
            return None, True

    def _settle(self, thread: Thread, old: Places, new: Places) -> tuple[Standing | None, bool]:
        """Let a thread that is in a patch of ``old`` go on until it is at a place that has an equal in the original
        code; returns that place, or None if it is in no such patch, and whether the thread had to go on to get there.
        A thread to which a signal is on its way cannot go on: if it can be led out of the patch between instruments,
        it is.

        It stays in the patch, since others may not be ready yet. Raises Busy when it is inside an instrument that does
        not end, or calls out.
        """
        deadline, rounds = self._process.now() + _LONGEST, 0
        while self._is_amid(thread, old):
            if thread.signal or (self._process.now() > deadline and rounds >= _TRIES):
                return self._led_thread(thread, new), rounds > 0
            rounds += 1
            try:
                thread = self._process.threads.run_on(thread, min(_MOMENT * rounds, 0.002))
            except ProcessLookupError:
                return None, True
        place = self._original(thread, old)
        return None if place is None else Standing(place), rounds > 0

    def _led_thread(self, thread: Thread, new: Places) -> Standing:
        """The standing of a thread amid a patch that is led out of it. Raises Busy."""
        led = None if thread.restarting() else self._between(thread.context(), new)
        if led is None:
            raise Busy
        return Standing(led.place, led.registers)

    def _between(self, registers: ContextRegisters, new: Places) -> Led | None:
        """The way out of a patch between instruments; None if there is none, or if an instrument of ``new`` would be
        shown registers of this patch."""
        if advised.is_on_stack(self._held(), registers.general[asm.RSP]):
            return None
        led = between_instruments(registers, self._batches.ever(), self._memory, self._is_ours)
        if led is None or not led.spoilt:
            return led
        target = _in(led.place, new)
        shown = target != led.place[0] and not reads_none(led.spoilt, target, new, self._memory)
        return None if shown else led

    def _is_amid(self, thread: Thread, old: Places) -> bool:
        """Whether the thread's place has no equal in the original code, and the thread would come to a patch that is
        removed. Raises Busy."""
        rip = thread.registers.rip
        if self._calling_out(thread):
            raise Busy
        if advised.is_on_stack(self._held(), thread.registers.rsp):
            return True
        if self._original(thread, old) is not None:
            return False
        if self._in_library(rip):
            back = gates.goes_back_to(self._memory, self._held().controls, thread.registers.rsp)
            if back is not None and old.in_patch(back):
                raise Busy
            return back is None
        return old.in_patch(rip)

    def _original(self, thread: Thread, old: Places) -> Place | None:
        """The place in the original code of a thread that is in a patch of ``old``, if its place there has an equal;
        else None."""
        rip = thread.registers.rip
        if thread.restarting():
            place = old.original(rip - 2)
            return (place[0] + 2, True) if place else old.original(rip)
        return old.original(rip)

    def _in_library(self, address: int) -> bool:
        """Whether the address is in the runtime or in a compiled instrument. Which patch has called it is not known
        until it returns."""
        return self._held().in_arena(address) and not self._everywhere().in_patch(address)

    def _calling_out(self, thread: Thread) -> bool:
        """Whether the thread's block says that an instrument calls a function of the program: struct gilk_block, busy.
        It says nothing if the program has made it unreadable."""
        base = thread.registers.gs_base
        return self._held().is_block(base) and any(self._memory.some(base + _BUSY, 8))

    def move(self, thread: Thread, standing: Standing | None, new: Places) -> None:
        """Set a thread's rip to where it goes on: from a removed patch to the equal of its place in the original code,
        and from displaced original code into a new patch."""
        place = None if standing is None else standing.place
        if standing is not None and standing.registers is not None:
            thread.take(standing.registers)
        rip, before = place or (thread.registers.rip, True)
        if thread.restarting() and new.is_displaced(rip - 2):
            patch = new.patch(rip - 2, before=False)
            thread.move(rip if patch is None else patch + 2)
        elif new.is_displaced(rip) or not before:
            patch = new.patch(rip, before)
            thread.move(rip if patch is None else patch)
        elif place is not None:
            thread.move(rip)

    def _frame_moves(
        self, threads: dict[int, Thread], places: dict[int, Standing], old: Places, new: Places, tolerant: bool
    ) -> list[Write]:
        """The writes that give signal frames new return addresses. Raises Busy."""
        originals = {tid: standing.place[0] for tid, standing in places.items()}
        found = self.contexts.of_threads(threads.values(), originals)
        parked = list(self._parked(found))
        frames = [self.contexts.as_noted(frame) for frame in (*found.values(), *parked)]
        stacks = self._stacks(threads, frames)
        moves: list[Write] = []
        for at, frame in enumerate(frames):
            moves_of = self._moves_of_parked if tolerant or at >= len(found) else self._moves_of
            made = moves_of(frame, old, new, stacks)
            if new and not any(move.leaves for move in made):
                made = (*made, *self._from_way_back(frame, new, stacks))
            moves += made
        return [*self._erasures([*found.values(), *parked]), *moves, *self._resumptions(threads, old, new)]

    def _from_way_back(self, frame: SignalFrame, new: Places, stacks: _Stacks) -> tuple[Write, ...]:
        """The writes that lead a context out of a patch that has been removed, if it stays there otherwise, and would
        return into the middle of the code that one of the patches ``new`` displaces. Raises Busy if that cannot be
        done."""
        if not self._is_ours(frame.place):
            return ()
        if not self._batches.ever().comes_back_amid(frame.place, new, self._memory):
            return ()
        return self._led_frame(frame, Places([]), new, stacks)

    def _stacks(self, threads: dict[int, Thread], frames: Sequence[SignalFrame]) -> _Stacks:
        standing = [(thread.registers.rip, thread.registers.rsp) for thread in threads.values()]
        there = [*standing, *((frame.place, frame.rsp) for frame in frames)]
        inside = [rsp for place, rsp in there if self._in_library(place)]
        return _Stacks(inside, [*inside, *(rsp for place, rsp in there if self.contexts.returns(place))])

    def _led_frame(self, frame: SignalFrame, old: Places, new: Places, stacks: _Stacks) -> tuple[Write, ...]:
        """The writes that lead a context out of a patch, one of ``old`` or one that was removed before. Raises Busy if
        that is not possible, or if the runtime may be about to write a note on the frame."""
        registers = registers_of(frame, self._memory) if frame.is_below else None
        near = any(0 <= frame.slot - rsp < _NEAR for rsp in stacks.inside)
        led = None if registers is None or near else self._between(registers, new)
        if led is None or self._stays_displaced(led.place[0], old, new):
            raise Busy
        target = replace(led.registers, rip=_in(led.place, new))
        made = rewritten(frame, target, self._memory, second_frame(self._held()))
        if not made:
            raise Busy
        return tuple(Write(piece.at, piece.data, piece.before, leaves=True) for piece in made)

    def _stays_displaced(self, original: int, old: Places, new: Places) -> bool:
        """Whether the instruction is displaced by a patch that is in force before and after the change."""
        active = self._batches.places(self._batches.active)
        return active.is_displaced(original) and not (old.is_displaced(original) or new.is_displaced(original))

    def _erasures(self, frames: list[SignalFrame]) -> Iterator[Write]:
        """The writes that erase left-over notes: a handler that returns to gilk's code would take one for a new
        note."""
        for note in (frame.note for frame in frames if self.contexts.is_left_over(frame)):
            if note is not None:
                yield of_word(note.at, 0, NOTE_MAGIC, False)

    def _resumptions(self, threads: dict[int, Thread], old: Places, new: Places) -> Iterator[Write]:
        """The writes for calls with advice, which go on behind the entry's instruments, in the patch that is there
        after the change."""
        held, memory = self._held(), self._memory
        for base in {thread.registers.gs_base for thread in threads.values()} if old else ():
            for found in advised.resumptions(held, memory, base):
                if old.original(found.address) is not None:
                    yield of_word(found.slot, self._through(found.address, old, new), found.address, True)

    def are_called(self, threads: dict[int, Thread]) -> bool:
        """Whether a thread is in a function of the program that an instrument or advice has called, or that has advice:
        it will come back to gilk's memory."""
        held = self._held()
        bases = {thread.registers.gs_base for thread in threads.values()}
        advised_calls = any(True for base in bases for _ in advised.resumptions(held, self._memory, base))
        return advised_calls or self._in_advice(threads) or any(map(self._calling_out, threads.values()))

    def _in_advice(self, threads: dict[int, Thread]) -> bool:
        """Whether the advice of a thread is running, perhaps below a signal handler on another stack."""
        held, registers = self._held(), [thread.registers for thread in threads.values()]
        return any(
            advised.is_on_stack(held, one.rsp) or advised.left(held, self._memory, one.gs_base) for one in registers
        )

    def are_out(self, threads: dict[int, Thread]) -> bool:
        """Whether no thread is in gilk's memory, nor waits in a handler to go on there."""
        found = self.contexts.of_threads(threads.values(), {})
        places = self._standing_or_waiting(threads, [*found.values(), *self._parked(found)])
        return not any(map(self._is_ours, places))

    def lead_out(self, threads: dict[int, Thread]) -> None:
        """Have the contexts that wait amid patches go on in the original code, if the rest of their patch only restores
        registers. All patches must have been taken out. Whether a context will ever go on is not known: so nothing is
        written but its frame."""
        found = self.contexts.of_threads(threads.values(), {})
        contexts = map(self.contexts.as_noted, (*found.values(), *self._parked(found)))
        ours = [context for context in contexts if context.is_below and self._is_ours(context.place)]
        places = self._batches.ever() if ours else Places([])
        for context in ours[:_MOST_LED_OUT]:
            self._lead_out(context, places)

    def _is_ours(self, address: int) -> bool:
        held = self._held()
        return held.in_arena(address) or held.in_page(address)

    def _way_out(self, registers: ContextRegisters, places: Places) -> ContextRegisters | None:
        if advised.is_on_stack(self._held(), registers.general[asm.RSP]):
            return None
        return way_out(registers, places, self._memory, self._is_ours)

    def _lead_out(self, frame: SignalFrame, places: Places) -> None:
        if frame.is_whole:
            let_go(frame, self._memory)
            return
        registers = registers_of(frame, self._memory)
        out = None if registers is None else self._way_out(registers, places)
        if out is not None:
            lead(frame, out, self._memory, second_frame(self._held()))

    def _standing_or_waiting(self, threads: dict[int, Thread], frames: Sequence[SignalFrame]) -> list[int]:
        """The addresses at which threads stand, and at which the contexts of ``frames`` go on."""
        waiting = [self.contexts.as_noted(frame).place for frame in frames]
        return [*(thread.registers.rip for thread in threads.values()), *waiting]

    def _parked(self, found: dict[int, SignalFrame]) -> Iterator[SignalFrame]:
        """The signal frames on stacks without a thread, if there may be any; ``found`` are the others.

        In a program that is not known to switch stacks, only frames with a note count: a note is erased when its
        handler returns, while the frame itself stays in memory as it was.
        """
        certain = self.searches or self.left_behind
        if certain or self.contexts.more_are_noted(found):
            yield from (frame for frame in self.contexts.parked(found) if certain or frame.note is not None)

    def _moves_of(self, frame: SignalFrame, old: Places, new: Places, stacks: _Stacks) -> tuple[Write, ...]:
        """The writes for one frame. A context that stays gets one, too, if its handler, which was shown another
        address, returns by itself from now on. Raises Busy."""
        if (old and advised.is_on_stack(self._held(), frame.rsp)) or (frame.note and frame.note.under_way):
            raise Busy
        if frame.is_whole:
            return self._moves_of_whole(frame, old, new, stacks)
        try:
            through = self._through(frame.place, old, new)
        except Busy:
            return self._led_frame(frame, old, new, stacks)
        goes_in = through != frame.place and self._is_ours(through)
        if goes_in and self._handlers.keeps(frame, old, new, stacks.returning):
            return self._handlers.writes(frame, through)
        if through == frame.place and self._stays_displaced(through, old, new):
            if self._handlers.is_let_down(frame, old, new):
                through = _in((through, True), self._batches.places(self._batches.active))
        alone = self._returns_alone(frame, old, new)
        beyond = self.beyond_bounce(frame.place, old)
        first = () if beyond is None else self._writes(frame, beyond, leaves=False)
        leaves = through != frame.place
        return (*first, *self._writes(frame, through, leaves)) if leaves or alone else ()

    def _moves_of_whole(self, frame: SignalFrame, old: Places, new: Places, stacks: _Stacks) -> tuple[Write, ...]:
        """The writes for a frame that has the original state of a context amid a patch. Raises Busy."""
        if old.in_patch(frame.place):
            return self._led_frame(frame, old, new, stacks)
        return self._let_go(frame, old, new) if self._returns_alone(frame, old, new) else ()

    @staticmethod
    def _returns_alone(frame: SignalFrame, old: Places, new: Places) -> bool:
        """Whether the runtime leads the frame's handler back before the change, and does not any more after it."""
        return frame.note is not None and old.leads_away(frame.restorer) and not new.stays(frame.restorer)

    def _let_go(self, frame: SignalFrame, old: Places, new: Places) -> tuple[Write, ...]:
        """The writes after which a context goes on with the original state that its handler sees."""
        target = _in((frame.rip, True), new)
        if self._stays_displaced(frame.rip, old, new):
            target = _in((frame.rip, True), self._batches.places(self._batches.active))
        return self._writes(frame, target, leaves=True)

    def _stay(self, frame: SignalFrame, old: Places, new: Places) -> tuple[Write, ...]:
        """The writes after which a context inside a patch that is removed goes on there, though its handler may have
        seen another address; but with the original state, if the handler sees that and returns by itself."""
        if frame.note is None or not frame.note.frame:
            return self._writes(frame, frame.place, leaves=False)
        if frame.is_whole and self._returns_alone(frame, old, new):
            return self._let_go(frame, old, new)
        return ()

    def beyond_bounce(self, address: int, old: Places) -> int | None:
        """The target of the long jump of a bounce that stands at ``address``; None if no bounce of ``old`` has a jump
        there."""
        if not old or old.in_patch(address) or old.original(address) is None:
            return None
        target = long_jump(address, self._memory)
        return target if target is not None and old.in_patch(target) else None

    def _writes(self, frame: SignalFrame, address: int, leaves: bool) -> tuple[Write, ...]:
        read = self._memory.read
        return tuple(
            Write(slot, word.to_bytes(8, "little"), read(slot, 8), leaves) for slot, word in frame.moved(address)
        )

    def _moves_of_parked(self, frame: SignalFrame, old: Places, new: Places, stacks: _Stacks) -> tuple[Write, ...]:
        """The writes for a frame that gilk does not wait for, since nobody knows when a parked context runs. A context
        inside a patch that is removed stays there, and goes on through the patch, though its handler may have seen
        another address."""
        try:
            return self._moves_of(frame, old, new, stacks)
        except Busy:
            self.left_behind = True
            return self._stay(frame, old, new)

    def _through(self, rip: int, old: Places, new: Places) -> int:
        place = old.original(rip)
        if place is None:
            if old.in_patch(rip) or (old and self._in_library(rip)):
                raise Busy
            place = (rip, True)
        return _in(place, new)


def _in(place: Place, new: Places) -> int:
    """The address of a place of the original code when the patches ``new`` are in force."""
    if new.is_displaced(place[0]) or not place[1]:
        patch = new.patch(*place)
        return place[0] if patch is None else patch
    return place[0]
