# SPDX-License-Identifier: LGPL-2.1-or-later
"""Replaces the user's C in the kernel's elements of a file of aspects by confined C (confined.py)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gilk.lang.aspect.checked import (
    CheckedAdvice,
    CheckedAlternative,
    CheckedAspect,
    CheckedBinding,
    CheckedC,
    CheckedDemand,
    CheckedElement,
    CheckedFile,
    CheckedFunction,
    CheckedStep,
    CheckedType,
    CheckedWord,
)
from gilk.lang.aspect.code.types import is_array, is_text
from gilk.lang.aspect.kernel.confined import ConfinedC
from gilk.lang.aspect.kernel.foreign import Foreign
from gilk.lang.aspect.kernel.names import Confined, check_name, macro_name
from gilk.lang.syntax.source import Span

_INCLUDE = re.compile(r"\s*#\s*include\s*<((?:linux|asm|uapi|net|asm-generic)/[\w./+-]+)>\s*")
_DEFINE = re.compile(r"\s*#\s*define\s+([A-Za-z_]\w*)(?:\(([\w\s,]*)\))?\s+(.*\S)\s*")
_LOADS, _NAME = re.compile(r"\bgilk_(?!divide|remainder|macro_)"), re.compile(r"\w+")
#: The length of an array that may be more than a number or a constant: C evaluates such where functions have it.
_LENGTH = re.compile(r"\[(?!\s*(?:\d\w*|[A-Z][A-Z0-9_]*)?\s*\])")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


class NotForKernel(Exception):
    """An element in the kernel has something that it cannot have there."""

    def __init__(self, span: Span, why: str, hint: str) -> None:
        super().__init__(why)
        self.span, self.why, self.hint = span, why, hint


class KernelC:
    """The C of ``%K{ %}``: headers of the kernel, and macros that are confined expressions. Raises NotForKernel."""

    def __init__(self, file: CheckedFile) -> None:
        self.macros: dict[str, int | None] = {}
        self.loading: set[str] = set()  # macros that read memory
        self.headers: list[str] = []
        self.lines: list[str] = []
        for part in file.kernel_c:
            for text in _COMMENT.sub(" ", part.text.replace("\\\n", " ")).split("\n"):
                if text.strip():
                    self._take(text, part.span)

    def _take(self, text: str, span: Span) -> None:
        included, defined = _INCLUDE.fullmatch(text), _DEFINE.fullmatch(text)
        if included is not None and ".." not in included[1]:
            self.headers.append(included[1])
            return
        if defined is None:
            why = f"`{text.strip()[:60]}` is neither an #include <linux/...> nor a #define of an expression"
            raise NotForKernel(span, why, "the kernel's part has no functions and variables of its own")
        name, given, body = defined[1], defined[2], defined[3]
        parameters = [one.strip() for one in given.split(",") if one.strip()] if given is not None else None
        try:
            for one in parameters or ():
                check_name(one)
            confined = ConfinedC(parameters or (), (), self.macros).value(body)
        except Confined as error:
            raise NotForKernel(span, f"macro {name}: {error.why}", _HINT) from None
        head = macro_name(name) if parameters is None else f"{macro_name(name)}({', '.join(parameters)})"
        self.macros[name] = None if parameters is None else len(parameters)
        if _LOADS.search(confined) or {macro_name(one) for one in self.loading} & set(_NAME.findall(confined)):
            self.loading.add(name)
        self.lines.append(f"#define {head} ({confined})")


_HINT = "docs/aspect/kernel.md has what the kernel's part may do"


def confined(file: CheckedFile, shared: bool = False, replaces: bool = False) -> CheckedFile:
    """The file with confined C in all elements of the kernel. ``shared``: processes share the state, even if no element
    is in a process. ``replaces``: advice may stand in place of functions. Raises NotForKernel.
    """
    confining = _Confining(file, shared, replaces)
    if any(one.kernel for aspect in file.aspects for one in (*aspect.elements, *aspect.until)):
        for table in file.tables:
            _check_lengths(Span(0, 0), table.key)
    return replace(file, aspects=tuple(map(confining.aspect, file.aspects)))


class _Confining:
    """The confinement of one file. If the file also has elements in processes, its state is in memory that they may
    write.
    """

    def __init__(self, file: CheckedFile, shared: bool, replaces: bool) -> None:
        kernel = KernelC(file)
        self._replaces = replaces
        self._macros, self._loading = kernel.macros, frozenset(kernel.loading)
        every = (one for aspect in file.aspects for one in (*aspect.elements, *aspect.until))
        self._shared = shared or any(one.processes for one in every)
        self._text_keys = {one.name: tuple(map(is_array, one.key)) for one in file.tables}

    def aspect(self, aspect: CheckedAspect) -> CheckedAspect:
        _check_names(aspect)
        foreign = self._foreign(aspect)
        elements, until = (
            tuple(self._element(aspect, one, foreign) for one in several) for several in (aspect.elements, aspect.until)
        )
        first = aspect.elements[0]
        words = aspect.words
        if first.kernel:
            initial = ConfinedC({*(one.name for one in aspect.kept), *_bound(first)}, (), self._macros, foreign)
            for name in _bound(first):
                initial.bound(name, None)
            words = tuple(_word(one, initial) for one in aspect.words)
        return replace(aspect, elements=elements, until=until, words=words)

    def _foreign(self, aspect: CheckedAspect) -> Foreign:
        if not self._shared:
            return Foreign()
        kept = {one.name: one.type for one in aspect.kept}
        names = frozenset((*kept, *(one.name for one in aspect.words)))
        texts = frozenset(name for name, type_ in kept.items() if is_text(type_))
        return Foreign(names, texts, self._loading, self._text_keys)

    def _allowed(self, aspect: CheckedAspect, advice: CheckedAdvice) -> CheckedAdvice:
        if advice.when != "inplace":
            return advice
        if not self._replaces:
            why = "advice stands in place of a function of the kernel"
            raise NotForKernel(advice.body.span, why, "--allow-kernel-replace says that this is meant")
        if self._shared and len(aspect.elements) > 1:
            why = "processes may forge instances, and so have a function of the kernel replaced"
            raise NotForKernel(advice.body.span, why, "put the kernel's sequence into a file of its own")
        return advice

    def _element(self, aspect: CheckedAspect, one: CheckedElement, foreign: Foreign) -> CheckedElement:
        if not one.kernel:
            return one
        words = tuple(each.name for each in aspect.words)
        names = {*words, *(each.name for each in aspect.kept), *_bound(one)}
        ways, left = list[CheckedAlternative](), set[str]()
        for each in one.alternatives:
            c = ConfinedC(names, words, self._macros, foreign)
            ways.append(_alternative(each, c))
            left |= c.foreign
        c = ConfinedC(names, words, self._macros, replace(foreign, names=frozenset(left)))
        advice = None if one.advice is None else _advice(self._allowed(aspect, one.advice), c)
        return replace(one, alternatives=tuple(ways), advice=advice)


def _check_names(aspect: CheckedAspect) -> None:
    """Raises NotForKernel if the file declares a name that the C around fragments uses."""
    kernel = [one for one in (*aspect.elements, *aspect.until) if one.kernel]
    bound = (name for one in kernel for name in _bound(one))
    known = (*(one.name for one in aspect.words), *(one.name for one in aspect.kept))
    for name in (*bound, *(known if kernel else ())):
        try:
            check_name(name)
        except Confined as error:
            raise NotForKernel(aspect.span, error.why, "call it otherwise") from None
    for one in kernel:
        for each in one.alternatives:
            bindings = [step.type for step in each.steps if isinstance(step, CheckedBinding)]
            _check_lengths(one.span, (*bindings, *(getattr(each.point, "parameters", None) or ())))
    _check_lengths(aspect.span, [one.type for one in aspect.words] if kernel else ())


def _check_lengths(span: Span, types: Iterable[CheckedType]) -> None:
    """Raises NotForKernel if the length of an array in a declaration is not a constant."""
    for one in types:
        if _LENGTH.search(one.text):
            raise NotForKernel(span, f"`{one.text}`: the length of an array is no number", _HINT)


def _word(one: CheckedWord, initial: ConfinedC) -> CheckedWord:
    try:
        return one if one.initial is None else replace(one, initial=_c(one.initial, initial.value(one.initial.text)))
    except Confined as error:
        raise NotForKernel(one.span, error.why, _HINT) from None


def _bound(element: CheckedElement) -> Iterator[str]:
    for one in element.alternatives:
        yield from (step.name for step in one.steps if isinstance(step, CheckedBinding))


def _c(one: CheckedC, text: str) -> CheckedC:
    return replace(one, text=text)


def _alternative(one: CheckedAlternative, c: ConfinedC) -> CheckedAlternative:
    if not isinstance(one.point, CheckedFunction):
        why = "in the kernel, elements match calls alone"
        raise NotForKernel(one.span, why, "leave out accesses and control flows")
    if one.callers or one.within:
        raise NotForKernel(one.span, "`from` and `in` are not for the kernel", "leave them out")
    return replace(one, steps=tuple(_step(step, c) for step in one.steps))


def _step(step: CheckedStep, c: ConfinedC) -> CheckedStep:
    try:
        if isinstance(step, CheckedDemand):
            return CheckedDemand(_c(step.condition, f"gilk_holds({c.value(step.condition.text)})"))
        if step.expression is None:
            c.bound(step.name, None)
            return step
        if not step.type.text and not step.test:
            raise Confined(f"{step.name} has no type")
        if is_array(step.type) and not is_text(step.type):
            raise Confined(f"{step.name} is an array of other things than characters")
        text = c.text(step.expression.text) if is_text(step.type) else c.value(step.expression.text)
        c.bound(step.name, step.expression.text)
        return replace(step, expression=_c(step.expression, text))
    except Confined as error:
        span = step.condition.span if isinstance(step, CheckedDemand) else step.span
        raise NotForKernel(span, error.why, _HINT) from None


def _advice(one: CheckedAdvice, c: ConfinedC) -> CheckedAdvice:
    try:
        return replace(one, body=_c(one.body, c.advice(one.body.text, one.when == "inplace")), block=True)
    except Confined as error:
        raise NotForKernel(one.body.span, error.why, _HINT) from None
