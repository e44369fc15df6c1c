# SPDX-License-Identifier: LGPL-2.1-or-later
"""The state of the machine as places give it: printed, compiled, and run on the host of tests."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gilk.lang import ir
from gilk.lang.facts import Facts, facts
from gilk.lang.machine import (
    CallArg,
    CallResult,
    ClockCounter,
    ProcessId,
    Reg,
    StackWord,
    Start,
    SyscallArg,
    SyscallError,
    SyscallNumber,
    SyscallResult,
    ThreadId,
)
from gilk.lang.to_c.sites import ENTER, FORGET, NOTE, ClauseEntry, Kind, Takes, entries, entry
from gilk.lang.types import INT, UINT64
from gilk.providers import pid, syscall
from gilk.toolchain.compilers import NATIVE, flags
from tests.native.host import HOSTS, TestHost, build

START, BEHIND, FAILED = 0x400000, 0x44, -13 & (1 << 64) - 1
_FIELDS = re.search(r"struct gilk_regs \{(.*?)\};", (NATIVE / "abi" / "gilk_regs.h").read_text(), re.DOTALL)
assert _FIELDS is not None
REGISTERS: list[str] = re.findall(r"\b(r\w+)\b(?=[,;])", _FIELDS[1])
CALL, SYSCALL = "rdi rsi rdx rcx r8 r9", "rdi rsi rdx r10 r8 r9"
#: A unique value for each register.
VALUES = {name: 0x1111_0000_0000 + 0x101 * number for number, name in enumerate(REGISTERS)}
HEAD = """
#define GD_SPECULATES 0
#include "runtime/d/deeds.h"
#define OUT __attribute__((visibility("default")))

OUT struct gd_event t_seen;
OUT int t_fired;
static gd_u8 t_memory[4096];
struct gilk_control;
__attribute__((visibility("hidden"))) struct gilk_control *const gilk_control = (struct gilk_control *)t_memory;

static inline void d_run_0(unsigned char *memory, struct gd_event *event, const unsigned int own)
{
	(void)memory, (void)own;
	t_fired++;
	t_seen = *event;
}
"""
TAIL = """
OUT void t_block(void *block)
{
	__asm__ volatile("wrgsbase %0" : : "r"(block) : "memory");
}

OUT void t_hit(const struct gilk_regs *regs, unsigned int iid)
{
	(void)regs;
	CALL
}
"""
_CALLS = {
    Takes.NOTHING: f"{ENTER}(iid);",
    Takes.VALUES: f"{ENTER}(regs->rdi, regs->rsi, regs->rdx, regs->rcx, regs->r8, regs->r9, iid, regs->rax);",
    Takes.REGISTERS: f"{ENTER}(regs, iid);",
}


class Registers(ctypes.Structure):
    """struct gilk_regs."""

    _fields_ = [(name, ctypes.c_uint64) for name in REGISTERS]


class Event(ctypes.Structure):
    """The beginning of struct gd_event."""

    _fields_ = [("arg", ctypes.c_uint64 * 10)]


class Places:
    """Kinds of places, compiled together; tells what their probes get when a thread in some state passes."""

    def __init__(self, directory: Path, kinds: Sequence[Kind]) -> None:
        self._stack = (ctypes.c_uint64 * 1024)(*range(5000, 6024))
        self._block = ctypes.create_string_buffer(4096)
        takes = max(kind.takes for kind in kinds)
        text = HEAD + entries(0, 0, kinds, range(len(kinds)), [*range(1, len(kinds) + 1)], [START] * len(kinds))
        (directory / "places.c").write_text(text + TAIL.replace("CALL", _CALLS[takes]))
        options = [flag for flag in flags() if flag != "-ffreestanding"]
        more = (
            "-Wno-unused-function",
            "-Wno-unused-parameter",
            "-shared",
            "-fPIC",
            "-I",
            str(NATIVE / "include"),
            *HOSTS["test"],
        )
        self._library = ctypes.CDLL(str(build([directory / "places.c"], "places", *options, *more)))
        self.host = TestHost.of(self._library)
        self.host.reset()
        self.host.first = ctypes.addressof(self._block)

    @property
    def bottom(self) -> int:
        """The address of the stack's memory, two pages of it."""
        return ctypes.addressof(self._stack)

    @property
    def top(self) -> int:
        """The address of the word that the stack pointer points to, which is 5512, and the next one is 5513."""
        return self.bottom + 8 * 512

    def hit(self, iid: int = 1, **state: int) -> list[int] | None:
        """The values that the probe gets; None if no probe fired."""
        given = Registers(**{**VALUES, "rsp": self.top, "rip": START + BEHIND, **state})
        fired = ctypes.c_int.in_dll(self._library, "t_fired")
        fired.value = 0
        thread = threading.Thread(target=self._hit, args=(given, iid))  # each thread has a block while it lives
        thread.start()
        thread.join()
        return [*Event.in_dll(self._library, "t_seen").arg] if fired.value else None

    def _hit(self, given: Registers, iid: int) -> None:
        self._library.t_block(self._block)
        self._library.t_hit(ctypes.byref(given), iid)


