# SPDX-License-Identifier: LGPL-2.1-or-later
"""The bound on a clause's cost, compared with an emulator's count for the compiled code."""

from __future__ import annotations

import mmap
import random
import re
import struct
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import unicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from unicorn import x86_const as x86

from gilk.engines.dtrace.compiled import DoesNotCompile, ProgramText, compile_programs
from gilk.lang import ir, machine
from gilk.lang.cost import cost
from gilk.lang.d import tree
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.d.unit import GLOBALS_START, unit
from gilk.lang.helper_costs import DIVISION, HELPERS, Cost, CostLimits
from gilk.lang.operations import OPERATIONS
from gilk.lang.syntax.source import Source
from gilk.lang.types import INT
from gilk.toolchain import compilers, relocatable
from gilk.toolchain.dprogram import FLAGS, ClauseEvent
from gilk.trace.d.layout import LAYOUT_FIELDS, State
from gilk.trace.d.memory import MemoryOptions as Sizes
from gilk.trace.d.memory import ProgramMemory

CODE, MEMORY, STACK, EVENT, END = 0x10000000, 0x40000000, 0x7000000, 0x6000000, 0x5000000
HEAD = """
int g; uint64_t u; string text; int a[int]; string names[string, int]; self int si; self string ss; this int ti;
this string ts; char row[16];
"""
_INTEGERS = """
arg0 arg1 arg2 g u self->si 0 1 -7 4096 pid tid cpu id strlen({s}) index({s},{s}) rindex({s},{s}) ({i}+{i}) ({i}*{i})
({i}-{i}) ({i}/{i}) ({i}%{i}) ({i}&{i}) ({i}<<{i}) ({i}?{i}:{i}) ({i}&&{i}) ({i}||{i}) ({i}<{i}) ({s}=={s}) (-{i})
(!{i}) (int)({i}) a[{i}] this->ti (g={i}) (u+={i}) (g++) strtoll({s}) htonl({i}) getmajor({i}) row[{i}&15] timestamp
rand() *(int*)({i})
"""
_STRINGS = """
"" "text" "a/long/way/to/go" text self->ss this->ts execname probefunc names[{s},{i}] strjoin({s},{s}) substr({s},{i})
substr({s},{i},{i}) basename({s}) dirname({s}) cleanpath({s}) toupper({s}) lltostr({i}) strchr({s},'o') strstr({s},"t")
strtok({s},"/") ({i}?{s}:{s}) (text={s}) (self->ss={s}) inet_ntoa(&u) copyinstr({i})
"""
_STATEMENTS = """
g={i}; u={i}; this->ti={i}; self->si={i}; a[{i}]={i}; text={s}; this->ts={s}; names[{s},{i}]={s}; row[{i}&15]={i};
@n=count(); @k[{i}]=count(); @s[{s}]=sum({i}); @q=quantize({i}); @m[{i},{s}]=max({i}); @v=avg({i}); @d[{i}]=stddev({i});
@l=lquantize({i},0,100,7); @ll=llquantize({i},10,0,6,20); trace({i}); trace({s}); printf("%d:%s",{i},{s}); {i};
if({i}){{t}}else{{t}} if({i}){{t}} tracemem(&row,16); bcopy(&u,alloca(8),8); clear(@n); commit(speculation());
"""
INTEGERS, STRINGS, STATEMENTS = _INTEGERS.split(), _STRINGS.split(), _STATEMENTS.split()
KINDS = {"i": INTEGERS, "s": STRINGS, "t": STATEMENTS}
_HOLE = re.compile(r"\{([ist])\}")


def made_up(choose: random.Random, kind: str, depth: int) -> str:
    """A random text of that kind, with other texts inside to that depth."""
    shapes = [each for each in KINDS[kind] if depth or not _HOLE.search(each)]
    return _HOLE.sub(lambda hole: made_up(choose, hole[1], depth - 1), choose.choice(shapes))


