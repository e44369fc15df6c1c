# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C file of a whole program, for processes and for the consumer."""

from __future__ import annotations

from collections.abc import Mapping

from gilk.lang import ir
from gilk.lang.d import tree
from gilk.lang.d.probes import LEFT_OUT, OWN
from gilk.lang.facts import Facts, facts, union
from gilk.lang.nulls import Nulls
from gilk.lang.runtime import Does
from gilk.lang.to_c.emit import string
from gilk.lang.to_c.functions import FunctionPrinter, RecordPart
from gilk.lang.variables import BUILT_INS
from gilk.lang.walk import walk
from gilk.values import dataclass

#: The offset at which the globals begin, after the environment (native/runtime/d/environment.h).
GLOBALS_START = 512
ProbeName = tuple[str, str, str, str]
_HEADERS = "".join(f'#include "runtime/d/{each.header}"\n' for each in BUILT_INS.values() if each.header)


@dataclass(frozen=True)
class TranslationUnit:
    """The C of a program. ``text`` defines ``void d_group_N(unsigned char *memory, struct gd_event *,
    own)`` for each group of clauses. ``own`` is 0 in a process, and 1 in the consumer, which cannot read the memory of
    a process; 2 is added for probes that fire also when the program is not active, 4 where the memory of the event's
    process can be read. If D_INSIDE is defined there is only ``d_run_N``, for code in a process. ``needs``: the facts
    of each clause, by its number.
    """

    text: str
    parts: tuple[RecordPart, ...]
    needs: Mapping[int, Facts]


def unit(
    program: tree.Program,
    layout: Mapping[str, int],
    groups: list[tuple[int, ...]],
    probes: list[ProbeName],
    error: tuple[int, ...] = (),
) -> TranslationUnit:
    """The C of a program. ``layout``: the fields of struct gd_layout. ``groups``: the numbers of clauses that share
    some probes, in order. ``probes``: names in the order of numbers. ``error``: the group of ERROR, which fires in the
    consumer as soon as a clause has failed.

    Raises Rejected for parts that cannot be compiled yet.
    """
    nulls = Nulls(clause.function for clause in program.clauses)
    printer = FunctionPrinter(program.strsize, GLOBALS_START, nulls, program.scratchsize)
    functions = [printer.function(clause.function) for clause in program.clauses]
    needs = {clause.number: facts(clause.function) for clause in program.clauses}
    does = union(needs.values()).does
    fields = "".join(f"\t.{name} = {value}UL,\n" for name, value in layout.items())
    named = probes if does & Does.NAMES else []
    speculates = int(bool(does & Does.SPECULATES))
    names = _probe_names([("", "", "", ""), *named])
    local = program.this_size if any(map(_has_local_pointers, program.clauses)) else 0
    text = _HEAD.format(
        speculates=speculates, local=local, headers=_HEADERS, layout=fields, names=names, own=OWN, left_out=LEFT_OUT
    )  # fmt: skip
    text += "\n".join(functions)
    text += _MAY_FAIL * bool(error)
    for number, group in enumerate(groups):
        asks = any(needs[clause].does & Does.SIGNALS for clause in group)
        failing = {clause: program.firsts[clause - 1] for clause in group} if error else {}
        text += _group(number, group, program.this_size, asks, failing)
    text += _ERROR.format(group=groups.index(error)) if error else ""
    return TranslationUnit(text, tuple(printer.parts), needs)


def _has_local_pointers(clause: tree.Clause) -> bool:
    """Whether the clause takes the address of a clause-local variable."""
    return any(
        isinstance(each, ir.Place) and each.scope == "this"
        for node in walk(clause.function)
        if isinstance(node, ir.Address)
        for each in walk(node)
    )


def _probe_names(names: list[ProbeName]) -> str:
    """The table for probeprov and the like, in the order of the probes' numbers, which begin at 1."""
    rows = "".join(f"\t{{ {', '.join(string(part) for part in row)} }},\n" for row in names)
    return f'static const char *const probe_names[][4] = {{\n{rows}\t{{ "", "", "", "" }}\n}};\n'


