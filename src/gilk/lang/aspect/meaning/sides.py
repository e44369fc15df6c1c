# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pass that checks that values shared by processes and the kernel have the same size in both."""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.aspect import cnames
from gilk.lang.aspect.checked import (
    CheckedAspect,
    CheckedBinding,
    CheckedElement,
    CheckedFile,
    CheckedTable,
    CheckedType,
)
from gilk.lang.aspect.ctypes import in_kernel
from gilk.lang.aspect.meaning.findings import Findings
from gilk.lang.aspect.tags import AspectTag
from gilk.lang.syntax.source import Span


def run(file: CheckedFile, findings: Findings) -> CheckedFile:
    tables = {one.name: one for one in file.tables}
    for aspect in file.aspects:
        for name, type_, kernel, span in _bound(aspect):
            for element in (*aspect.elements, *aspect.until):
                if _on_both(element, kernel) and name in _names(element) and not _its_own(element, name):
                    _compare(name, type_, kernel, span, findings)
        for element in aspect.elements:
            if element.kernel:
                _tables(element, tables, findings)
    return file


def _bound(aspect: CheckedAspect) -> Iterator[tuple[str, CheckedType, bool, Span]]:
    """(name, type, whether bound in the kernel, place) of each word and of each name that an element binds."""
    for word in aspect.words:
        yield word.name, word.type, False, word.span
    for element in aspect.elements:
        for alternative in element.alternatives if not element.repeated else ():
            for step in alternative.steps:
                if isinstance(step, CheckedBinding) and not step.test:
                    yield step.name, step.type, element.kernel, step.span


def _on_both(element: CheckedElement, kernel: bool) -> bool:
    return element.kernel is not kernel


def _names(element: CheckedElement) -> set[str]:
    found = set(element.advice.body.names) if element.advice is not None else set()
    return found.union(*(alternative.step_names for alternative in element.alternatives))


def _its_own(element: CheckedElement, name: str) -> bool:
    """Whether the element itself binds ``name`` to another value."""
    steps = (one for each in element.alternatives for one in each.steps)
    return any(isinstance(one, CheckedBinding) and one.name == name and not one.test for one in steps)


def _compare(name: str, type_: CheckedType, kernel: bool, span: Span, findings: Findings) -> None:
    inside = in_kernel(type_)
    if kernel or type_.size is None or inside == type_.size:
        return
    why = f"{name} is {type_.text}, of {type_.size} bytes"
    why += ", and the kernel has no such type" if inside is None else f", and that has {inside} in the kernel"
    findings.say(AspectTag.A_PLACE, span, why, f"bind(unsigned long {name}, ...) has one size in both")


def _tables(element: CheckedElement, tables: dict[str, CheckedTable], findings: Findings) -> None:
    """Check the keys of tables to which advice in the kernel adds."""
    if element.advice is None:
        return
    for _, given in cnames.calls(element.advice.body.text, "add"):
        table = tables.get(given[0]) if given else None
        for key in table.key if table is not None else ():
            _compare(f"a key of {given[0]}", key, False, element.advice.body.span, findings)