def compiled(text: str) -> tree.Program:
    source = [ProgramText("script", Source("test", text))]
    return compile_programs(source, Macros({}, ("test",)), Options()).program


@dataclass
class Counted:
    operations: int = 0
    loads: int = 0
    stores: int = 0
    calls: int = 0


class Emulated:
    """The clauses of a program, each a group of its own, in a machine with nothing else in it."""

    def __init__(self, program: tree.Program) -> None:
        self.layout = Sizes(
            1, 1 << 16, aggsize=1 << 17, dynvarsize=1 << 16, largest_variable=1024, specsize=1 << 14, scratches=256,
            globals_size=GLOBALS_START + program.globals_size, aggregations=len(program.aggregations),
        ).layout()  # fmt: skip
        fields = {name: int(getattr(self.layout, name)) for name in LAYOUT_FIELDS}
        made = unit(program, fields, [(clause.number,) for clause in program.clauses], [("p", "m", "f", "n")])
        self._code = _object(made.text)
        self._machine = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
        buffer = mmap.mmap(-1, self.layout.size)
        memory = ProgramMemory(self.layout, memoryview(buffer))
        memory.initialise()
        memory.state = State.ACTIVE
        content = self._code.placed(CODE, {})
        for start, size in ((CODE, len(content)), (MEMORY, self.layout.size), (STACK, 1 << 20), (EVENT, 4096)):
            self._machine.mem_map(start, size + 4095 & -4096)
        self._machine.mem_write(CODE, content)
        self._machine.mem_write(MEMORY, bytes(buffer))
        self._counted = Counted()
        self._machine.hook_add(unicorn.UC_HOOK_CODE, self._step)
        self._machine.hook_add(unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, self._access)
        self._machine.hook_add(unicorn.UC_HOOK_INSN, self._call, aux1=x86.UC_X86_INS_SYSCALL)

    def run(self, group: int, arguments: tuple[int, ...]) -> Counted:
        event = ClauseEvent(time=1000, thread=1 << 22, probe=1, cpu=0, pid=7, tid=7)
        for number, value in enumerate(arguments):
            event.arg[number] = value & (1 << 64) - 1
        self._machine.mem_write(EVENT, bytes(event))
        top = STACK + (1 << 20) - 64
        self._machine.mem_write(top, struct.pack("<Q", END))
        for register, value in ((x86.UC_X86_REG_RSP, top), (x86.UC_X86_REG_RDI, MEMORY), (x86.UC_X86_REG_RSI, EVENT),
                                (x86.UC_X86_REG_RDX, 1)):  # fmt: skip
            self._machine.reg_write(register, value)
        self._counted = Counted()
        self._machine.emu_start(CODE + self._code.symbols[f"d_group_{group}"].offset, END)
        return self._counted

    def _step(self, *_: object) -> None:
        self._counted.operations += 1

    def _access(self, machine: object, access: int, *_: object) -> None:
        self._counted.stores += access == unicorn.UC_MEM_WRITE
        self._counted.loads += access == unicorn.UC_MEM_READ

    def _call(self, machine: unicorn.Uc, _: object) -> None:
        self._counted.calls += 1
        machine.reg_write(x86.UC_X86_REG_RAX, (1 << 64) - 14)


def _object(text: str) -> relocatable.Relocatable:
    with tempfile.TemporaryDirectory() as place:
        source, output = Path(place, "program.c"), Path(place, "program.o")
        source.write_text(text)
        compilers.compile_object(source, output, ["-fPIC", *FLAGS])
        return relocatable.parse(output.read_bytes())


def program(seed: int) -> tree.Program:
    """A program of many clauses, because compiling takes longer than all else."""
    choose, clauses = random.Random(seed), list[str]()
    while len(clauses) < 40:
        body = "".join(made_up(choose, "t", 3) for _ in range(choose.randint(1, 3)))
        clause = f"BEGIN /{made_up(choose, 'i', 1)}/ {{ {body} }}"
        with suppress(DoesNotCompile):
            compiled(HEAD + clause)
            clauses.append(clause)
    return compiled(HEAD + "\n".join(clauses))


