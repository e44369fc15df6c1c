# SPDX-License-Identifier: LGPL-2.1-or-later
"""The whole C for copies of a function that are inlined in others, or have other names: it runs where calls of these
begin, and where they are left. A patch gives it the arguments that debug information places where the call begins, and
the result if the copy returns as functions do (splice/copy_entry.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gilk.lang.aspect.automaton import Moment
from gilk.lang.aspect.checked import BindingSource, CheckedBinding, CheckedFile
from gilk.lang.aspect.code import unit
from gilk.lang.aspect.code.accessing import FRAME_SIGNATURE
from gilk.lang.aspect.code.advising import advice_functions, runners
from gilk.lang.aspect.code.matching import match_function, process_text
from gilk.lang.aspect.code.meeting import MetElement, MetFunction
from gilk.lang.aspect.code.moving import moments
from gilk.lang.aspect.code.regions import regions
from gilk.lang.aspect.code.unit import WOVEN, WovenText
from gilk.lang.aspect.code.words import commits
from gilk.lang.c.advice import When
from gilk.lang.c.literals import quoted

_DECLARED = f"void {WOVEN}(void *gilk_frame, const void *gilk_where)\n"
_SITE = """\
const struct gilk_access *gilk_access = gilk_frame;
const struct gilk_access_site *gilk_site = gilk_where;
(void)gilk_access, (void)gilk_site;
"""
#: The address of the frame, and the number of the copy.
_CALL = "*(const gilk_u64 *)(gilk_access->bytes + GILK_COPY_FRAME), gilk_site->number"


def woven_copy(file: CheckedFile, met: MetFunction, tables: dict[str, int]) -> WovenText:
    """The C for the copies of ``met``, whose elements observe calls, and walk no stacks. ``tables``: the offset of each
    table in the state.
    """
    met = replace(met, elements=tuple(map(_at_copies, met.elements)))
    aspects = list({one.aspect.number: one.aspect for one in met.elements}.values())
    parts = [
        *unit.head(file, met.elements, tables), *_place(met), *unit.typed(aspects), *unit.call_types(met, aspects),
        *regions(aspects), unit.OLDEST_FIRST, *commits(aspects),
        *(match_function(one, file.source) for one in met.elements),
        *moments(met), *advice_functions(met, file.source), runners(met), _entered(met),
    ]  # fmt: skip
    declarations = process_text(file)
    return WovenText("\n".join(parts), declarations, FRAME_SIGNATURE, When.BEFORE)


def _at_copies(one: MetElement) -> MetElement:
    return replace(one, alternatives=tuple(replace(way, copied=True) for way in one.alternatives))


def asked_arguments(met: MetFunction) -> tuple[int, ...]:
    """The numbers of the parameters whose values the elements bind, in order, from 0."""
    return tuple(sorted({step.number for step in _bindings(met) if step.source is BindingSource.ARGUMENT}))


def asks_result(met: MetFunction) -> bool:
    """Whether an element binds the result."""
    return any(step.source is BindingSource.RETURN for step in _bindings(met))


def _bindings(met: MetFunction) -> Iterator[CheckedBinding]:
    ways = (way for one in met.elements for way in one.alternatives)
    return (step for way in ways for step in way.checked.steps if isinstance(step, CheckedBinding))


def _place(met: MetFunction) -> Iterator[str]:
    """The definition of ``jp``: the copy's beginning stands for the function's, and for the place that calls it."""
    yield "#include <gilk_variable.h>"
    yield "struct gilk_join_point { const char *function, *image; const void *pc, *caller; };"
    yield "#define gilk_caller gilk_own_pc()"
    values = f"{quoted(met.function)}, {quoted(met.image)}, (const void *)gilk_own_pc(), (const void *)gilk_own_pc()"
    yield f"#define jp ((struct gilk_join_point){{{values}}})"


def _entered(met: MetFunction) -> str:
    """The function that the patches call."""
    fits = "".join(
        f'_Static_assert(sizeof gilk_call.came.argument_{n} <= 8, "an argument has 8 bytes at most");\n'
        for n in asked_arguments(met)
    )
    fill, asked = fits + _filled(met, "gilk_access->bytes"), unit.on(met.elements)
    if not met.at(Moment.AFTER):
        return f"{_DECLARED}{{\n{_SITE}{unit.observing(fill, asked, 'return;')}}}"
    observing = unit.observing(fill, asked, f"gilk_copy_leave({_CALL}); return;", _begun(met))
    return f"""\
#include <gilk_copies.h>
{_left(met)}{_DECLARED}{{
{_SITE}if (gilk_site->phase == GILK_ACCESS_BEHIND) {{
gilk_left(gilk_access, gilk_site);
return;
}}
{observing}}}
"""


def _filled(met: MetFunction, values: str) -> str:
    """C that fills in the arguments from words at ``values``."""
    to = "gilk_call.came.argument_"
    return "".join(
        f"gilk_move(&{to}{n}, (const char *){values} + {8 * n}, sizeof {to}{n});\n" for n in asked_arguments(met)
    )


def _begun(met: MetFunction) -> str:
    """C that keeps the arguments until the call is left. It runs before advice does, which may fork."""
    kept = "".join(
        f"gilk_copy->argument[{n}] = ((const gilk_u64 *)gilk_access->bytes)[{n}];\n" for n in asked_arguments(met)
    )
    return f"""\
{{
struct gilk_copy_call *gilk_copy = gilk_copy_enter({_CALL});
if (gilk_copy) {{
gilk_copy->function = {quoted(met.function)};
gilk_copy->on = gilk_call.on;
{kept}}}
}}
"""


def _left(met: MetFunction) -> str:
    """The function that runs where a call is left."""
    result = "0"
    taken = ""
    if asks_result(met):
        result = "&gilk_result"
        taken = """\
gilk_result_t gilk_result;
_Static_assert(sizeof gilk_result <= 8, "a result has 8 bytes at most");
gilk_move(&gilk_result, gilk_access->bytes + GILK_COPY_RESULT, sizeof gilk_result);
"""
    return f"""\
static void gilk_left(const struct gilk_access *gilk_access, const struct gilk_access_site *gilk_site)
{{
struct gilk_woven_call gilk_call;
struct gilk_matched gilk_list[GILK_MATCHED + 1];
const struct gilk_copy_call *gilk_copy = gilk_copy_leave({_CALL});
{taken}if (!gilk_copy) return;
gilk_call.on = gilk_copy->on & ({unit.on(met.elements)});
if (!gilk_call.on) return;
{_filled(met, "gilk_copy->argument")}gilk_keep_errno;
unsigned gilk_n = gilk_at_after(gilk_call.on, &gilk_call.came, {result}, gilk_list, 0);
while (gilk_n-- > 0) gilk_observe(gilk_list + gilk_n);
gilk_restore_errno;
}}
"""
