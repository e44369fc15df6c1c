# SPDX-License-Identifier: LGPL-2.1-or-later
"""The stability of the names in a piece of a program, and whether it is enough (-x amin)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from gilk.lang.d import ast
from gilk.lang.d.depth import children
from gilk.lang.d.meaning.pragmas import Pragmas
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.stability import NAMES, OWN, USUAL, Attributes, ProviderAttributes
from gilk.lang.syntax.source import Rejected
from gilk.lang.types import basic
from gilk.values import dataclass

#: Variables that are as stable as the provider of the probe states.
_OF_PROBES = {
    "probeprov": "provider", "probemod": "module", "probefunc": "function", "probename": "name", "args": "args"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reliance:
    """The finder of stability. ``inlines``: the attributes of each inline. ``least``: the option amin. ``probe``: the
    attributes of the provider of the current probe.
    """

    scope: Scope
    pragmas: Pragmas
    inlines: Mapping[str, Attributes]
    least: Attributes | None = None
    probe: ProviderAttributes | None = None

    def of(self, node: ast.Node) -> Attributes:
        """The lowest attributes of all names in a node. Raises Rejected if one is below ``least``."""
        found = self._own(node)
        if self.least is not None and found.below(self.least):
            what = f"attributes for {_named(node)} ({found}) are less than predefined minimum"
            raise Rejected(Tag.D_ATTR_MIN, node.span, what)
        return reduce(Attributes.lowest, map(self.of, children(node)), found)

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
        if name in self.inlines:
            return self.inlines[name]
        if name in _OF_PROBES and self.probe is not None:
            found: Attributes = getattr(self.probe, _OF_PROBES[name])
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
