# SPDX-License-Identifier: LGPL-2.1-or-later
"""The whole C for one function of a program, which runs in its place or before it.

All aspects match at the entry; then advice before runs, and advice in place, nested around the function. At the return
all aspects match again, and advice after runs, the last first (docs/aspect/semantics.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gilk.lang.aspect.automaton import Moment
from gilk.lang.aspect.checked import CheckedFile, CheckedTable
from gilk.lang.aspect.code.advising import advice_functions, nest, runners
from gilk.lang.aspect.code.matching import match_function, process_text
from gilk.lang.aspect.code.meeting import Met, MetElement, MetFunction, NumberedAspect
from gilk.lang.aspect.code.members import placed
from gilk.lang.aspect.code.moving import moments
from gilk.lang.aspect.code.regions import regions
from gilk.lang.aspect.code.types import declared, externals, is_array, parameter, structs
from gilk.lang.aspect.code.walking import walking
from gilk.lang.aspect.code.words import commits
from gilk.lang.c.advice import When
from gilk.lang.c.signature import CSignature
from gilk.values import dataclass

#: The name of the function that the engine of advice calls.
WOVEN = "gilk_woven"
_DOUBLES = re.compile(r"%[^%a-zA-Z]*[aAeEfFgG]|report\s*\((?!\s*\x22)")  # or a format that is not a literal
_FOLDS = {"stddev": "GILK_FOLDS_SQUARES", "quantize": "GILK_FOLDS_BUCKETS"}
_CROWD = 16  # room at one moment for matches of sequences that have advice


@dataclass(frozen=True, slots=True)
class WovenText:
    """C for the engine of advice; ``declarations`` stand before the signature."""

    text: str
    declarations: str
    signature: CSignature
    when: When


OLDEST_FIRST = """\
/* Put matches in the order in which their instances began. */
__attribute__((unused)) static void gilk_oldest_first(struct gilk_matched *list, unsigned from, unsigned to)
{
struct gilk_matched kept;
unsigned n, at;
for (n = from + 1; n < to; n++)
for (at = n; at > from && list[at - 1].serial > list[at].serial; at--) {
gilk_copy(&kept, list + at, sizeof kept);
gilk_copy(list + at, list + at - 1, sizeof kept);
gilk_copy(list + at - 1, &kept, sizeof kept);
}
}
"""


def woven(file: CheckedFile, met: MetFunction, tables: dict[str, int]) -> WovenText:
    """The C for the function ``met``. ``tables``: the offset of each table in the state."""
    aspects = list({one.aspect.number: one.aspect for one in met.elements}.values())
    parts = [
        *head(file, met.elements, tables), *_place(), *walking(met.elements), *typed(aspects),
        *call_types(met, aspects), *regions(aspects), OLDEST_FIRST, *_forward(met), *commits(aspects),
        *(match_function(one, file.source) for one in met.elements),
        *moments(met), *advice_functions(met, file.source), runners(met), *_entered(met),
    ]  # fmt: skip
    declarations = process_text(file)
    when = When.BEFORE if met.observes_entries_only else When.INPLACE
    return WovenText("\n".join(parts), declarations, signature(met), when)


def signature(met: MetFunction) -> CSignature:
    """The signature of the function; one whose parameters no aspect declares is called as if it had none."""
    given = tuple(parameter(one, f"gilk_given_{n}") for n, one in enumerate(met.point.parameters or ()))
    return CSignature(met.point.result.text, met.point.name, given, met.point.variadic)


def head(file: CheckedFile, elements: Sequence[MetElement], tables: dict[str, int]) -> Iterator[str]:
    """C for all that advice may use besides names, ``proceed`` and ``jp``."""
    if not any(_DOUBLES.search(one.advice.body.text) for one in elements if one.advice is not None):
        yield "#define GILK_NO_DOUBLES"
    yield "#include <gilk_aspect.h>"
    yield "#undef proceed\n#undef pass"
    yield from switches(file)
    yield from (table_function(one, tables[one.name]) for one in file.tables)
    yield from (f"#define GILK_GROUP_{one.name} {n}" for n, one in enumerate(file.groups))
    yield "#define report(...) gilk_report(GILK_WHOSE, __VA_ARGS__)"
    for word, how in (("join", "GILK_JOINS"), ("leave", "GILK_LEAVES")):
        yield f"#define {word}(group, pid) gilk_regroup(GILK_WHOSE, {how}, GILK_GROUP_##group, pid)"
    yield "extern int *__errno_location(void);"


def switches(file: CheckedFile) -> Iterator[str]:
    """Definitions of the bits by which advice switches aspects that have names."""
    yield from (f"#define GILK_ASPECT_{one.name} {1 << n:#x}UL" for n, one in enumerate(file.aspects) if one.name)


def _place() -> Iterator[str]:
    """The definition of ``jp``. The C serves all functions that are declared alike, so the engine tells which one is
    called.
    """
    about = "gilk_own_call()->about"
    values = f"{about}->function, {about}->image, {about}->address, (const void *)gilk_own_call()->caller"
    yield "struct gilk_join_point { const char *function, *image; const void *pc, *caller; };"
    yield f"#define jp ((struct gilk_join_point){{{values}}})"
    yield "#define gilk_caller (*gilk_own_call()->rsp)"


def table_function(table: CheckedTable, at: int) -> str:
    """The function that adds to a table, which lies at offset ``at`` of the state."""
    parameters = ", ".join(parameter(one, f"gilk_{n}") for n, one in enumerate(table.key))
    fields = "".join(f"{declared(one, f'part_{n}')}; " for n, one in enumerate(table.key))
    copies = "".join(
        f"gilk_copy_text((char *)key.key.part_{n}, (const char *)gilk_{n}, sizeof key.key.part_{n});\n"
        if is_array(one) else f"key.key.part_{n} = gilk_{n};\n"
        for n, one in enumerate(table.key)
    )  # fmt: skip
    return f"""\
