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
from gilk.lang.aspect.ctypes import in_kernel, size_in_bytes
from gilk.lang.aspect.meaning.findings import Findings
from gilk.lang.aspect.tags import AspectTag
from gilk.lang.syntax.source import Span
from gilk.values import dataclass


def run(file: CheckedFile, findings: Findings) -> CheckedFile:
    tables = {one.name: one for one in file.tables}
    for aspect in file.aspects:
        for one in _bound(aspect):
            for element in (*aspect.elements, *aspect.until):
                elsewhere = any(element.is_on(not side) for side in one.sides)
                if elsewhere and one.name in _names(element) and not _its_own(element, one.name):
                    _compare(one, findings)
        for element in aspect.elements:
            if element.kernel:
                _tables(element, tables, findings)
    return file


@dataclass(frozen=True, slots=True)
class _Shared:
    """A value with its type as ``kernel`` means it, or processes. ``sides``: whether it is bound in the kernel, or in
    processes; both if an element is on both sides.
    """

    name: str
    type: CheckedType
    kernel: bool
    sides: tuple[bool, ...]
    span: Span

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        """Its sizes in bytes in processes and in the kernel; None if it is not known, or if the kernel has no such
        type.
        """
        if self.kernel:
            return size_in_bytes(self.type.type) if self.type.type is not None else None, self.type.size
        return self.type.size, in_kernel(self.type)


def _bound(aspect: CheckedAspect) -> Iterator[_Shared]:
    """Each word, and each name that an element binds."""
    for word in aspect.words:
        yield _Shared(word.name, word.type, False, (False,), word.span)
    for element in aspect.elements:
        for alternative in element.alternatives if not element.repeated else ():
            for step in alternative.steps:
                if isinstance(step, CheckedBinding) and not step.test:
                    sides = tuple(side for side in (False, True) if element.is_on(side))
                    yield _Shared(step.name, step.type, element.kernel, sides, step.span)


def _names(element: CheckedElement) -> set[str]:
    found = set(element.advice.body.names) if element.advice is not None else set()
    return found.union(*(alternative.step_names for alternative in element.alternatives))


def _its_own(element: CheckedElement, name: str) -> bool:
    """Whether the element itself binds ``name`` to another value."""
    steps = (one for each in element.alternatives for one in each.steps)
    return any(isinstance(one, CheckedBinding) and one.name == name and not one.test for one in steps)


def _compare(one: _Shared, findings: Findings) -> None:
    outside, inside = one.sizes
    if False not in one.sides or outside is None or inside == outside:
        return
    why = f"{one.name} is {one.type.text}, of {outside} bytes"
    why += ", and the kernel has no such type" if inside is None else f", and that has {inside} in the kernel"
    findings.say(AspectTag.A_PLACE, one.span, why, f"bind(unsigned long {one.name}, ...) has one size in both")


def _tables(element: CheckedElement, tables: dict[str, CheckedTable], findings: Findings) -> None:
    """Check the keys of tables to which advice in the kernel adds."""
    if element.advice is None:
        return
    for _, given in cnames.calls(element.advice.body.text, "add"):
        table = tables.get(given[0]) if given else None
        for key in table.key if table is not None else ():
            _compare(_Shared(f"a key of {given[0]}", key, False, (False,), element.advice.body.span), findings)
