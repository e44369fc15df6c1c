# SPDX-License-Identifier: LGPL-2.1-or-later
"""The types of bound names, as C. Each name has an external declaration that is never defined, and everything of the
same type uses ``__typeof__`` of it. So the compiler finds the types of expressions, and each type is written once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gilk.lang.aspect.checked import CheckedBinding, CheckedElement, CheckedType
from gilk.lang.aspect.cnames import renamed
from gilk.lang.aspect.code.meeting import NumberedAspect, Symbols, first_binders, uncertain
from gilk.lang.aspect.code.sides import declared_there, is_own, layout_checks

_ARRAY = re.compile(r"\[[^\]]*\]\s*$")
_QUALIFIER = re.compile(r"\b(?:const|volatile|restrict)\b")


def declared(type_: CheckedType, name: str) -> str:
    """A declaration of ``name`` as a variable of that type which may be written."""
    return f"{_whole(type_)} {name}"


def parameter(type_: CheckedType, name: str) -> str:
    """A declaration of ``name`` as a parameter of that type; C makes an array a pointer to its first element."""
    if _ARRAY.search(type_.text):
        return f"__typeof__(&(*({_whole(type_)} *)0)[0]) {name}"
    return declared(type_, name)


def _whole(type_: CheckedType) -> str:
    """The type without qualifiers of the value itself, which is a copy: ``long`` for ``const long``, ``T *`` for
    ``T *const``.
    """
    inner, star, outer = type_.text.rpartition("*")
    if "(" in type_.text:
        return f"__typeof__({type_.text})"
    return f"__typeof__({inner}{star}{_QUALIFIER.sub('', outer)})"


def is_array(type_: CheckedType) -> bool:
    return _ARRAY.search(type_.text) is not None


def is_pointer(type_: CheckedType) -> bool:
    """Whether the type is written as a pointer."""
    return type_.text.endswith("*")


def is_text(type_: CheckedType) -> bool:
    """Whether the type is an array of characters; such names are bound up to the NUL."""
    words = type_.text.split("[")[0].replace("unsigned", "").replace("signed", "").replace("const", "")
    return is_array(type_) and words.strip() == "char"


def symbol(aspect: NumberedAspect, element: int, alternative: int, name: str) -> str:
    return f"gilk_type_{aspect.number}_{element}_{alternative}_{name}"


def kept_symbols(aspect: NumberedAspect) -> Symbols:
    """The C symbol with the type of each name that instances keep, and of each word."""
    found = {name: symbol(aspect, e, a, name) for name, (e, a, _) in first_binders(aspect).items()}
    return found | {word.name: f"gilk_type_{aspect.number}_{word.name}" for word in aspect.checked.words}


def externals(aspect: NumberedAspect, kernel: bool | None = None) -> Iterator[str]:
    """Declarations of all names that the aspect's elements bind: those of one side, and the kept names of the other
    side.
    """
    kept = kept_symbols(aspect)
    for word in aspect.checked.words:
        yield f"extern {declared(word.type, kept[word.name])};"
    for name, (number, _, step) in first_binders(aspect).items():
        if not is_own(aspect.elements[number], kernel):
            yield f"extern {declared_there(step.type, kept[name])};"
    for number, element in enumerate(aspect.elements):
        if is_own(element, kernel):
            for which, _ in enumerate(element.alternatives):
                yield from _of_alternative(aspect, number, which, kept)


def _of_alternative(aspect: NumberedAspect, number: int, which: int, kept: Symbols) -> Iterator[str]:
    names = dict(kept)
    for step in aspect.elements[number].alternatives[which].steps:
        if isinstance(step, CheckedBinding) and not step.test:
            own = symbol(aspect, number, which, step.name)
            yield f"extern {_type_of(step, names)} {own};"
            names[step.name] = own


def _type_of(step: CheckedBinding, names: Symbols) -> str:
    if step.type.text or step.expression is None:
        return _whole(step.type)
    return f"__typeof__({renamed(step.expression.text, names)})"


def seen_symbols(aspect: NumberedAspect, number: int) -> Symbols:
    """The names that advice and conditions of an element can use: those that instances keep, and those that
    it binds.
    """
    found = kept_symbols(aspect) if number else {}
    for which, alternative in enumerate(aspect.elements[number].alternatives):
        for step in alternative.steps:
            if isinstance(step, CheckedBinding) and not step.test:
                found.setdefault(step.name, symbol(aspect, number, which, step.name))
    return {name: of for name, of in found.items() if name not in {one.name for one in aspect.checked.words}}


def binds(element: CheckedElement) -> tuple[str, ...]:
    """The names that some alternative of the element binds anew."""
    steps = (step for one in element.alternatives for step in one.steps)
    return tuple(dict.fromkeys(one.name for one in steps if isinstance(one, CheckedBinding) and not one.test))


def structs(aspect: NumberedAspect, kernel: bool | None = None) -> Iterator[str]:
    """Structs for the words and names that an instance keeps, and for the names of a match of each element."""
    kept = kept_symbols(aspect)
    words = {one.name for one in aspect.checked.words}
    yield _struct(f"gilk_words_{aspect.number}", {name: kept[name] for name in words})
    has = "gilk_u64 gilk_has; " if uncertain(aspect) else ""
    yield _struct(f"gilk_kept_{aspect.number}", {name: of for name, of in kept.items() if name not in words}, has)
    yield (
        f"struct gilk_record_{aspect.number} {{ struct gilk_words_{aspect.number} words;"
        f" struct gilk_kept_{aspect.number} kept; }};"
    )
    yield f'_Static_assert(sizeof(struct gilk_record_{aspect.number}) <= GILK_RECORD, "an instance keeps too much");'
    yield from layout_checks(aspect)
    for number, element in enumerate(aspect.elements):
        if is_own(element, kernel):
            yield _struct(f"gilk_bound_{aspect.number}_{number}", seen_symbols(aspect, number), has)


def _struct(name: str, fields: Symbols, more: str = "") -> str:
    return f"struct {name} {{ {more}{''.join(f'__typeof__({of}) {field}; ' for field, of in fields.items())}}};"
