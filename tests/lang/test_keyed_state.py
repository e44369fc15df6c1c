# SPDX-License-Identifier: LGPL-2.1-or-later
"""Groups that keys join and leave, and their stages: everything that a language can say by Keyed alone.

The functions are built here without any language, compiled, and run on the host of tests.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from gilk.lang import ir
from gilk.lang.cost import cost
from gilk.lang.d import tree
from gilk.lang.d.unit import GLOBALS_START, unit
from gilk.lang.data import Datum, Kind
from gilk.lang.facts import facts
from gilk.lang.syntax.source import Span
from gilk.lang.types import INT, INT64
from gilk.toolchain.compilers import flags
from gilk.toolchain.dprogram import FLAGS, ClauseEvent
from gilk.trace.d.drops import DropKind, Drops
from gilk.trace.d.layout import LAYOUT_FIELDS, MemoryLayout, State
from gilk.trace.d.memory import MemoryOptions, ProgramMemory
from tests.native.host import HOSTS, TestHost, build

_KEY = (Datum(Kind.INT, 0, 8),)
SEEN = ir.Place(INT64, "global", 0)
EXPORTED = """
__attribute__((visibility("default"))) void t_group_{0}(unsigned char *memory, struct gd_event *event)
{{
	d_group_{0}(memory, event, 0);
}}
"""


def number(value: int) -> ir.Constant:
    return ir.Constant(INT, value)


def keyed(variable: int, by_thread: bool = False) -> ir.Keyed:
    """A Keyed whose key is the event's first argument."""
    return ir.Keyed(INT, variable, by_thread, (ir.Argument(INT64, 0),), _KEY, 8)


def assigned(target: ir.Target, value: ir.Expression) -> ir.Evaluate:
    return ir.Evaluate(ir.Assign(target.type, target, "", value))


def seen(value: ir.Expression) -> ir.Evaluate:
    return assigned(SEEN, ir.Convert(INT64, value))


def moves(target: ir.Keyed, from_: int, to: int) -> ir.If:
    """A move from one stage to the next, and from no other stage."""
    test = ir.Binary(INT, "==", target, number(from_))
    return ir.If(test, (assigned(target, number(to)), seen(number(to))), (seen(number(-1)),))


GROUP, STAGE = keyed(1), keyed(2, by_thread=True)
FUNCTIONS = [
    ("add", (assigned(GROUP, number(1)),)),
    ("remove", (assigned(GROUP, number(0)),)),
    ("has", (seen(GROUP),)),
    ("begin", (moves(STAGE, 0, 1),)),
    ("go on", (moves(STAGE, 1, 2),)),
    ("end", (moves(STAGE, 2, 0),)),
]


@dataclass
class States:
    memory: ProgramMemory
    host: TestHost
    library: ctypes.CDLL
    address: int

    def do(self, what: str, key: int, thread: int = 7) -> int:
        """Run a function for a key. Returns what it saw; 0 for functions that do not look."""
        event = ClauseEvent(time=1, cpu=0, pid=1, tid=thread, probe=1, thread=thread)
        event.arg[0] = key
        self.memory.globals()[GLOBALS_START : GLOBALS_START + 8] = bytes(8)
        run = getattr(self.library, f"t_group_{[name for name, _ in FUNCTIONS].index(what)}")
        run(ctypes.c_void_p(self.address), ctypes.byref(event))
        return int.from_bytes(self.memory.globals()[GLOBALS_START : GLOBALS_START + 8], "little", signed=True)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    clauses = [tree.Clause(Span(0, 0), (), ir.Function(n, None, body)) for n, (_, body) in enumerate(FUNCTIONS, 1)]
    program = tree.Program(tuple(clauses), (), (), 8, 0)
    fields = {name: int(getattr(_layout(), name)) for name in LAYOUT_FIELDS}
    groups = [(clause.number,) for clause in clauses]
    text = unit(program, fields, groups, []).text + "".join(EXPORTED.format(n) for n in range(len(groups)))
    source = tmp_path_factory.mktemp("states") / "states.c"
    source.write_text(text)
    options = [flag for flag in flags() if flag != "-ffreestanding"]
    quiet = ("-Wno-unused-but-set-variable", "-Wno-unused-label", "-Wno-unused-variable")
    return ctypes.CDLL(str(build([source], "states", *options, *FLAGS, *quiet, "-shared", "-fPIC", *HOSTS["test"])))


def _layout() -> MemoryLayout:
    return MemoryOptions(1, dynvarsize=1 << 14, globals_size=GLOBALS_START + 8).layout()


@pytest.fixture
def states(library: ctypes.CDLL) -> Iterator[States]:
    layout = _layout()
    buffer = mmap.mmap(-1, layout.size)
    memory = ProgramMemory(layout, memoryview(buffer))
    memory.initialise()
    memory.state = State.ACTIVE
    host = TestHost.of(library)
    host.reset()
    yield States(memory, host, library, ctypes.addressof(ctypes.c_char.from_buffer(buffer)))
    host.reset()


def test_a_key_is_in_a_group_from_adding_to_removal(states: States) -> None:
    states.do("add", 5)
    assert [states.do("has", key) for key in (4, 5, 6)] == [0, 1, 0]
    states.do("add", 6)
    states.do("add", 6)
    states.do("remove", 5)
    states.do("remove", 4)
    assert [states.do("has", key) for key in (4, 5, 6)] == [0, 0, 1]


def test_a_group_takes_many(states: States) -> None:
    for key in range(100):
        states.do("add", key << 32)
    for key in range(0, 100, 2):
        states.do("remove", key << 32)
    assert [states.do("has", key << 32) for key in range(100)] == [0, 1] * 50


def test_stages_advance_separately_for_each_key_and_thread(states: States) -> None:
    assert states.do("go on", 1) == -1
    assert [states.do("begin", key, thread) for key, thread in ((1, 7), (2, 7), (1, 8))] == [1, 1, 1]
    assert [states.do(what, 1) for what in ("begin", "go on", "go on", "end", "begin")] == [-1, 2, -1, 0, 1]
    assert [states.do("go on", key, thread) for key, thread in ((2, 7), (1, 8), (3, 7))] == [2, 2, -1]


def test_keys_without_room_are_not_in_the_group_and_are_counted(states: States) -> None:
    with states.host.without_room():
        states.do("add", 5)
    assert states.do("has", 5) == 0
    assert Drops(states.memory).totals()[DropKind.DYNAMIC] == 1


def test_functions_of_keyed_state_need_only_their_key_from_the_machine() -> None:
    for number_, (name, body) in enumerate(FUNCTIONS, 1):
        function = ir.Function(number_, None, body)
        found = facts(function)
        assert (found.arguments, found.calls, found.registers) == ({0}, False, frozenset()), name
        assert cost(function).calls == 0
