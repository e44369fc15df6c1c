# SPDX-License-Identifier: LGPL-2.1-or-later
"""The names that have values where a match or advice stands, and their types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from gilk.lang.aspect import ast, cnames
from gilk.lang.aspect.checked import CheckedC, CheckedType
from gilk.lang.aspect.ctypes import alike
from gilk.lang.aspect.meaning.findings import Findings
from gilk.lang.aspect.tags import AspectTag
from gilk.lang.syntax.source import Span
from gilk.values import dataclass


@dataclass(slots=True)
class AspectScope:
    """The names at one place. ``known``: the names that earlier elements have bound, and words. ``bound``: the names
    that this match has bound so far. ``elsewhere``: names of the aspect that have no value here, each with the reason.
    ``walk``: control flows are looked for on the stack, which does not have arguments.
    """

    findings: Findings
    known: Mapping[str, CheckedType]
    elsewhere: Mapping[str, str]
    kernel: bool = False
    walk: bool = False
    bound: dict[str, CheckedType] = field(default_factory=dict)

    def bind(self, name: str, type_: CheckedType, span: Span) -> bool:
        """Bind a name; return whether it has a value already, so that the binding is a test."""
        before = self.bound.get(name, self.known.get(name))
        if before is None:
            self.bound[name] = type_
            return False
        if not alike(before, type_):
            why = f"{name} was bound as {_shown(before)}, and cannot equal {_shown(type_)}"
            self.findings.say(AspectTag.A_TYPE, span, why, "a name bound again is a test: give one of the two another")
        return True

    def typed(self, name: str) -> CheckedType | None:
        return self.bound.get(name, self.known.get(name))

    def c(self, given: ast.CText, declares: bool = False) -> CheckedC:
        """A fragment with its names. ``declares``: it is a block, which may have variables of its own."""
        names = cnames.names(given.text)
        for name in names:
            if self.typed(name) is None and name in self.elsewhere:
                if not (declares and cnames.declares(given.text, name)):
                    self.unbound(name, _first(given, name))
        return CheckedC(given.text, given.span, names)

    def unbound(self, name: str, span: Span) -> None:
        why = self.elsewhere.get(name, "nothing binds it")
        self.findings.say(AspectTag.A_UNBOUND, span, f"{name} has no value here: {why}")


def _shown(type_: CheckedType) -> str:
    return type_.text or "what its expression gives"


def _first(given: ast.CText, name: str) -> Span:
    """The place of the first appearance of ``name``; the whole fragment if a pointcut has renamed names in it."""
    at = cnames.place(given.text, name)
    if at is None or len(given.text) != given.span.end - given.span.start:
        return given.span
    return Span(given.span.start + at, given.span.start + at + len(name))
