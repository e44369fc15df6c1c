# SPDX-License-Identifier: LGPL-2.1-or-later
"""The whole C for the reads, or for the writes, of one variable or of memory found by its address; it runs when an
instruction is about to make the access.

A read returns the value of its advice in place. A write has been made to a place on the stack; it reaches the variable
only if advice in place proceeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gilk.lang.aspect.automaton import Moment
from gilk.lang.aspect.checked import BindingSource, CheckedBinding, CheckedFile, CheckedFunction
from gilk.lang.aspect.cnames import calls
from gilk.lang.aspect.code import unit
from gilk.lang.aspect.code.advising import advice_functions, nest, runners
from gilk.lang.aspect.code.matching import match_function, process_text
from gilk.lang.aspect.code.meeting import MetElement, NumberedAspect
from gilk.lang.aspect.code.moving import moments
from gilk.lang.aspect.code.regions import regions
from gilk.lang.aspect.code.types import declared
from gilk.lang.aspect.code.unit import WOVEN, WovenText
from gilk.lang.aspect.code.walking import walking
from gilk.lang.aspect.code.words import commits
from gilk.lang.c.advice import When
from gilk.lang.c.signature import CSignature
from gilk.values import dataclass

#: Copies one member after the other, since compilers would use vector registers to copy the whole struct.
_SAME = """\
__attribute__((unused)) static void gilk_same(struct gilk_arguments *to, const struct gilk_arguments *from)
{{
gilk_move(&to->argument_0, &from->argument_0, sizeof to->argument_0);
gilk_move(&to->value, &from->value, sizeof to->value);
gilk_move(&to->old, &from->old, sizeof to->old);
to->address = from->address;
to->size = from->size;
to->offset = from->offset;
{more}}}
"""
#: For memory found by its address, ``gilk_typed_t`` is the type of the value in advice in place.
_PROCEED_READ = (
    "#define gilk_proceed() ({ gilk_typed_t gilk_read; "
    "gilk_result_t gilk_raw = gilk_inner(gilk_call, gilk_at, gilk_came); "
    "gilk_move(&gilk_read, &gilk_raw, sizeof gilk_read); gilk_read; })"
)
_PROCEED_WRITE = """\
#define gilk_proceed() gilk_inner(gilk_call, gilk_at, gilk_came)
#define gilk_proceed_with(gilk_new) ({ struct gilk_arguments gilk_packed; gilk_typed_t gilk_given = (gilk_new); \
	gilk_same(&gilk_packed, gilk_came); gilk_move(&gilk_packed.value, &gilk_given, sizeof gilk_given); \
	gilk_packed.argument_0 = gilk_packed.value; gilk_inner(gilk_call, gilk_at, &gilk_packed); })"""
FRAME_SIGNATURE = CSignature("void", WOVEN, ("void *gilk_frame", "const void *gilk_where"), False)


@dataclass(frozen=True, slots=True)
class MetAccess:
    """Reads, or writes, of ``size`` bytes at ``start`` in the process. ``point``: the access as a function; a read
    returns the value, a write takes it. ``whole``: the bytes are the whole variable. ``functions``: image and name of
    each function with instructions that make such accesses; places refer to them by index. ``by_address``: the accesses
    are of memory that instances watch, wherever that lies; the value is then what the instruction accesses, as a
    number. ``trapped``: debug registers show the accesses, when they have been made.
    """

    start: int
    size: int
    write: bool
    whole: bool
    point: CheckedFunction
    elements: tuple[MetElement, ...]
    functions: tuple[tuple[str, str], ...]
    by_address: bool = False
    trapped: bool = False

    def at(self, moment: Moment) -> tuple[MetElement, ...]:
        return tuple(one for one in self.elements if one.moment is moment)

    @property
    def is_void(self) -> bool:
        return self.write

    @property
    def replaces(self) -> bool:
        return any(one.advice is not None and one.advice.when == "inplace" for one in self.elements)

    @property
    def needs_value(self) -> bool:
        """Whether an element that matches ahead of the access uses the value."""
        return _asks(self.at(Moment.BEFORE), BindingSource.VALUE)

    @property
    def needs_bytes(self) -> bool:
        """Whether an element uses the value or the old value, or advice in place decides on the value."""
        return _asks(self.elements, BindingSource.VALUE, BindingSource.OLD) or self.gives_value

    @property
    def gives_value(self) -> bool:
        """Whether advice in place determines the value that is read or written."""
        bodies = [one.advice.body.text for one in self.elements if one.advice and one.advice.when == "inplace"]
        return bool(bodies) and (not self.write or any(given for text in bodies for _, given in calls(text, "proceed")))


def _asks(elements: Sequence[MetElement], *sources: BindingSource) -> bool:
    steps = (step for one in elements for way in one.alternatives for step in way.checked.steps)
    return any(isinstance(step, CheckedBinding) and step.source in sources for step in steps)


def woven_access(file: CheckedFile, met: MetAccess, tables: dict[str, int]) -> WovenText:
    """The C for the accesses ``met``. ``tables``: the offset of each table in the state."""
    aspects = list({one.aspect.number: one.aspect for one in met.elements}.values())
    parts = [
        *unit.head(file, met.elements, tables), *_head(met), *walking(met.elements), *unit.typed(aspects),
        *_access(met, aspects), *regions(aspects), unit.OLDEST_FIRST, *_forward(met), *commits(aspects),
        *(match_function(one, file.source) for one in met.elements), *moments(met),
        *advice_functions(met, file.source), runners(met), _original(met), nest(met), _entered(met),
    ]  # fmt: skip
    declarations = process_text(file)
    return WovenText("\n".join(parts), declarations, FRAME_SIGNATURE, When.BEFORE)


def _head(met: MetAccess) -> Iterator[str]:
    yield "#include <gilk_variable.h>"
    names = ", ".join(f'{{"{function}", "{image}"}}' for image, function in met.functions)
    yield "struct gilk_join_point { const char *function, *image; const void *pc; };"
    yield f"static const struct {{ const char *function, *image; }} gilk_places[] = {{ {names} }};"
    place = "gilk_places[gilk_own_site()->number]"
    yield f"#define jp ((struct gilk_join_point){{{place}.function, {place}.image, (const void *)gilk_own_pc()}})"
    if not met.by_address:
        numbers = f"{met.start:#x}UL, {met.size}UL, {int(met.whole)}"
        yield f"static const struct gilk_variable gilk_variable = {{ {numbers} }};"


def _access(met: MetAccess, aspects: Sequence[NumberedAspect]) -> Iterator[str]:
    """Declarations for an access, which stands for a call; ``gilk_value_t`` is the type of the value that is read or
    written.
    """
    yield f"typedef __typeof__({met.point.result.text}) gilk_result_t;"
    yield f"typedef __typeof__({_value_of(met)}) gilk_value_t;"
    walks = any(one.walks for one in met.elements)
    yield (
        "struct gilk_arguments { gilk_value_t argument_0, value, old; gilk_u64 address; unsigned long size; "
        f"long offset; {'const struct gilk_access *access; ' if walks else ''}}};"
    )
    yield _SAME.format(more="to->access = from->access;\n" if walks else "")
    yield from unit.outer_arguments(met.elements)
    yield from unit.matched(met, aspects)
    yield (
        "struct gilk_woven_call { gilk_u64 on; struct gilk_access *access; const struct gilk_access_site *site; "
        "struct gilk_arguments came; int went; unsigned matched; struct gilk_matched list[GILK_MATCHED + 1]; };"
    )


def _value_of(met: MetAccess) -> str:
    return declared((met.point.parameters or (met.point.result,))[0], "").strip()


def _forward(met: MetAccess) -> Iterator[str]:
    yield "static gilk_result_t gilk_next(struct gilk_woven_call *, unsigned, const struct gilk_arguments *);"
    yield "static gilk_result_t gilk_inner(struct gilk_woven_call *, unsigned, const struct gilk_arguments *);"
    yield "#define proceed(...) gilk_proceed ## __VA_OPT__(_with)(__VA_ARGS__)"
    if met.by_address:
        yield _PROCEED_WRITE if met.write else _PROCEED_READ
        return
    yield "#define gilk_proceed() gilk_inner(gilk_call, gilk_at, gilk_came)"
    if met.write:
        yield (
            "#define gilk_proceed_with(gilk_new) ({ struct gilk_arguments gilk_packed; "
            "gilk_same(&gilk_packed, gilk_came); "
            "gilk_packed.argument_0 = gilk_packed.value = (gilk_new); gilk_inner(gilk_call, gilk_at, &gilk_packed); })"
        )


def _after(met: MetAccess, came: str) -> str:
    if not met.at(Moment.AFTER):
        return ""
    return f"""\
{{
struct gilk_matched gilk_list[GILK_MATCHED + 1];
gilk_keep_errno;
gilk_u64 gilk_on = gilk_call->on & ({unit.on(met.elements)});
unsigned gilk_n = gilk_at_after(gilk_on, {came}, 0, gilk_list, 0);
while (gilk_n-- > 0) gilk_observe(gilk_list + gilk_n);
gilk_restore_errno;
}}
"""


def _original(met: MetAccess) -> str:
    """The function that makes the access itself and runs the matches behind it. A read sees changes that earlier advice
    has made to the variable.
    """
    if met.write:
        went = "gilk_call->went = 1;\nif (gilk_call->site->phase == GILK_ACCESS_DECIDED) return;\n"
        body = f"{went}{_put(met, 'gilk_call->', '&gilk_came->argument_0')}" if met.replaces else ""
        body += f"gilk_access_store(gilk_call->access, gilk_call->site);\n{_after(met, 'gilk_came')}"
    else:
        body = f"""\
