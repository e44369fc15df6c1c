# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C of the module that is made of the kernel's part of a file of aspects: a unit for all functions that are
declared alike and have the same elements, and one with the state. native/include/kernel/gilk_woven.h is their protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gilk.lang.aspect.automaton import Moment
from gilk.lang.aspect.checked import CheckedFile
from gilk.lang.aspect.code.advising import advice_functions, runners, standing, whose
from gilk.lang.aspect.code.matching import match_function
from gilk.lang.aspect.code.meeting import MetElement, MetFunction, NumberedAspect
from gilk.lang.aspect.code.moving import moments
from gilk.lang.aspect.code.regions import regions
from gilk.lang.aspect.code.types import declared, parameter
from gilk.lang.aspect.code.unit import OLDEST_FIRST, matched, on, switches, table_function, typed
from gilk.lang.aspect.code.words import commits
from gilk.lang.aspect.kernel.confining import KernelC
from gilk.values import dataclass

_REGISTERS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
MAIN = "gilk_state"


@dataclass(frozen=True, slots=True)
class KernelLimits:
    """The limits of an aspect. ``within`` is in ns, 0 without limit; the other fields are as in struct gilk_limits."""

    limit: int
    first: int
    within: int
    index: int


@dataclass(frozen=True, slots=True)
class KernelUnit:
    """The ``functions`` of the kernel that share the same C. Each is known by its number, from 1."""

    number: int
    functions: tuple[MetFunction, ...]

    @property
    def met(self) -> MetFunction:
        return self.functions[0]

    @property
    def entry(self) -> str:
        """The name of the C function for entries; ``leaving`` is that for returns."""
        return f"gilk_entry_{self.number}"

    @property
    def leaving(self) -> str:
        return f"gilk_return_{self.number}"

    @property
    def replacing(self) -> tuple[MetElement, ...]:
        """The elements with advice in place of the function."""
        return tuple(one for one in self.met.elements if one.advice is not None and one.advice.when == "inplace")

    @property
    def waits(self) -> bool:
        """Whether the returns of the functions matter."""
        return bool(self.met.at(Moment.AFTER)) or any(
            one.advice is not None and one.advice.when == "after" for one in self.met.elements
        )


def units(functions: Sequence[MetFunction]) -> tuple[KernelUnit, ...]:
    alike: dict[object, list[MetFunction]] = {}
    for one in functions:
        alike.setdefault((one.point.parameters, one.point.result, one.elements), []).append(one)
    return tuple(KernelUnit(n, tuple(each)) for n, each in enumerate(alike.values()))


