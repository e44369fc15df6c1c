# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C functions that patches in the process call: each makes an event of the machine's state, and runs the clauses of
a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from gilk.lang import ir
from gilk.lang.facts import Facts, fetched
from gilk.lang.runtime import Does
from gilk.lang.to_c.expressions import ExpressionPrinter
from gilk.values import dataclass

#: Registers whose values can be passed as arguments (splice/instrument.py, CallWithValues).
_VALUES = frozenset(("rdi", "rsi", "rdx", "rcx", "r8", "r9", "rax"))


class Takes(IntEnum):
    """The part of the machine's state that the C takes: nothing, the registers of a call's arguments and rax, or all
    registers. The less it takes, the less the patch has to save.
    """

    NOTHING = 0
    VALUES = 1
    REGISTERS = 2


@dataclass(frozen=True, slots=True)
class ClauseEntry:
    """An action at a place: it runs the clauses of ``group``. ``body``: C that makes the event.

    ``select``: C whose value selects the probe, by ``cases`` of a value and a probe's number; no probe fires for
    another value. It is empty if there is one probe. ``calls``: the code makes system calls in the process
    (native/runtime/d/peek.h). ``begins``: the code uses the address at which the function begins that contains the
    place.
    """

    group: int
    takes: Takes
    calls: bool
    begins: bool
    body: str
    select: str = ""
    cases: tuple[tuple[int, int], ...] = ()


def entry(group: int, used: Facts, given: ir.Given) -> ClauseEntry:
    """The entry of a group of clauses with the facts ``used``, at a place with ``given``."""
    need, printer = fetched(given, used), ExpressionPrinter(0, 0)  # the expressions have no strings and no variables
    assert not need.does & (Does.FAILS | Does.SCRATCH), given
    select = "" if given.select is None else printer.emit(given.select)
    return ClauseEntry(
        group, _takes(given, used, need), used.calls or need.calls, bool(need.does & Does.BEGINS),
        "".join(f"\t{line}\n" for line in _event(given, used, printer)), select,
    )  # fmt: skip


def _takes(given: ir.Given, used: Facts, need: Facts) -> Takes:
    chooses = given.select is not None or given.condition is not None
    if chooses or used.does & (Does.REGISTERS | Does.ERROR) or not _VALUES.issuperset(need.registers):
        return Takes.REGISTERS
    return Takes.VALUES if need.registers else Takes.NOTHING


def _event(given: ir.Given, used: Facts, printer: ExpressionPrinter) -> list[str]:
    """Statements that make the event, or return if no probe fires."""
    lines = []
    if given.condition is not None:  # it may make a system call
        lines.append(f"if (!{printer.emit(given.condition)})\n\t\treturn;")
    lines.append("d_event(&event, probe);")
    if used.does & Does.REGISTERS:
        lines += ["event.regs = (const gd_u64 *)regs;", f"event.edge = {int(given.edge)};"]
    if used.does & Does.ERROR:
        lines.append(f"event.error = {printer.emit(given.error)};")
    fetch = dict(enumerate(given.arguments))
    values = ((number, fetch.get(number)) for number in sorted(used.arguments))
    lines += [f"event.arg[{n}] = {'0' if value is None else printer.emit(value)};" for n, value in values]
    return lines + (_locals(given, used, printer) if used.locals else [])


def _locals(given: ir.Given, used: Facts, printer: ExpressionPrinter) -> list[str]:
    """Statements that fetch the variables of the function at the place."""
    there = [each if number in used.locals else None for number, each in enumerate(given.locals)]
    values = ["0" if each is None else printer.emit(each) for each in there]
    return [f"const gd_u64 local[] = {{ {', '.join(values)} }};", "event.local = local;"]