__attribute__((unused)) static void gilk_add_to_{table.name}({parameters}, long gilk_amount)
{{
union {{ struct {{ {fields}}} key; gilk_u64 words[GILK_KEY / 8]; char bytes[GILK_KEY]; }} key;
int n;
_Static_assert(sizeof key == GILK_KEY, "a key has 64 bytes at most");
for (n = 0; n < GILK_KEY / 8; n++) ((volatile gilk_u64 *)key.words)[n] = 0;
{copies}gilk_table_add({at}UL, {_FOLDS.get(table.fold, "GILK_FOLDS_PLAIN")}, key.bytes, gilk_amount);
}}"""


def typed(aspects: Sequence[NumberedAspect], kernel: bool = False) -> Iterator[str]:
    """Declarations of the types of all names that the aspects bind and keep, in processes or in the ``kernel``."""
    for aspect in aspects:
        yield from externals(aspect, kernel)
        yield from structs(aspect, kernel)


def call_types(met: MetFunction, aspects: Sequence[NumberedAspect]) -> Iterator[str]:
    """Declarations of the arguments, and of a call under way."""
    yield f"typedef __typeof__({met.point.result.text}) gilk_result_t;"
    arguments = "".join(f"{parameter(one, f'argument_{n}')}; " for n, one in enumerate(met.point.parameters or ()))
    yield f"struct gilk_arguments {{ {arguments}}};"
    yield from outer_arguments(met.elements)
    yield from matched(met, aspects)
    yield (
        "struct gilk_woven_call { gilk_u64 on; struct gilk_frame frame; struct gilk_arguments came; unsigned matched; "
        "struct gilk_matched list[GILK_MATCHED + 1]; };"
    )


def matched(met: Met, aspects: Sequence[NumberedAspect]) -> Iterator[str]:
    """The declaration of a match that has advice."""
    names = dict.fromkeys(one.name for one in met.elements)
    bound = "".join(f"struct gilk_bound_{name} bound_{name}; " for name in names)
    words = "".join(f"struct gilk_words_{one.number} words_{one.number}; " for one in aspects)
    yield (
        "struct gilk_matched { unsigned element; struct gilk_instance *instance; gilk_u64 serial; "
        f"union {{ {words}}} words; union {{ {bound}}} bound; }};"
    )
    yield f"#define GILK_MATCHED {_most(met)}"


def outer_arguments(elements: Sequence[MetElement]) -> Iterator[str]:
    """Structs with the arguments of the outer functions, each laid out as in that function's own C."""
    ways = (way for each in elements for way in each.alternatives)
    for one in {one.number: one for way in ways for functions in way.outer for one in functions}.values():
        fields = "".join(f"{parameter(each, f'argument_{n}')}; " for n, each in enumerate(one.point.parameters or ()))
        yield f"struct gilk_arguments_{one.number} {{ {fields}}};"


def _most(met: Met) -> int:
    """The number of matches with advice for which there is room at one moment."""
    return max(_amount(met.at(moment)) for moment in Moment)


def _amount(elements: Sequence[MetElement]) -> int:
    advised = [one for one in elements if one.advice is not None]
    return len(advised) + _CROWD * any(one.aspect.is_sequence for one in advised)


def _forward(met: MetFunction) -> Iterator[str]:
    if met.observes_entries_only:
        return
    yield "static gilk_result_t gilk_next(struct gilk_woven_call *, unsigned, const struct gilk_arguments *);"
    yield "#define proceed(...) gilk_proceed ## __VA_OPT__(_with)(__VA_ARGS__)"
    yield "static gilk_result_t gilk_inner(struct gilk_woven_call *, unsigned, const struct gilk_arguments *);"
    yield "#define gilk_proceed() gilk_inner(gilk_call, gilk_at, gilk_came)"
    if met.point.parameters and not met.point.variadic:
        names = [f"argument_{n}" for n, _ in enumerate(met.point.parameters)]
        taken = ", ".join(parameter(one, f"gilk_{n}") for n, one in enumerate(met.point.parameters))
        filled = " ".join(f"gilk_packed.{name} = gilk_{n};" for n, name in enumerate(names))
        yield (
            f"__attribute__((unused)) static struct gilk_arguments gilk_pack({taken}) "
            f"{{ struct gilk_arguments gilk_packed; {filled} return gilk_packed; }}"
        )
        yield (
            "#define gilk_proceed_with(...) ({ struct gilk_arguments gilk_packed = gilk_pack(__VA_ARGS__); "
            "gilk_inner(gilk_call, gilk_at, &gilk_packed); })"
        )
    answer = "" if met.is_void else " (gilk_result_t)-1"
    yield f"#define deny(code) do {{ *__errno_location() = (code); return{answer}; }} while (0)"