def of(given: ir.Given, *arguments: int) -> ClauseEntry:
    return entry(0, Facts(arguments=frozenset(arguments or range(len(given.arguments)))), given)


NODES: list[tuple[ir.Expression, int]] = [
    *((Reg(name), VALUES[name]) for name in REGISTERS if name not in ("rsp", "rip")),
    (Reg("rip"), START + BEHIND),
    *((StackWord(number), 5512 + number) for number in (0, 1, 7)),
    *zip(map(CallArg, range(6)), (VALUES[name] for name in CALL.split()), strict=True),
    *((CallArg(number), 5513 + number - 6) for number in range(6, 10)),
    (CallResult(), VALUES["rax"]),
    (Start(), START),
    (SyscallNumber(left=False), VALUES["rax"] & 0xFFFFFFFF),
    *zip(map(SyscallArg, range(6)), (VALUES[name] for name in SYSCALL.split()), strict=True),
    (SyscallResult(), VALUES["rax"]),
    (SyscallError(), 0),
    (ProcessId(), os.getpid()),
    (ClockCounter(), 77),
    (ir.Peek(INT, ir.Binary(UINT64, "+", Reg("rsp"), ir.Constant(UINT64, 8))), 5513),
    (ir.Binary(UINT64, "-", Reg("rip"), Start()), BEHIND),
]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """A place for each of NODES, in order from 1, then one with a thread's number."""
    kinds = [of(ir.Given((node,))) for node in (*(node for node, _ in NODES), ThreadId())]
    yield Places(tmp_path_factory.mktemp("nodes"), kinds)


@pytest.mark.parametrize("number", range(len(NODES)), ids=lambda number: type(NODES[number][0]).__name__)
def test_nodes_about_the_machine_have_its_values(nodes: Places, number: int) -> None:
    with nodes.host.stopped(77):
        found = nodes.hit(number + 1)
    assert found is not None and found[0] == NODES[number][1]


def test_a_failed_call_has_an_error(nodes: Places) -> None:
    number = [node for node, _ in NODES].index(SyscallError())
    found = nodes.hit(number + 1, rax=FAILED)
    assert found is not None and found[0] == 13


def test_stack_words_that_are_not_mapped_are_zero(nodes: Places) -> None:
    places = [number for number, (node, _) in enumerate(NODES) if facts(node).stack]
    rsp = nodes.bottom + 4095 & -4096  # what the patch has written to is there, and lies in the page before
    assert len(places) == 7
    assert all((nodes.hit(number + 1, rsp=rsp) or [0])[0] for number in places)
    with nodes.host.without(rsp, 4096):
        assert [nodes.hit(number + 1, rsp=rsp) for number in places] == [[0] * 10] * 7


def test_the_thread_node_is_the_running_thread(nodes: Places) -> None:
    found = nodes.hit(len(NODES) + 1)
    assert found is not None and found[0] not in (0, os.getpid())


# Places of providers.


def test_the_arguments_at_the_entry_of_a_function(tmp_path: Path) -> None:
    places = Places(tmp_path, [of(pid.GIVEN["entry"])])
    registers = [VALUES[name] for name in CALL.split()]
    assert places.hit() == [*registers, 5513, 5514, 5515, 5516]


def test_two_arguments_in_registers_are_passed_as_values(tmp_path: Path) -> None:
    kind = of(pid.GIVEN["entry"], 0, 3)
    assert kind.takes is Takes.VALUES
    found = Places(tmp_path, [kind]).hit()
    assert found is not None and (found[0], found[3]) == (VALUES["rdi"], VALUES["rcx"])


def test_the_system_call_at_a_place_is_known_until_it_returns(tmp_path: Path) -> None:
    choice = replace(of(syscall._GIVEN[True, True]), cases=((3, 7), (4, 8)))
    places = Places(tmp_path, [NOTE, choice, FORGET])
    assert places.hit(2, rax=0) is None, "it is not known which call that was"
    places.hit(1, rax=3)
    assert places.hit(2, rax=9) == [9, 9, *[0] * 8]
    places.hit(3)
    assert places.hit(2, rax=9) is None
    places.hit(1, rax=5)
    assert places.hit(2, rax=9) is None, "no probe is about that call"


def test_a_place_whose_condition_does_not_hold_fires_no_probe(tmp_path: Path) -> None:
    given = ir.Given((CallResult(),), condition=ir.Binary(INT, "==", CallArg(0), ir.Constant(UINT64, 5)))
    places = Places(tmp_path, [of(given)])
    assert (places.hit(rdi=4), places.hit(rdi=5, rax=6)) == (None, [6, *[0] * 9])