@dataclass(frozen=True, slots=True)
class SiteStep:
    """An action at a place that comes before or after its clauses."""

    code: str

    @property
    def takes(self) -> Takes:
        return Takes.REGISTERS

    @property
    def calls(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Leaves:
    """An action at a jump by which a call goes on in another function: the call is noted. Where it ends, ``entry``
    runs."""

    entry: ClauseEntry

    @property
    def takes(self) -> Takes:
        return Takes.REGISTERS

    @property
    def calls(self) -> bool:
        return self.entry.calls


#: Steps for calls that go on in other functions (native/runtime/d/tails.h).
RETURNED = SiteStep("d_call_returned(regs, d_probes[iid]);")
ENDS, ENTERS = SiteStep("d_calls_end(regs);"), SiteStep("d_call_enters(regs);")
PASSES, STAYS = SiteStep("d_call_passes(regs, true);"), SiteStep("d_call_passes(regs, false);")
#: Steps at places where one of several system calls is made: its number is noted until the call returns.
NOTE, FORGET = SiteStep("d_note(regs);"), SiteStep("d_forget(regs);")
#: The bytes of one thread's notes.
NOTES = 128
Kind = ClauseEntry | SiteStep | Leaves


ENTER = "d_enter"
INSIDE = 48  # the offset of `inside` in struct gilk_block


def entries(
    memory: int,
    notes: int,
    kinds: Sequence[Kind],
    chosen: Sequence[int],
    probes: list[int],
    starts: list[int],
    marked: bool = False,
    unit: int = 0,
) -> str:
    """The C of the entries. ``memory`` and ``notes``: their offsets behind gilk_control. By instrument number, from 1:
    ``chosen`` are indexes of ``kinds``, ``probes`` are numbers of probes, and ``starts`` are the beginnings of
    functions. ``marked``: a thread's block tells while the thread runs clauses. ``unit``: tells code that is put in at
    once from other code of the same program.
    """
    text = _HEAD.format(
        memory=memory,
        notes=notes,
        kinds=", ".join(map(str, [0, *chosen])),
        probes=", ".join(map(str, [0, *probes])),
        starts=", ".join(f"{start:#x}UL" for start in [0, *(starts if _starts(kinds) else ())]),
    )
    takes = max((kind.takes for kind in kinds), default=Takes.NOTHING)
    if any(isinstance(kind, Leaves) for kind in kinds):
        text += _calls(kinds, unit)
    text += "".join(_entry(number, each, takes) for number, each in enumerate(kinds))
    calls = [f"d_enter_{number}({'regs, ' if takes else ''}iid);\n" for number in range(len(kinds))]
    if len(calls) > 1:
        cases = "".join(f"\tcase {number}:\n\t\t{call}\t\tbreak;\n" for number, call in enumerate(calls))
        body = f"\tswitch (d_kinds[iid]) {{\n{cases}\t}}\n"
    else:
        body = "".join(f"\t{call}" for call in calls)
    if marked:
        body = (
            f"\tgd_u64 inside = gilk_block_load({INSIDE});\n\n\tgilk_block_store({INSIDE}, inside + 1);\n"
            f"{body}\tgilk_block_store({INSIDE}, inside);\n"
        )
    if takes is Takes.VALUES:
        return text + _ENTER_VALUES.format(name=ENTER, body=body)
    return text + _ENTER.format(name=ENTER, regs=_REGS[takes], body=body)


def _calls(kinds: Sequence[Kind], unit: int) -> str:
    """The C for calls that go on in other functions, and for their ends."""
    leaving = {number: kind.entry for number, kind in enumerate(kinds) if isinstance(kind, Leaves)}
    ends = "".join(_entry(number, each, Takes.REGISTERS, "d_over") for number, each in leaving.items())
    cases = "".join(f"\tcase {number}:\n\t\td_over_{number}(regs, iid);\n\t\tbreak;\n" for number in leaving)
    return _CALLS.format(unit=unit) + ends + _ENDS.format(cases=cases)


def _entry(number: int, entry: Kind, takes: Takes, name: str = "d_enter") -> str:
    if isinstance(entry, Leaves):
        return _STEP.format(number=number, code="d_call_leaves(regs, iid);")
    if isinstance(entry, SiteStep):
        return _STEP.format(number=number, code=entry.code)
    body = entry.body
    if entry.select:
        cases = "".join(f"\tcase {value}:\n\t\tprobe = {probe};\n\t\tbreak;\n" for value, probe in entry.cases)
        body = f"\tswitch ({entry.select}) {{\n{cases}\tdefault:\n\t\treturn;\n\t}}\n{body}"
    start = _START * entry.begins
    return _ONE.format(name=name, number=number, regs=_REGS[takes], body=body, group=entry.group, start=start)


def _starts(kinds: Iterable[Kind]) -> bool:
    """Whether an entry uses the beginnings of functions. If none does, they are left out of the code, which is then the
    same in all runs.
    """
    made = (kind.entry if isinstance(kind, Leaves) else kind for kind in kinds)
    return any(isinstance(kind, ClauseEntry) and kind.begins for kind in made)


_START = "\tconst gd_u64 start = d_starts[iid];\n"
_REGS = {
    Takes.NOTHING: "",
    Takes.VALUES: "const struct d_values *regs, ",
    Takes.REGISTERS: "const struct gilk_regs *regs, ",
}

_HEAD = """
#include <gilk.h>

static const unsigned short d_kinds[] __attribute__((unused)) = {{ {kinds} }};
static const unsigned int d_probes[] = {{ {probes} }};
static const unsigned long d_starts[] __attribute__((unused)) = {{ {starts} }};

struct d_values {{ /* named as in struct gilk_regs */
	unsigned long rdi, rsi, rdx, rcx, r8, r9, rax;
}};

static inline unsigned char *d_memory(void)
{{
	return (unsigned char *)gilk_control + {memory};
}}

static inline void d_event(struct gd_event *event, unsigned int probe)
{{
	event->time = 0;
	event->cpu = GD_NO_CPU;
	event->thread = gilk_block_look(24) << 22 | (gilk_block_look(16) >> 32 & 0x3fffff); /* when it was met, and tid */
	event->pid = (gd_u32)gilk_block_look(16);
	event->tid = (gd_u32)(gilk_block_look(16) >> 32);
	event->probe = probe;
	event->edge = 0;
	event->regs = 0;
	event->local = 0;
	event->error = 0;
	event->copied = 0;
}}

/*
 * A value of the process's memory, 0 where there is none. The page right under the red zone is there, since the
 * patch has just written to it.
 */
static inline __attribute__((unused)) gd_u64 d_word(const struct gilk_regs *regs, gd_u64 address, gd_u64 size)
{{
	gd_u64 page = (regs->rsp - 129) / GILK_PAGE, value = 0;

	if (address / GILK_PAGE == page && (address + size - 1) / GILK_PAGE == page)
		gd_bcopy(&value, (const void *)address, size);
	else if (host_peek(host_pid(), &value, address, size))
		value = 0;
	return value;
}}

/* What a system call says of its failure. */
static inline __attribute__((unused)) gd_u32 d_error(const struct gilk_regs *regs)
{{
	return regs->rax > -4096UL ? -(gd_u32)regs->rax : 0;
}}

/*
 * System calls that this thread has begun, by stack pointer: what a handler that interrupts one makes has another.
 * Who leaves one by longjmp leaves its note, until the stack pointer comes again or all are taken.
 */
struct d_note {{
	gd_u64 sp;
	gd_u64 number;
}};

#define D_NOTES 8

static inline struct d_note *d_notes(void)
{{
	return (struct d_note *)((unsigned char *)gilk_control + {notes}) + D_NOTES * (gilk_block_load(8) >> 32);
}}

static inline struct d_note *d_noted(gd_u64 sp)
{{
	struct d_note *note = d_notes(), *end = note + D_NOTES;

	for (; note < end; note++)
		if (note->sp == sp)
			return note;
	return 0;
}}

static inline __attribute__((unused)) void d_note(const struct gilk_regs *regs)
{{
	struct d_note *note = d_noted(regs->rsp);

	if (!note)
		note = d_noted(0);
	if (!note)
		note = d_notes() + (regs->rsp >> 3) % D_NOTES;
	note->sp = regs->rsp; /* first: a handler that comes in between finds it taken */
	__asm__ volatile("" : : : "memory");
	note->number = (gd_u32)regs->rax;
}}

static inline __attribute__((unused)) gd_s32 d_number(const struct gilk_regs *regs)
{{
	struct d_note *note = d_noted(regs->rsp);

	return note ? (gd_s32)note->number : -1;
}}

static inline __attribute__((unused)) void d_forget(const struct gilk_regs *regs)
{{
	struct d_note *note = d_noted(regs->rsp);

	if (note)
		note->sp = 0;
}}
"""

#: It is inlined in its only caller, so that its arguments need not go through memory.
_ONE = """
static inline __attribute__((always_inline)) void {name}_{number}({regs}unsigned int iid)
{{
{start}	unsigned int probe __attribute__((unused)) = d_probes[iid];
	struct gd_event event;

{body}	d_run_{group}(d_memory(), &event, 0);
}}
"""

#: A thread's notes of calls that go on in other functions say which instrument was at the jump, and where that is.
_CALLS = """
#define GD_TAILS_UNIT {unit}U
#include "runtime/d/tails.h"

static inline void d_calls(struct gd_context *ctx, struct gd_event *event)
{{
	d_event(event, 0);
	gd_begin(ctx, d_memory(), &layout, event);
}}

static void d_call_leaves(const struct gilk_regs *regs, unsigned int iid)
{{
	struct gd_context ctx;
	struct gd_event event;

	d_calls(&ctx, &event);
	event.probe = d_probes[iid];
	if (gd_active(&ctx))
		gd_tail_note(&ctx, regs->rsp, (struct gd_tail){{ (gd_u64)iid << 32 | event.probe, regs->rip, 0 }});
}}

static __attribute__((unused)) void d_call_returned(const struct gilk_regs *regs, unsigned int probe)
{{
	struct gd_context ctx;
	struct gd_event event;

	d_calls(&ctx, &event);
	gd_tail_forget(&ctx, regs->rsp, probe);
}}

static __attribute__((unused)) void d_call_enters(const struct gilk_regs *regs)
{{
	struct gd_context ctx;
	struct gd_event event;

	d_calls(&ctx, &event);
	gd_tails_enter(&ctx, regs->rsp);
}}

static __attribute__((unused)) void d_call_passes(const struct gilk_regs *regs, bool passes)
{{
	struct gd_context ctx;
	struct gd_event event;

	d_calls(&ctx, &event);
	gd_tails_pass(&ctx, regs->rsp, passes);
}}
"""

#: The registers at the end of a call are shown as if it had ended at the jump.
_ENDS = """
static __attribute__((unused)) void d_call_ends(const struct gilk_regs *regs, unsigned int iid)
{{
	switch (d_kinds[iid]) {{
{cases}	}}
}}

static __attribute__((unused)) void d_calls_end(const struct gilk_regs *regs)
{{
	struct gd_tail tails[GD_TAILS_MOST];
	struct gilk_regs there = *regs;
	struct gd_context ctx;
	struct gd_event event;
	gd_u32 n;

	d_calls(&ctx, &event);
	for (n = gd_tails_take(&ctx, regs->rsp, tails); n; n--) {{
		there.rip = tails[n - 1].at;
		if (tails[n - 1].what >> 32 < sizeof d_kinds / sizeof *d_kinds)
			d_call_ends(&there, (unsigned int)(tails[n - 1].what >> 32));
	}}
}}
"""

_STEP = """
static void d_enter_{number}(const struct gilk_regs *regs, unsigned int iid)
{{
	(void)iid;
	{code}
}}
"""

_ENTER_VALUES = """
void {name}(unsigned long rdi, unsigned long rsi, unsigned long rdx, unsigned long rcx, unsigned long r8,
	unsigned long r9, unsigned int iid, unsigned long rax)
{{
	const struct d_values values = {{ rdi, rsi, rdx, rcx, r8, r9, rax }}, *regs = &values;

{body}}}
"""

_ENTER = """
void {name}({regs}unsigned int iid)
{{
{body}}}
"""
