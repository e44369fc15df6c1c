# SPDX-License-Identifier: LGPL-2.1-or-later
"""A file of aspects whose elements in the kernel have confined C (confined.py) in the place of the user's."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
)
from gilk.lang.aspect.code.types import is_array, is_text
from gilk.lang.aspect.kernel.confined import Confined, ConfinedC
from gilk.lang.syntax.source import Span

_INCLUDE = re.compile(r"\s*#\s*include\s*<((?:linux|asm|uapi|net|asm-generic)/[\w./+-]+)>\s*")
_DEFINE = re.compile(r"\s*#\s*define\s+([A-Za-z_]\w*)(?:\(([\w\s,]*)\))?\s+(.*\S)\s*")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


class NotForKernel(Exception):
    """Something that an element in the kernel has cannot be there."""

    def __init__(self, span: Span, why: str, hint: str) -> None:
        super().__init__(why)
        self.span, self.why, self.hint = span, why, hint


class KernelC:
    """The C of ``%K{ %}``: headers of the kernel, and macros that are confined expressions. Raises NotForKernel."""

    def __init__(self, file: CheckedFile) -> None:
        self.macros: dict[str, int | None] = {}
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
            confined = ConfinedC(parameters or (), (), self.macros).value(body)
        except Confined as error:
            raise NotForKernel(span, f"macro {name}: {error.why}", _HINT) from None
        head = name if parameters is None else f"{name}({', '.join(parameters)})"
        self.macros[name] = None if parameters is None else len(parameters)
        self.lines.append(f"#define {head} ({confined})")


_HINT = "docs/aspect/kernel.md has what the kernel's part may do"


def confined(file: CheckedFile) -> CheckedFile:
    """The file with confined C in all elements of the kernel. Raises NotForKernel."""
    macros = KernelC(file).macros
    return replace(file, aspects=tuple(_aspect(one, macros) for one in file.aspects))


def _aspect(aspect: CheckedAspect, macros: dict[str, int | None]) -> CheckedAspect:
    words = tuple(one.name for one in aspect.words)
    kept = [one.name for one in aspect.kept]

    def element(one: CheckedElement) -> CheckedElement:
        if not one.kernel:
            return one
        names = {*words, *kept, *_bound(one)}
        c = ConfinedC(names, words, macros)
        advice = None if one.advice is None else _advice(one.advice, c)
        return replace(one, alternatives=tuple(_alternative(each, c) for each in one.alternatives), advice=advice)

    elements, until = tuple(map(element, aspect.elements)), tuple(map(element, aspect.until))
    first = aspect.elements[0]
    initial = ConfinedC({*kept, *_bound(first)}, (), macros)
    if first.kernel:
        given = tuple(
            one if one.initial is None else replace(one, initial=_c(one.initial, initial.value(one.initial.text)))
            for one in aspect.words
        )
        return replace(aspect, elements=elements, until=until, words=given)
    return replace(aspect, elements=elements, until=until)


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
            return step
        if not step.type.text and not step.test:
            raise Confined(f"{step.name} has no type")
        if is_array(step.type) and not is_text(step.type):
            raise Confined(f"{step.name} is an array of other things than characters")
        text = c.text(step.expression.text) if is_text(step.type) else c.value(step.expression.text)
        return replace(step, expression=_c(step.expression, text))
    except Confined as error:
        span = step.condition.span if isinstance(step, CheckedDemand) else step.span
        raise NotForKernel(span, error.why, _HINT) from None


def _advice(one: CheckedAdvice, c: ConfinedC) -> CheckedAdvice:
    if one.when == "inplace":
        raise NotForKernel(one.body.span, "no function of the kernel is replaced", "advice is before, or after")
    try:
        return replace(one, body=_c(one.body, c.advice(one.body.text)), block=True)
    except Confined as error:
        raise NotForKernel(one.body.span, error.why, _HINT) from None
