# SPDX-License-Identifier: LGPL-2.1-or-later
"""Patches written by hand for the tests of the driver, a few bytes each, without planner or emitter."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from iced_x86 import Code, Decoder, FlowControl, Instruction, Register

from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import WINDOW, DriverUnit, DriverUnitKind, Hello, Rings

Read = Callable[[int, int], bytes]


def jump(at: int, to: int) -> bytes:
    return b"\xe9" + struct.pack("<i", to - at - 5)


def count(offset: int) -> bytes:
    """The code of incq %gs:offset."""
    return bytes.fromhex("6548ff0425") + struct.pack("<i", offset)


def count_far(offset: int) -> bytes:
    """The code of push %rax; movabs $offset, %rax; incq %gs:(%rax); pop %rax."""
    return b"\x50\x48\xb8" + struct.pack("<q", offset) + bytes.fromhex("6548ff00") + b"\x58"


def stamp(hello: Hello, rings: Rings, reserve: int, at: int, iid: int) -> bytes:
    """Code that makes a record of class 0 as ilk_abi.h shows it, but for the bits of rsp. It keeps everything but the
    flags.

    `at` is its address.
    """
    wpos = struct.pack("<i", rings.wpos[0])
    start = bytes.fromhex("505152") + bytes.fromhex("65488b0425") + wpos  # push rax, rcx, rdx; mov wpos, rax
    test = b"\xa9" + struct.pack("<I", rings.chunk - 1)
    move = bytes.fromhex("488d4810") + bytes.fromhex("65480fb10c25") + wpos  # lea 16(rax), rcx; cmpxchg
    loop = test + b"\x74" + struct.pack("<b", len(move) + 4) + move
    loop += b"\x75" + struct.pack("<b", -(len(loop) + 2))
    body = bytes.fromhex("4889c1 0f31 8901 895104")  # mov rax, rcx; rdtsc; mov eax, (rcx); mov edx, 4(rcx)
    body += bytes.fromhex("65488b0425") + struct.pack("<i", hello.current_gs)
    body += bytes.fromhex("8b80") + struct.pack("<i", hello.pid_offset)
    body += bytes.fromhex("89410c c74108") + struct.pack("<I", iid)  # who; writing the iid commits the record
    slow = b"\xb8" + struct.pack("<I", 4 * rings.number)
    call_at = at + len(start) + len(loop) + 2 + len(slow)
    slow += b"\xe8" + struct.pack("<i", reserve - call_at - 5) + bytes.fromhex("4885c0")  # call; test rax, rax
    slow += b"\x74" + struct.pack("<b", len(body))
    return start + loop + b"\xeb" + struct.pack("<b", len(slow)) + slow + body + bytes.fromhex("5a5958")


def registers_call(pc: int, function: int, iid: int, thunk: int, at: int) -> bytes:
    """Code that runs a C instrument through the thunk, and keeps everything. `at` is its address."""
    shift = 8  # of rax, which is pushed before the four words
    code = b"\x50"
    for value in (iid, function, shift, pc):
        code += b"\x48\xb8" + struct.pack("<Q", value) + b"\x50"  # movabs, push
    code += b"\xe8" + struct.pack("<i", thunk - (at + len(code)) - 5)
    return code + bytes.fromhex("488d642420") + b"\x58"  # lea 32(rsp), rsp; pop rax


@dataclass
class Function:
    """The instructions of a kernel function from its entry to its first return."""

    address: int
    code: bytes
    instructions: list[Instruction] = field(default_factory=list)

    @classmethod
    def read(cls, read: Read, address: int, size: int = 256) -> Function:
        function = cls(address, read(address, size))
        for instruction in Decoder(64, function.code, ip=address):
            function.instructions.append(instruction)
            if instruction.flow_control == FlowControl.RETURN:
                break
        return function

    def decoded(self) -> Instruction:
        """The first instruction."""
        return next(iter(Decoder(64, self.code, ip=self.address)))

    def bytes_of(self, *instructions: Instruction) -> bytes:
        start = instructions[0].ip - self.address
        return self.code[start : start + sum(each.len for each in instructions)]

    def find(self, wanted: Callable[[Instruction], bool]) -> Instruction:
        return next(each for each in self.instructions[1:] if wanted(each))

    def window(self, least: int, several: bool) -> tuple[Instruction, ...]:
        """The first run of instructions behind the fentry nop that can be moved anywhere as they are."""
        for first in range(1, len(self.instructions)):
            for last in range(first + 1, len(self.instructions) + 1):
                run = self.instructions[first:last]
                if not all(moves(each) for each in run):
                    break
                if sum(each.len for each in run) >= least and (len(run) > 1) == several:
                    return tuple(run)
        raise LookupError("this function has no such window")

    def windows(self) -> list[tuple[Instruction, ...]]:
        """Windows of several instructions that do not overlap, as long as possible, with no jump into one."""
        targets = {each.near_branch_target for each in Decoder(64, self.code, ip=self.address)}  # behind returns too
        found: list[tuple[Instruction, ...]] = []
        run: list[Instruction] = []
        for each in self.instructions[1:]:
            fits = sum(one.len for one in run) + each.len <= WINDOW
            if run and (not moves(each) or each.ip in targets or not fits):
                found.append(tuple(run))
                run = []
            if moves(each):
                run.append(each)
        return [each for each in found if len(each) > 1 and sum(one.len for one in each) >= 5]

    @property
    def ret(self) -> tuple[int, bytes]:
        """The address and the window of the first return, with the int3 after it, if there are any."""
        start = self.instructions[-1].ip - self.address
        end = start + self.instructions[-1].len
        while self.code[end] == 0xCC:
            end += 1
        return self.address + start, self.code[start:end]


def moves(instruction: Instruction) -> bool:
    return instruction.flow_control == FlowControl.NEXT and instruction.memory_base != Register.RIP


def is_call(instruction: Instruction) -> bool:
    return instruction.code == Code.CALL_REL32_64


class Bench:
    """An arena that is filled from its start, and numbers for units."""

    def __init__(self, driver: Driver, size: int = 1 << 16) -> None:
        self.driver = driver
        self.next = driver.arena(size)
        self.numbers = itertools.count(1)

    def put(self, code: bytes) -> int:
        address = self.next
        self.driver.fill([(address, code)])
        self.next += (len(code) + 15) & -16
        return address

    def moved(self, hook: bytes, old: bytes, behind: int) -> tuple[int, int]:
        """Put a patch of `hook`, the instructions `old` and a jump behind their window. Returns the patch's address,
        and that of `old` in it."""
        at = self.next
        body = hook + old
        patch = self.put(body + jump(at + len(body), behind))
        return patch, patch + len(hook)

    def splice(self, address: int, old: bytes, hook: bytes, several: bool) -> DriverUnit:
        patch, copy = self.moved(hook, old, address + len(old))
        kind = DriverUnitKind.MULTI if several else DriverUnitKind.SINGLE
        new = jump(address, patch).ljust(len(old), b"\x90")
        return DriverUnit(next(self.numbers), kind, address, patch, old, new, copy)

    def trapping(self, unit: DriverUnit) -> DriverUnit:
        """The same unit with int3 in the bytes that it frees: a task that executed them would die."""
        return replace(unit, new=unit.new[:5].ljust(len(unit.old), b"\xcc"))

    def before(self, function: Function, run: Sequence[Instruction], hook: bytes) -> DriverUnit:
        return self.splice(run[0].ip, function.bytes_of(*run), hook, len(run) > 1)
