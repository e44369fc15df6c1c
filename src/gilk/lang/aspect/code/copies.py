# SPDX-License-Identifier: LGPL-2.1-or-later
"""The whole C for copies of a function that are inlined in others, or have other names: it runs where calls of these
begin. A patch gives it the arguments that debug information places there (splice/copy_entry.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.aspect.checked import BindingSource, CheckedBinding, CheckedFile
from gilk.lang.aspect.code import unit
from gilk.lang.aspect.code.accessing import FRAME_SIGNATURE
from gilk.lang.aspect.code.advising import advice_functions, runners
from gilk.lang.aspect.code.matching import match_function, process_text
from gilk.lang.aspect.code.meeting import MetFunction
from gilk.lang.aspect.code.moving import moments
from gilk.lang.aspect.code.regions import regions
from gilk.lang.aspect.code.unit import WOVEN, WovenText
from gilk.lang.aspect.code.words import commits
from gilk.lang.c.advice import When
from gilk.lang.c.literals import quoted


def woven_copy(file: CheckedFile, met: MetFunction, tables: dict[str, int]) -> WovenText:
    """The C for the copies of ``met``, whose elements observe entries only, and look at no other calls. ``tables``: the
    offset of each table in the state.
    """
    aspects = list({one.aspect.number: one.aspect for one in met.elements}.values())
    parts = [
        *unit.head(file, met.elements, tables), *_place(met), *unit.typed(aspects), *unit.call_types(met, aspects),
        *regions(aspects), unit.OLDEST_FIRST, *commits(aspects),
        *(match_function(one, file.source) for one in met.elements),
        *moments(met), *advice_functions(met, file.source), runners(met), _entered(met),
    ]  # fmt: skip
    declarations = process_text(file)
    return WovenText("\n".join(parts), declarations, FRAME_SIGNATURE, When.BEFORE)


def asked_arguments(met: MetFunction) -> tuple[int, ...]:
    """The numbers of the parameters whose values the elements bind, in order, from 0."""
    ways = (way for one in met.elements for way in one.alternatives)
    steps = (step for way in ways for step in way.checked.steps if isinstance(step, CheckedBinding))
    return tuple(sorted({step.number for step in steps if step.source is BindingSource.ARGUMENT}))


def _place(met: MetFunction) -> Iterator[str]:
    """The definition of ``jp``: the copy's beginning stands for the function's, and for the place that calls it."""
    yield "#include <gilk_variable.h>"
    yield "struct gilk_join_point { const char *function, *image; const void *pc, *caller; };"
    yield "#define gilk_caller gilk_own_pc()"
    values = f"{quoted(met.function)}, {quoted(met.image)}, (const void *)gilk_own_pc(), (const void *)gilk_own_pc()"
    yield f"#define jp ((struct gilk_join_point){{{values}}})"


def _entered(met: MetFunction) -> str:
    """The function that the patch calls."""
    asked = asked_arguments(met)
    fits = "".join(
        f'_Static_assert(sizeof gilk_call.came.argument_{n} <= 8, "an argument has 8 bytes at most");\n' for n in asked
    )
    moves = "".join(
        f"gilk_move(&gilk_call.came.argument_{n}, gilk_access->bytes + {8 * n}, sizeof gilk_call.came.argument_{n});\n"
        for n in asked
    )
    body = unit.observing(fits + moves, unit.on(met.elements), "return;")
    return f"""\
void {WOVEN}(void *gilk_frame, const void *gilk_where)
{{
const struct gilk_access *gilk_access = gilk_frame;
(void)gilk_access, (void)gilk_where;
{body}}}
"""