def on(elements: Sequence[MetElement]) -> str:
    """An expression with a bit for each aspect that is switched on, and may match in this thread."""
    mask = sum(1 << number for number in {one.aspect.number for one in elements})
    members = placed(elements)
    return f"__atomic_load_n(&gilk_shared.on, __ATOMIC_RELAXED) & {mask:#x}UL{' & ' if members else ''}{members}"


def _on(met: MetFunction) -> str:
    """The same expression, with bit 63 set if control flows ask for the function."""
    return f"({on(met.elements)}) | 1UL << 63" if met.tracked else on(met.elements)


def _entered(met: MetFunction) -> Iterator[str]:
    """The function that the engine calls."""
    sign = signature(met)
    given = ", ".join(f"gilk_given_{n}" for n, _ in enumerate(sign.parameters))
    fill = "".join(f"gilk_call.came.argument_{n} = gilk_given_{n};\n" for n, _ in enumerate(sign.parameters))
    if met.observes_entries_only:
        yield f"void {WOVEN}({sign.fixed})\n{{\n{observing(fill, on(met.elements), 'return;')}}}"
        return
    yield _original(met, given)
    yield nest(met)
    void = met.is_void
    goes_on = "gilk_advice_proceed(); return;" if void else "return gilk_advice_proceed();"
    missed = goes_on if met.waits else _going_on(met)
    last = f"{'' if void else 'return '}gilk_next(&gilk_call, 0, &gilk_call.came);"
    yield f"{sign.result} {WOVEN}({sign.declared})\n{{\n{observing(fill, _on(met), missed)}{last}\n}}"


def observing(fill: str, asked: str, missed: str, begun: str = "") -> str:
    """C that runs the advice before a call. ``fill`` fills the arguments in; ``missed`` is done instead if no aspect of
    those ``asked`` for is on; ``begun`` is done first if one is.
    """
    return f"""\
struct gilk_woven_call gilk_call;
unsigned gilk_n;
{fill}gilk_call.on = {asked};
if (!gilk_call.on) {{ {missed} }}
{begun}{{
gilk_keep_errno;
gilk_call.matched = gilk_at_before(gilk_call.on, &gilk_call.came, 0, gilk_call.list, 0);
for (gilk_n = 0; gilk_n < gilk_call.matched; gilk_n++) gilk_observe(gilk_call.list + gilk_n);
gilk_restore_errno;
}}
"""


def _going_on(met: MetFunction) -> str:
    """C that ends advice that never calls the function, and lets the call go on. A large result would be written for
    the caller before the function runs."""
    if met.is_void:
        return "gilk_go_on(); return;"
    return (
        "if (sizeof(gilk_result_t) > 16) gilk_advice_pass(); "
        "{ static const gilk_result_t gilk_nothing; gilk_go_on(); return gilk_nothing; }"
    )


def _original(met: MetFunction, given: str) -> str:
    """The function that calls the original and runs the matches at its return."""
    if not met.waits:
        return f"""\
static gilk_result_t gilk_original(struct gilk_woven_call *gilk_call, const struct gilk_arguments *gilk_came)
{{
(void)gilk_call, (void)gilk_came;
{_going_on(met)}
}}
"""
    void = met.is_void
    kept = "" if void else "gilk_result = "
    names = ", ".join(f"gilk_came->argument_{n}" for n, _ in enumerate(met.point.parameters or ()))
    with_others = f"if (gilk_came != &gilk_call->came) {kept}gilk_advice_proceed_with({names});\nelse "
    call = f"{with_others if given and not met.point.variadic else ''}{kept}gilk_advice_proceed();\n"
    if met.tracked:
        call = f"""\
struct gilk_activation_head *gilk_own = gilk_own_call();
gilk_call->frame = (struct gilk_frame){{gilk_own->about->number, gilk_came}};
gilk_own->frame = &gilk_call->frame;
{call}gilk_own->frame = 0;
"""
    after = f"""\
{{
struct gilk_matched gilk_list[GILK_MATCHED + 1];
gilk_keep_errno;
gilk_u64 gilk_on = gilk_call->on & ({_on(met)});
unsigned gilk_n = gilk_at_after(gilk_on, gilk_came, {"0" if void else "&gilk_result"}, gilk_list, 0);
while (gilk_n-- > 0) gilk_observe(gilk_list + gilk_n);
gilk_restore_errno;
}}
"""
    return f"""\
static gilk_result_t gilk_original(struct gilk_woven_call *gilk_call, const struct gilk_arguments *gilk_came)
{{
{"" if void else "gilk_result_t gilk_result;"}
(void)gilk_call, (void)gilk_came;
{call}{after if met.at(Moment.AFTER) else ""}{"" if void else "return gilk_result;"}
}}
"""
