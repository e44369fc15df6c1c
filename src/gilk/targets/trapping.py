# SPDX-License-Identifier: LGPL-2.1-or-later
"""Leads threads to advice when debug registers show that they have accessed a variable.

The keeper traces all threads of the process meanwhile. The processor stops a thread after the instruction, and the
keeper puts struct gilk_access (native/abi/gilk_access.h) below its red zone and has it go on at gilk_trapped, from
where it comes back by itself. The program never gets the signal.

If the keeper is killed, the kernel frees the registers, but delivers a signal that is on its way, which would end the
program. So the process ignores SIGTRAP as long as it is trapped, and one that handles SIGTRAP itself is refused. A
record in its memory tells `gilk restore` to undo that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from gilk.analysis.before import GENERAL, LONGEST, LOOKED_AT, MadeAccess, PassedPlace, made_access
from gilk.splice.access import FRAME
from gilk.targets import ptrace
from gilk.targets.debug_registers import DebugRegisters, WatchedPiece, refused
from gilk.targets.memory import Memory
from gilk.targets.status import status_of
from gilk.targets.system_calls import ACTION_SIZE, SystemCalls
from gilk.targets.thread import Thread

_ACCESS = struct.Struct("<Q24xQ24xQQQQQQQQ")  # struct gilk_access
_DEFAULT, _IGNORE = bytes(ACTION_SIZE), (1).to_bytes(8, "little") + bytes(ACTION_SIZE - 8)
_REGISTERS = (*GENERAL, "rip", "eflags", "fs_base")


class Trapping:
    """The trapping of one process; implements Trapper (tree.py)."""

    def __init__(
        self, pid: int, memory: Memory, pieces: Sequence[WatchedPiece], enter: int, tids: Sequence[int],
        executed: Callable[[], None],
    ) -> None:  # fmt: skip
        """Begin, while all threads stand still. ``enter``: the address of gilk_trapped. ``executed`` is called when the
        process has executed another program. Raises TargetError `no-debug-registers`."""
        self._pid, self._memory, self._pieces, self._enter = pid, memory, tuple(pieces), enter
        self._executed = executed
        self.registers = DebugRegisters(self._pieces, tids)
        self._last = [memory.read(one.address, one.size) for one in self._pieces]
        self._known: dict[int, tuple[bytes, MadeAccess]] = {}  # by place: the code there, and the access
        self._seen, self._late, self._unclear, self._unled = [0] * len(self._pieces), 0, 0, 0

    @property
    def pid(self) -> int:
        return self._pid

    def executed(self) -> None:
        self.registers.close()
        self._executed()

    def take(self, thread: Thread) -> bool:
        found = self.registers.of(thread.info) if thread.info is not None else None
        if found is None:
            return False
        number, late = found
        thread.signal, thread.info = 0, None
        self._seen[number] += 1
        if late:
            self._late += 1
            return True
        try:
            self._lead(thread, number)
        except OSError:  # its stack has no room, or the program has unmapped the variable
            self._unled += 1
        return True

    def _lead(self, thread: Thread, number: int) -> None:
        """Have a thread run the advice on an access that it has made. Raises OSError; then it goes on as it is."""
        piece, registers = self._pieces[number], thread.registers
        now = self._memory.read(piece.address, piece.size)
        before, self._last[number] = self._last[number], now
        place, read, write = registers.rip, 0, piece.write
        if piece.read:
            made = self._made(registers, piece)
            if made is None:
                self._unclear += 1
                return
            place, read, write = made.address, piece.read * made.reads, piece.write * made.writes
            before = before if made.writes else now
        if read or write:
            frame = registers.rsp - FRAME
            words = (_number(before), _number(now), piece.address, registers.r11, 0, read, write, place)
            self._memory.write(frame, _ACCESS.pack(*words, 0, registers.rip))
            registers.rsp = frame
            thread.move(self._enter)

    def _made(self, registers: ptrace.Registers, piece: WatchedPiece) -> MadeAccess | None:
        place = registers.rip
        code = self._memory.some(place - LOOKED_AT, LOOKED_AT) + self._memory.some(place, LONGEST)
        known = self._known.get(place)
        if known is not None and known[0] == code:
            return known[1]
        given = {name: getattr(registers, name) for name in _REGISTERS}
        passed = PassedPlace(code[:LOOKED_AT], code[LOOKED_AT:], given)
        made = made_access(passed, piece.address, piece.address + piece.size)
        if made is not None:
            self._known[place] = code, made
        return made

    def is_safe(self) -> bool:
        """Whether the process still ignores SIGTRAP, as it does since it is trapped, or has gone."""
        try:
            return ignores(status_of(self._pid))
        except OSError:
            return True

    def end(self) -> list[str]:
        """Free the registers, while all threads stand still; returns notes for the user."""
        missed = sum(self.registers.counts()) - sum(self._seen) + self._late
        self.registers.close()
        exact = "up to " if len(self._pieces) > 1 else ""
        reasons = (
            (missed, exact, "threads that had blocked SIGTRAP made them"),
            (self._unclear, "", "it is not clear whether they were reads"),
            (self._unled, "", "there was no room on the stack"),
        )
        return [f"{about}{count} accesses went without advice: {why}" for count, about, why in reasons if count > 0]


def _number(value: bytes) -> int:
    return int.from_bytes(value, "little")


def ignores(status: dict[bytes, bytes]) -> bool:
    """Whether a process with this status (status.py) ignores SIGTRAP."""
    return bool(int(status[b"SigIgn"], 16) >> ptrace.SIGTRAP - 1 & 1)


def _handler(call: SystemCalls) -> int:
    """The address of the process's handler of SIGTRAP; 0 if it has the default action, 1 if it ignores the signal."""
    ((handler, _, _),) = call.handlers([ptrace.SIGTRAP])
    return handler


def ignore(call: SystemCalls) -> bool:
    """Have the process ignore SIGTRAP; returns whether it did not before. Raises TargetError `no-debug-registers` if it
    handles the signal itself."""
    handler = _handler(call)
    if handler > 1:
        raise refused("the program handles SIGTRAP itself, by which debug registers tell of accesses")
    if not handler:
        call.act(ptrace.SIGTRAP, [_IGNORE])
    return not handler


def ignore_no_more(call: SystemCalls) -> None:
    """Have SIGTRAP end the process again, unless the process has changed that itself. One that is on its way is
    dropped."""
    if _handler(call) == 1:
        call.act(ptrace.SIGTRAP, [_IGNORE, _DEFAULT])