def _limits(program: tree.Program, emulated: Emulated) -> CostLimits:
    return CostLimits(
        strsize=program.strsize, scratch=emulated.layout.scratch_size, local=program.this_size,
        specsize=emulated.layout.speculation_size, slots=emulated.layout.scratches,
    )  # fmt: skip


@settings(max_examples=1, deadline=None)
@given(st.integers(0, 1 << 32))
def test_no_clause_costs_more_than_its_bound(seed: int) -> None:
    made = program(seed)
    emulated, choose = Emulated(made), random.Random(seed)
    limits, done = _limits(made, emulated), 0
    for round_ in range(4):
        for number, clause in enumerate(made.clauses):
            arguments = tuple(choose.choice((0, 1, round_, choose.getrandbits(64))) for _ in range(4))
            counted, bound = emulated.run(number, arguments), cost(clause.function, limits)
            spilled = bound.operations // 8  # values that the compiler keeps on the stack
            done += counted.operations > 200
            assert counted.operations <= bound.operations, (clause.function, counted, bound)
            assert counted.loads <= bound.loads + spilled, (clause.function, counted, bound)
            assert counted.stores <= bound.stores + spilled, (clause.function, counted, bound)
            assert counted.calls <= bound.calls, (clause.function, counted, bound)
    assert done > len(made.clauses)


def of(body: str) -> Cost:
    (clause,) = compiled(f"{HEAD} BEGIN {{ {body} }}").clauses
    return cost(clause.function)


def test_the_more_expensive_of_two_branches_counts() -> None:
    cheap, dear = of("g = 1;"), of("g = index(text, text);")
    both = of("if (arg0) { g = 1; } else { g = index(text, text); }")
    assert cheap.operations < dear.operations < both.operations < dear.operations + cheap.operations


def test_two_equal_statements_cost_twice_as_much() -> None:
    once, twice, thrice = (of("@[arg0] = count();" * times).operations for times in (1, 2, 3))
    assert thrice - twice == twice - once > 0.9 * once


def test_a_keyless_count_costs_no_table_search() -> None:
    assert of("@ = count();").operations < 1000 < of("@[arg0] = count();").operations


def test_the_bound_follows_the_limits() -> None:
    (clause,) = compiled(f"{HEAD} BEGIN {{ g = strlen(text); @[arg0] = count(); a[1] = 2; }}").clauses
    usual = cost(clause.function)
    for less in (CostLimits(strsize=16), CostLimits(probes=8), CostLimits(reach=8)):
        assert cost(clause.function, less).operations < usual.operations


def test_every_function_that_an_operation_calls_has_a_cost() -> None:
    assert {function for each in OPERATIONS.values() for function in each.functions} <= HELPERS.keys()


def test_values_fetched_at_a_probe_have_a_cost() -> None:
    beyond, inside = cost(machine.CallArg(6)), cost(machine.CallArg(0))
    assert (inside.operations, inside.calls) == (1, 0) and beyond.calls > 0
    assert cost(ir.Ask(39, ())).calls == 1
    assert cost(ir.Binary(INT, "/", machine.CallArg(0), machine.CallArg(1))).operations > DIVISION


def test_a_bound_for_shorter_strings_is_exceeded() -> None:
    made = compiled(f'{HEAD} BEGIN {{ text = "{"x" * 200}"; }} BEGIN {{ g = strlen(text); }}')
    emulated, clause = Emulated(made), made.clauses[1].function
    emulated.run(0, ())
    counted = emulated.run(1, ()).operations
    limits = _limits(made, emulated)
    assert cost(clause, replace(limits, strsize=8)).operations < counted < cost(clause, limits).operations