def unit_text(file: CheckedFile, unit: KernelUnit, tables: dict[str, int]) -> str:
    """The C of a unit. ``file`` is confined. ``tables``: the offset of each table in the state."""
    met, kernel = unit.met, KernelC(file)
    aspects = list({one.aspect.number: one.aspect for one in met.elements}.values())
    parts = [
        *(f"#include <{name}>" for name in kernel.headers),
        '#include "gilk_woven.h"', *kernel.lines, *_head(file, unit, tables), *typed(aspects, True),
        *_arguments(met), *matched(met, aspects), *regions(aspects, True), OLDEST_FIRST, *commits(aspects),
        *(match_function(one, file.source) for one in met.elements), *moments(met),
        "struct gilk_woven_call;", *advice_functions(met, file.source), runners(met), *_hits(unit),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _head(file: CheckedFile, unit: KernelUnit, tables: dict[str, int]) -> Iterator[str]:
    yield from switches(file)
    yield from (table_function(one, tables[one.name]) for one in file.tables)
    yield "#define report(...) gilk_tell(GILK_WHOSE, __VA_ARGS__)"
    yield "struct gilk_join_point { const char *function, *image; };"
    yield "static const char *const gilk_names[] = {"
    highest = max(one.number for one in unit.functions) + 1
    names = {one.number: one.function for one in unit.functions}
    yield from (f'"{names[n]}",' if n in names else "0," for n in range(highest))
    yield "};"
    yield '#define jp ((struct gilk_join_point){gilk_names[gilk_here()->function - 1], "kernel"})'


def _arguments(met: MetFunction) -> Iterator[str]:
    yield f"typedef __typeof__({met.point.result.text}) gilk_result_t;"
    fields = "".join(f"{parameter(one, f'argument_{n}')}; " for n, one in enumerate(met.point.parameters or ()))
    yield f"struct gilk_arguments {{ {fields}}};"
    yield '_Static_assert(sizeof(struct gilk_arguments) <= GILK_ARGUMENTS, "a function has too many arguments");'


def _hits(unit: KernelUnit) -> Iterator[str]:
    """The C functions that the patches of a unit call: at entries and, if they matter, at returns."""
    yield """\
struct gilk_hit { struct gilk_arguments came; struct gilk_matched list[GILK_MATCHED + 1]; };
_Static_assert(sizeof(struct gilk_hit) <= GILK_AREA, "too much is bound at one moment");
"""
    if unit.replacing:
        yield _replaces(unit)
    yield _at_entry(unit)
    if unit.waits:
        yield _at_return(unit)


def _function(name: str, body: str) -> str:
    """A C function that a patch calls, with its prototype."""
    head = f"void {name}(const struct gilk_regs *regs, unsigned int number)"
    return f"{head};\n{head}\n{{\n{body}}}\n"


def _at_entry(unit: KernelUnit) -> str:
    """The function for entries: it matches, runs advice before the call and, if there is any, in its place."""
    keep = "gilk_activate(regs->rsp, number, on, &hit->came, sizeof hit->came);\n" if unit.waits else ""
    body = f"""\
	gilk_u64 on = {on(unit.met.elements)};
	unsigned long flags;
	struct gilk_here *here;
	struct gilk_hit *hit;
	gilk_u64 result = 0;
	unsigned n, count;

	(void)result;
	if (!on || !gilk_enter(&flags, number))
		return;
	here = gilk_here();
	hit = (struct gilk_hit *)here->area;
{"".join(_fetched(unit.met))}
	{keep}count = gilk_at_before(on, &hit->came, 0, hit->list, 0);
	for (n = 0; n < count; n++)
		gilk_observe(hit->list + n);
	{_replaced(unit)}gilk_leave(flags);
"""
    return _function(unit.entry, body)


def _replaced(unit: KernelUnit) -> str:
    """The statements by which advice in place of the function returns to its caller; "" if there is no such advice."""
    if not unit.replacing:
        return ""
    forgotten = "gilk_deactivate(regs->rsp, number, &hit->came, sizeof hit->came);\n\t\t" if unit.waits else ""
    return f"if (gilk_replace(hit, count, &result)) {{\n\t\t{forgotten}gilk_return(regs, result);\n\t}}\n\t"


def _at_return(unit: KernelUnit) -> str:
    """The function for returns: it matches the call that ends, and runs advice after it."""
    met, kind = unit.met, unit.met.point.result
    result = "" if met.is_void else f"{declared(kind, 'gilk_result')} = ({kind.text})regs->rax;\n"
    body = f"""\
	unsigned long flags;
	struct gilk_here *here;
	struct gilk_hit *hit;
	gilk_u64 on;
	unsigned count;

	if (!gilk_any_activation() || !gilk_enter(&flags, number))
		return;
	here = gilk_here();
	hit = (struct gilk_hit *)here->area;
	on = gilk_deactivate(regs->rsp, number, &hit->came, sizeof hit->came) & ({on(met.elements)});
	if (on) {{
		{result}count = gilk_at_after(on, &hit->came, {"0" if met.is_void else "&gilk_result"}, hit->list, 0);
		while (count-- > 0)
			gilk_observe(hit->list + count);
	}}
	gilk_leave(flags);
"""
    return _function(unit.leaving, body)


def _replaces(unit: KernelUnit) -> str:
    """``gilk_replace`` runs advice in place until one could read all memory that it reads; it returns whether one did,
    and puts its result into ``result``.
    """
    result = "" if unit.met.is_void else "*result = (gilk_u64)"
    cases = "".join(
        f"\tcase {whose(one)}: {standing(one, result)} if (gilk_readable()) return 1; break;\n"
        for one in unit.replacing
    )
    return f"""\
static int gilk_replace(struct gilk_hit *hit, unsigned count, gilk_u64 *result)
{{
	const struct gilk_arguments *gilk_came = &hit->came;
	unsigned n;

	(void)result;
	for (n = 0; n < count; n++) {{
		struct gilk_matched *gilk_one = hit->list + n;

		gilk_here()->unread = 0;
		switch (gilk_one->element) {{
{cases}		}}
	}}
	return 0;
}}
"""


def _fetched(met: MetFunction) -> Iterator[str]:
    for n, one in enumerate(met.point.parameters or ()):
        value = f"regs->{_REGISTERS[n]}" if n < len(_REGISTERS) else f"gilk_on_stack(regs->rsp, {n - len(_REGISTERS)})"
        yield f"\thit->came.argument_{n} = ({parameter(one, '')}){value};\n"


def main_text(aspects: Sequence[NumberedAspect], limits: Sequence[KernelLimits], size: int) -> str:
    """The C of the state, which has ``size`` bytes."""
    rows = "".join(
        f"\t[{aspect.number}] = {{ {one.limit}UL, {one.first}UL, {one.within}UL, {one.index}UL }},\n"
        for aspect, one in zip(aspects, limits, strict=True)
    )
    return f"""\
#include "gilk_woven_module.h"

#define GILK_STATE_SIZE {size}UL
static const struct gilk_limits gilk_limits_given[GILK_ASPECTS] = {{
{rows}}};

#include "gilk_woven_state.h"
"""


def kbuild_of(name: str, files: Sequence[str]) -> str:
    """The Kbuild file of a module ``name`` of C files, without calls of ftrace."""
    objects = " ".join(f"{one}.o" for one in files)
    removed = "".join(f"CFLAGS_REMOVE_{one}.o := $(CC_FLAGS_FTRACE)\n" for one in files)
    return (
        f"obj-m := {name}.o\n{name}-y := {objects}\n{removed}ccflags-y := -I $(src)/include -I $(src)/include/.. "
        "-Wno-strict-prototypes -Wno-declaration-after-statement -Wno-frame-larger-than -Wno-unused-variable\n"
    )
