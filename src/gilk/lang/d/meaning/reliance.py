# SPDX-License-Identifier: LGPL-2.1-or-later
"""How far one may rely on what a clause uses, and whether that is far enough (-x amin)."""

from __future__ import annotations

from dataclasses import field
from functools import reduce

from gilk.lang.d import ast, items
from gilk.lang.d.depth import children
from gilk.lang.d.meaning.pragmas import Pragmas
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.probes import described
from gilk.lang.d.stability import NAMES, OWN, USUAL, Attributes, ProviderAttributes, of_provider
from gilk.lang.syntax.source import Rejected
from gilk.lang.types import basic
from gilk.values import dataclass

#: Variables that are as reliable as what the probe's provider says of itself.
_OF_PROBES = {
    "probeprov": "provider", "probemod": "module", "probefunc": "function", "probename": "name", "args": "args"
}  # fmt: skip


@dataclass
class Reliance:
    """``least``: the option amin, if it was given."""

    scope: Scope
    pragmas: Pragmas
    least: Attributes | None = None
    _inlines: dict[str, Attributes] = field(default_factory=dict)
    _probe: ProviderAttributes | None = None

    def inline(self, item: items.Inline) -> None:
        """It is as reliable as its definition, unless a pragma says otherwise. Raises Rejected."""
        self._probe = None
        self._inlines[item.declarator.name or ""] = self._of(item.value)

    def clause(self, clause: items.Clause) -> Attributes:
        """The lowest of all that it uses, at any of its probes. Raises Rejected."""
        found = USUAL
        for probe in clause.probes:
            self._probe = of_provider(described(probe.text).provider, self.pragmas.providers)
            parts = (each for each in (clause.predicate, clause.body) if each is not None)
            found = reduce(Attributes.lowest, map(self._of, parts), found)
        return found

    def _of(self, node: ast.Node) -> Attributes:
        found = self._own(node)
        if self.least is not None and found.below(self.least):
            what = f"attributes for {_named(node)} ({found}) are less than predefined minimum"
            raise Rejected(Tag.D_ATTR_MIN, node.span, what)
        return reduce(Attributes.lowest, map(self._of, children(node)), found)

    def _own(self, node: ast.Node) -> Attributes:
        match node:
            case ast.Name(name=name):
                return self._name(name)
            case ast.Call(name=name):
                return NAMES.get(name, USUAL)
            case ast.Symbol():
                return OWN
            case ast.BasicType(words=words) if len(words) == 1 and words[0] not in self.scope.typedefs:
                return USUAL if basic(words) else OWN
            case ast.TagType(kind=kind, tag=tag) if f"{kind} {tag}" not in self.scope.tags:
                return OWN
        return USUAL

    def _name(self, name: str) -> Attributes:
        if name in self.pragmas.stable:
            return self.pragmas.stable[name]
        if name in self._inlines:
            return self._inlines[name]
        if name in _OF_PROBES and self._probe is not None:
            found: Attributes = getattr(self._probe, _OF_PROBES[name])
            return found
        return NAMES.get(name, USUAL)


def _named(node: ast.Node) -> str:
    match node:
        case ast.Name(name=name):
            return name
        case ast.Call(name=name):
            return f"{name}( )"
        case ast.Symbol(module=module, name=name):
            return f"{module}`{name}"
        case ast.BasicType(words=words):
            return " ".join(words)
        case ast.TagType(kind=kind, tag=tag):
            return f"{kind} {tag}"
    return "an expression"
