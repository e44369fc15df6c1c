# SPDX-License-Identifier: LGPL-2.1-or-later
"""The diagnostics that passes have found so far, and the forms of a file between passes."""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from gilk.lang.aspect import ast
from gilk.lang.aspect.checked import CheckedGroup
from gilk.lang.aspect.tags import WARNINGS, AspectTag
from gilk.lang.syntax.source import Diagnostic, Rejected, Span
from gilk.values import dataclass

PrimitiveTerm: TypeAlias = ast.CallPattern | ast.GlobalPattern | ast.AliasPattern | ast.FlowPattern


@dataclass(slots=True)
class Findings:
    """The diagnostics found so far. Passes go on after a mistake, so that all mistakes of a file are reported."""

    found: list[Diagnostic] = field(default_factory=list)

    def say(self, tag: AspectTag, span: Span, message: str, hint: str = "") -> None:
        one = Diagnostic(tag.value, span, message, hint)
        if one not in self.found:
            self.found.append(one)

    def take(self, error: Rejected) -> None:
        self.found.append(error.diagnostic)

    def tells(self, tag: AspectTag, span: Span) -> bool:
        """Whether a diagnostic with that tag was found at that place."""
        return any(one.tag == tag and one.span == span for one in self.found)

    def has_errors(self) -> bool:
        return bool(self.errors())

    def errors(self) -> tuple[Diagnostic, ...]:
        return self._sorted(warnings=False)

    def warnings(self) -> tuple[Diagnostic, ...]:
        return self._sorted(warnings=True)

    def _sorted(self, warnings: bool) -> tuple[Diagnostic, ...]:
        kind = {tag.value for tag in WARNINGS}
        found = (one for one in self.found if (one.tag in kind) == warnings)
        return tuple(sorted(found, key=lambda one: (one.span.start, one.span.end)))


@dataclass(frozen=True, slots=True, eq=False)
class PlainMatch:
    """One way to match, without pointcuts and ``||``."""

    span: Span
    term: PrimitiveTerm
    qualifiers: tuple[ast.Qualifier, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PlacedElement:
    """An element or an ``until`` with its place. ``item`` is as written. ``places``: its groups, resolved."""

    item: ast.ElementItem | ast.UntilItem
    places: tuple[str, ...]
    matches: tuple[PlainMatch, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NamedAspect:
    item: ast.AspectItem
    elements: tuple[PlacedElement, ...]
    until: tuple[PlacedElement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NamedFile:
    """A file in which every name of the language has been found."""

    written: ast.AspectFile
    groups: tuple[CheckedGroup, ...]
    tables: tuple[ast.TableItem, ...]
    aspects: tuple[NamedAspect, ...]
