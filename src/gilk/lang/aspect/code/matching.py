# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C that tests whether an element matches, and binds its names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gilk.lang.aspect.checked import (
    BindingSource,
    CheckedAlias,
    CheckedBinding,
    CheckedDemand,
    CheckedFile,
    CheckedStep,
    CheckedType,
    outer_of,
)
from gilk.lang.aspect.cnames import renamed
from gilk.lang.aspect.code.meeting import (
    MetAlternative,
    MetElement,
    OuterFunction,
    Symbols,
    first_binders,
    uncertain,
    value_of,
)
from gilk.lang.aspect.code.members import is_member
from gilk.lang.aspect.code.regions import length_of
from gilk.lang.aspect.code.types import declared, is_array, is_pointer, is_text, kept_symbols, seen_symbols
from gilk.lang.aspect.code.walking import found_on_stack, verified
from gilk.lang.syntax.source import Source, Span


def match_function(met: MetElement, source: Source) -> str:
    """``gilk_match_N_M_when(arguments, result, kept, words, bound, position)`` returns whether the element matches, and
    fills ``bound`` with its names. ``position`` is that of the instance, 0 if none has begun.
    """
    aspect, n = met.aspect, met.aspect.number
    ways = "".join(_way(met, one, source) for one in met.alternatives)
    kept = "".join(
        f"gilk_copy(&gilk_bound->{name}, &gilk_kept->{name}, sizeof gilk_bound->{name});\n"
        for name in first_binders(aspect)
        if met.number
    )
    return f"""\
static int gilk_match_{met.place}(const struct gilk_arguments *gilk_came, const gilk_result_t *gilk_result,
	const struct gilk_kept_{n} *gilk_kept, const struct gilk_words_{n} *gilk_words,
	struct gilk_bound_{met.name} *gilk_bound, gilk_u64 gilk_position)
{{
(void)gilk_came, (void)gilk_result, (void)gilk_kept, (void)gilk_words, (void)gilk_bound, (void)gilk_position;
{is_member(met)}{kept}{ways}return 0;
}}
"""


def _way(met: MetElement, one: MetAlternative, source: Source) -> str:
    names = names_of(met)
    steps = "".join(f"{line}\n" for step in one.checked.steps for line in _step(met, one, step, names, source))
    has = "gilk_kept->gilk_has" if met.number else "0"  # an alternative that has failed leaves no marks behind
    begin = f"gilk_bound->gilk_has = {has};\n" if uncertain(met.aspect) else ""
    asks = f"{_caller(one)}{_around(one)}{found_on_stack(met, one)}{_reaching(one, names)}"
    end = f"if (!gilk_readable()) break;\n{verified(met, one)}return 1;\n}} while (0);\n"
    return f"do {{\n(void)gilk_readable();\n{begin}{asks}{steps}{end}"


def _reaching(one: MetAlternative, names: Symbols) -> str:
    if one.alias is None:
        return ""
    return f"""\
long gilk_offset = (long)(gilk_came->address - (gilk_u64){names[one.alias.address]});
(void)gilk_offset;
if (!gilk_reaches(gilk_offset, gilk_came->size, {length_of(one.alias, names)})) break;
"""


def _caller(one: MetAlternative) -> str:
    among = " || ".join(f"gilk_is_among({at}UL, gilk_caller)" for at in one.callers)
    return f"if (!({among})) break;\n" if among else ""


def _around(one: MetAlternative) -> str:
    """C that finds the innermost fitting calls of the outer functions: ``gilk_outer_N``, outermost first."""
    if not one.outer:
        return ""
    own = "0" if one.frameless else "gilk_own_call()"
    parts = [f"const struct gilk_activation_head *gilk_around = {own}, *gilk_inner = gilk_around;\n"]
    for number, functions in reversed(list(enumerate(one.outer))):
        newest = one.frameless and number == len(one.outer) - 1
        parts.append(f"gilk_around = {'gilk_newest_call()' if newest else 'gilk_call_around(gilk_around)'};\n")
        if not one.strict:
            outside = f"gilk_around && !({_is_one_of(functions)})"
            parts.append(f"while ({outside}) gilk_around = gilk_call_around(gilk_around);\n")
        parts.append(f"if (!gilk_around || !({_is_one_of(functions)}{_calls_itself(one, functions, newest)})) break;\n")
        parts.append(f"const struct gilk_frame *gilk_outer_{number} = gilk_around->frame;\n")
        parts.append(f"gilk_inner = gilk_around;\n(void)gilk_inner, (void)gilk_outer_{number};\n")
    return "".join(parts)


def _is_one_of(functions: Sequence[OuterFunction]) -> str:
    return " || ".join(f"gilk_around->frame->number == {one.number}" for one in functions) or "0"