struct gilk_arguments gilk_seen;
gilk_same(&gilk_seen, gilk_came);
gilk_access_load(gilk_call->access, gilk_call->site);
{_value(met, "gilk_call->", "gilk_call->access->bytes", "gilk_seen.value")}\
gilk_seen.argument_0 = gilk_seen.value;
{_after(met, "&gilk_seen")}return gilk_seen.value;
"""
    return f"""\
static gilk_result_t gilk_original(struct gilk_woven_call *gilk_call, const struct gilk_arguments *gilk_came)
{{
(void)gilk_call, (void)gilk_came;
{body}}}
"""


def _entered(met: MetAccess) -> str:
    """The function that the patch calls. If the instruction runs unchanged, the patch calls it both ahead of a write
    and behind it.
    """
    store = "if (gilk_site->phase == GILK_ACCESS_WHOLE) gilk_access_store(gilk_access, gilk_site);\n"
    missed = store if met.write else ""
    walked = "gilk_call.came.access = gilk_access;\n" if any(one.walks for one in met.elements) else ""
    return f"""\
void {WOVEN}(void *gilk_frame, const void *gilk_where)
{{
struct gilk_access *gilk_access = gilk_frame;
const struct gilk_access_site *gilk_site = gilk_where;
struct gilk_woven_call gilk_call, *gilk_own = &gilk_call;
unsigned gilk_n;
gilk_call.on = {unit.on(met.elements)};
gilk_call.access = gilk_access;
gilk_call.site = gilk_site;
gilk_call.came.address = gilk_access->address;
gilk_call.came.size = gilk_access_size(gilk_access, gilk_site);
{walked}(void)gilk_own;
{_loaded(met)}if (!gilk_call.on || !({_reaches(met)})) {{
{missed}return;
}}
{_filled(met)}{{
gilk_keep_errno;
gilk_call.matched = gilk_at_before(gilk_call.on, &gilk_call.came, 0, gilk_call.list, 0);
for (gilk_n = 0; gilk_n < gilk_call.matched; gilk_n++) gilk_observe(gilk_call.list + gilk_n);
gilk_restore_errno;
}}
{_last(met)}}}
"""


def _reaches(met: MetAccess) -> str:
    if met.by_address:
        return "gilk_call.came.size"  # each instance's match tests whether its memory is reached
    return "gilk_access_reaches(gilk_access, gilk_site, &gilk_variable)"


def _loaded(met: MetAccess) -> str:
    if met.trapped:
        return ""
    if met.write:
        return (
            "if (gilk_site->phase == GILK_ACCESS_AHEAD || gilk_site->phase == GILK_ACCESS_DECIDED) "
            "gilk_access_load(gilk_access, gilk_site);\n"
        )
    return "gilk_access_load(gilk_access, gilk_site);\n"


def _value(met: MetAccess, of: str, bytes_: str, to: str) -> str:
    """C that puts the value of ``bytes_`` into ``to``; ``of`` is the prefix by which the access and its place are
    reached.
    """
    if met.by_address:
        return f"{to} = gilk_access_raw({of}site, {bytes_});\n"
    return f"gilk_access_value({of}access, {of}site, &gilk_variable, {bytes_}, &{to}, sizeof {to});\n"


def _put(met: MetAccess, of: str, value: str) -> str:
    if met.by_address:
        return f"gilk_access_put_raw({of}access, {of}site, *{value});\n"
    return f"gilk_access_put({of}access, {of}site, &gilk_variable, {value}, sizeof *{value});\n"


def _filled(met: MetAccess) -> str:
    """C that fills in the value and the old value. Behind an instruction that ran unchanged, the saved bytes are the
    old ones.
    """
    there = "(const gilk_u8 *)gilk_access->address"
    offset = "" if met.by_address else "gilk_call.came.offset = gilk_access_offset(gilk_access, &gilk_variable);\n"
    came = "gilk_call.came.argument_0 = gilk_call.came.value;\n"
    if met.trapped:
        return offset + _trapped(met) + came + _seen(met) + "return;\n"
    bytes_ = _value(met, "gilk_", "gilk_access->bytes", "gilk_call.came.value")
    if not met.write:
        return offset + bytes_ + came
    after = _seen(met)
    return f"""\
{offset}if (gilk_site->phase == GILK_ACCESS_BEHIND) {{
{_value(met, "gilk_", there, "gilk_call.came.value")}\
{_value(met, "gilk_", "gilk_access->bytes", "gilk_call.came.old")}{came}{after}return;
}}
{bytes_}{_value(met, "gilk_", there, "gilk_call.came.old")}{came}"""


def _seen(met: MetAccess) -> str:
    """C that runs the matches behind an access that has been made."""
    return _after(met, "&gilk_own->came").replace("gilk_call->on", "gilk_own->on")


def _trapped(met: MetAccess) -> str:
    """C that fills in what the keeper has told of an access."""
    first = "gilk_access->bytes"
    if not met.write:
        return _value(met, "gilk_", first, "gilk_call.came.value")
    written = _value(met, "gilk_", f"{first} + GILK_ACCESS_WRITTEN", "gilk_call.came.value")
    return written + _value(met, "gilk_", first, "gilk_call.came.old")


def _last(met: MetAccess) -> str:
    if met.write:
        decided = """\
if (gilk_site->phase == GILK_ACCESS_DECIDED) {
gilk_call.went = 0;
gilk_next(&gilk_call, 0, &gilk_call.came);
if (!gilk_call.went) gilk_access_skip(gilk_access, gilk_site);
return;
}
"""
        return (
            "if (gilk_site->phase == GILK_ACCESS_TRIED) gilk_access_load(gilk_access, gilk_site);\n"
            f"{decided if met.replaces else ''}if (gilk_site->phase != GILK_ACCESS_WHOLE) return;\n"
            "gilk_next(&gilk_call, 0, &gilk_call.came);\n"
        )  # fmt: skip
    call = "gilk_next(&gilk_call, 0, &gilk_call.came)"
    if not met.replaces:
        return f"(void){call};\n"
    return f"""\
{{
gilk_value_t gilk_result = {call};
{_put(met, "gilk_", "&gilk_result")}}}
"""