def _group(number: int, clauses: tuple[int, ...], this_size: int, asks: bool, failing: Mapping[int, int]) -> str:
    """The C of a group. ``asks``: one of its clauses may ask for signals. ``failing``: for each clause, the number that
    ERROR is told if it fails.
    """
    calls = ""
    for clause in clauses:
        calls += _CALL.format(clause=clause)
        if clause in failing:
            calls += _FAILED.format(first=failing[clause])
    if asks:
        calls = f"\tcontext.signals = &signals;\n{calls}{_SEND}"
    return _GROUP.format(number=number, size=max(this_size, 8), calls=calls, more="\tgd_u64 signals = 0;\n" * asks)


_HEAD = """\
#define GD_SPECULATES {speculates}
#define GD_LOCALS {local}
#include "runtime/d/deeds.h"
{headers}
#ifdef D_MARKED /* where the thread's block says that it runs clauses */
#include <gilk.h>
#define D_LEAVES() gilk_block_decrement(D_MARKED)
#define D_COMES_BACK() gilk_block_increment(D_MARKED)
#else
#define D_LEAVES() ((void)0)
#define D_COMES_BACK() ((void)0)
#endif

static const struct gd_layout layout = {{
{layout}}};

{names}
static inline __attribute__((unused)) const char *gd_probe_text(struct gd_context *c, int part)
{{
	gd_u64 count = sizeof probe_names / sizeof *probe_names - 1;
	gd_u64 number = c->event->probe, place = number > {own} ? number - {left_out} : number;

	return probe_names[place < count ? place : count][part];
}}

"""

#: It is inlined at each place that runs it, so that the compiler drops what its clauses do not use.
_GROUP = """
static inline __attribute__((always_inline)) void d_run_{number}(unsigned char *memory, struct gd_event *event,
	const unsigned int own)
{{
	gd_u64 local[{size} / 8 + 1];
	struct gd_context context;
{more}
	gd_zero(local, sizeof local);
{calls}}}

#ifndef D_INSIDE
__attribute__((used)) void d_group_{number}(unsigned char *memory, struct gd_event *event, unsigned int own)
{{
	d_run_{number}(memory, event, own);
}}
#endif
"""

#: A signal handler may run for long, or never come back (longjmp), so it does not count as part of the clauses.
_SEND = """\
	if (signals) {
		D_LEAVES();
		gd_send_signals(event, own & 4, signals);
		D_COMES_BACK();
	}
"""

#: Code outside of processes only: for a process, the consumer lets ERROR fire when it finds the record of the fault.
_MAY_FAIL = """
#ifndef D_INSIDE
static void d_error(unsigned char *memory, const struct gd_event *of, const struct gd_context *failed, gd_u64 clause,
	unsigned int own);
#endif
"""
_FAILED = """\
#ifndef D_INSIDE
	if (context.fault)
		d_error(memory, event, &context, {first}, own);
#endif
"""
_ERROR = """
#ifndef D_INSIDE
#define D_ERROR 3 /* providers/own.py */

/* The next clauses run when those of ERROR have; a fault in one of these is only counted. */
static void d_error(unsigned char *memory, const struct gd_event *of, const struct gd_context *failed, gd_u64 clause,
	unsigned int own)
{{
	struct gd_event event = {{
		.arg = {{0, of->probe, clause, 0, failed->fault, failed->address}}, .time = of->time, .thread = of->thread,
		.probe = D_ERROR, .cpu = of->cpu, .pid = of->pid, .tid = of->tid,
	}};

	if (of->probe != D_ERROR)
		d_run_{group}(memory, &event, own | 2);
}}
#endif
"""

_CALL = """\
	gd_begin(&context, memory, &layout, event);
	context.no_memory = own & 1;
	if (GD_LOCALS)
		context.local = (const gd_u8 *)local;
	context.self = own & 4 ? event->pid ? event->pid : ~0U : 0; /* no process is idle: none is ~0U */
	if (own & 2 || gd_active(&context))
		clause_{clause}(&context, (gd_u8 *)local);
	else
		gd_end(&context);
"""