def _calls_itself(one: MetAlternative, functions: Sequence[OuterFunction], frameless: bool) -> str:
    """A test for a strict control flow: the inner call returns into the code of the outer function, or, if the event is
    ``frameless``, that code makes the access, or has the copy.
    """
    if not one.strict:
        return ""
    where = "gilk_own_pc()" if frameless else "gilk_inner->caller"
    return " && (" + " || ".join(f"gilk_is_among({each.code}UL, {where})" for each in functions) + ")"


def names_of(met: MetElement) -> Symbols:
    """The C for each name that the element's own C uses: members of the names that the match has bound, and of the
    words.
    """
    words = {one.name: f"gilk_words->{one.name}" for one in met.aspect.checked.words}
    return words | {name: f"gilk_bound->{name}" for name in seen_symbols(met.aspect, met.number)}


def _step(met: MetElement, one: MetAlternative, step: CheckedStep, names: Symbols, source: Source) -> Iterator[str]:
    if isinstance(step, CheckedDemand):
        yield line(source, step.condition.span)
        yield f"if (!({renamed(step.condition.text, names)})) break;"
        return
    if step.expression is not None:
        yield line(source, step.expression.span)
    yield from _bind(met, step, _value(one, step, names))


def _value(one: MetAlternative, step: CheckedBinding, names: Symbols) -> str:
    if step.expression is not None:
        return renamed(step.expression.text, names)
    if step.source is BindingSource.RETURN:
        return "*gilk_result"
    if step.source is not BindingSource.ARGUMENT:
        return _of_alias(one.alias, step) if one.alias is not None else f"gilk_came->{step.source}"
    if step.function == len(outer_of(one.checked.point)):
        return f"gilk_came->argument_{step.number}"
    struct = f"struct gilk_arguments_{one.outer[step.function][0].number}"
    return f"((const {struct} *)gilk_outer_{step.function}->arguments)->argument_{step.number}"


def _of_alias(alias: CheckedAlias, step: CheckedBinding) -> str:
    if step.source is BindingSource.OFFSET:
        return "gilk_offset"
    if step.source is BindingSource.SIZE:
        return "gilk_came->size"
    typed = f"{declared(value_of(alias), 'gilk_typed')}; gilk_move(&gilk_typed, &gilk_came->{step.source}"
    return f"({{ {typed}, sizeof gilk_typed); gilk_typed; }})"


def _bind(met: MetElement, step: CheckedBinding, value: str) -> Iterator[str]:
    """C that binds a name, or tests it if it is bound already, in the type in which it was bound first. For ``until``,
    the position of the instance tells whether the name is bound; for names that only some alternatives bind, a bit of
    the instance does.
    """
    to = f"gilk_bound->{step.name}"
    first = first_binders(met.aspect).get(step.name)
    if step.expression is None and is_pointer(first[2].type if first is not None else step.type):
        value = f"(__typeof__({to}))({value})"  # another element may bind it as a pointer to another type
    lacking = uncertain(met.aspect)
    if not step.test and first is not None and step.name in lacking:
        bit = f"{1 << lacking.index(step.name)}UL"
        assign = f"{_assign(to, first[2].type, value)} gilk_bound->gilk_has |= {bit};"
        yield f"if (!(gilk_bound->gilk_has & {bit})) {{ {assign} }} else"
        yield from _tested(met, step, to, value)
        return
    maybe = not step.test and met.is_until and first is not None
    if not step.test and not maybe:
        yield _assign(to, step.type, value)
        return
    if maybe and first is not None:
        yield f"if (gilk_position <= {first[0]}) {_assign(to, first[2].type, value)}\nelse"
    yield from _tested(met, step, to, value)


def _tested(met: MetElement, step: CheckedBinding, to: str, value: str) -> Iterator[str]:
    """A block that breaks off unless the value equals the bound one."""
    first = first_binders(met.aspect).get(step.name)
    kind = first[2].type if first is not None else step.type
    kept = kept_symbols(met.aspect).get(step.name)
    type_ = f"__typeof__({kept})" if kept is not None else f"__typeof__({to})"
    yield f"{{ {type_} gilk_new; {_assign('gilk_new', kind, value)}"
    yield f"if (gilk_unequal(gilk_new, {to})) break; }}"


def _assign(to: str, type_: CheckedType, value: str) -> str:
    if not is_array(type_):
        return f"{to} = ({value});"
    if is_text(type_):
        return f"gilk_copy_text((char *){to}, (const char *)({value}), sizeof {to});"
    return f"gilk_copy({to}, {value}, sizeof {to});"


def line(source: Source, span: Span) -> str:
    """A #line directive, so that the compiler's messages name the line of the aspect."""
    name = source.name.replace("\\", "\\\\").replace('"', '\\"')
    return f'\n#line {source.line(span)} "{name}"'


def process_text(file: CheckedFile) -> str:
    """The C of the file that is for processes alone, each part behind a #line directive."""
    return "".join(f"{line(file.source, code.span)}\n{code.text}\n" for code in file.process_c)
