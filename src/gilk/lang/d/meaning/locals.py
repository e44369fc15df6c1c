# SPDX-License-Identifier: LGPL-2.1-or-later
"""``local`k``: variable ``k`` of the function in which the probe lies, and ``local`f`k``, that of function ``f``, which
is inlined there.
"""

from __future__ import annotations

from gilk.lang import ir
from gilk.lang.d import ast, tree
from gilk.lang.d.meaning import constants, operands
from gilk.lang.d.meaning.declarations import Declarations
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.meaning.world import LocalVariable
from gilk.lang.syntax.source import Rejected
from gilk.lang.types import INT64, UINT64, Type, is_scalar, text

MODULE = "local"


class Locals:
    def __init__(self, scope: Scope, declarations: Declarations) -> None:
        self._scope = scope
        self._declarations = declarations
        self._probes: tuple[str, ...] = ()

    def begin(self, probes: tuple[str, ...]) -> None:
        """Begin a clause at these probes; () outside of clauses."""
        self._probes = probes

    def means(self, symbol: ast.Symbol) -> bool:
        """Whether the symbol is a variable of a function."""
        return symbol.module.partition("`")[0] == MODULE

    def variable(self, symbol: ast.Symbol) -> ir.Expression:
        """The expression for a variable. Raises Rejected."""
        function, name = symbol.module.partition("`")[2], symbol.name
        if self._scope.world.in_kernel:
            what = f"{_shown(symbol)}: variables of functions can be had in processes alone, by programs about these"
            raise Rejected(Tag.D_KERNEL, symbol.span, what)
        if not self._probes:
            what = f"{_shown(symbol)} has no meaning outside of a clause"
            raise Rejected(Tag.D_LOCAL_UNDEF, symbol.span, what)
        found = [self._scope.world.local(probe, function, name) for probe in self._probes]
        known = [each for each in found if each is not None]
        if not known:  # there are no such probes yet
            return ir.Convert(INT64, self._numbered(symbol, False))
        type_ = self._type(symbol, known)
        return self._value(symbol, type_, any(each.in_memory for each in known), any(each.is_value for each in known))

    def _type(self, symbol: ast.Symbol, known: list[LocalVariable]) -> Type:
        types = list(dict.fromkeys(type_ for each in known for type_ in each.types))
        if not types:
            lost = next((each for each in known if each.declared), known[0])
            tag = Tag.D_LOCAL_LOST if lost.declared else Tag.D_LOCAL_UNDEF
            more = f"; {lost.hint}" if lost.hint else ""
            raise Rejected(tag, symbol.span, f"{_shown(symbol)} cannot be had: {lost.why}{more}")
        if len(types) > 1:
            what = f"{_shown(symbol)} is {text(types[0])} at one of the clause's probes, {text(types[1])} at another"
            raise Rejected(Tag.D_LOCAL_MULTI, symbol.span, what, "give each its own clause")
        return self._declarations.complete(types[0])

    def _value(self, symbol: ast.Symbol, type_: Type, in_memory: bool, is_value: bool) -> ir.Expression:
        """The variable where it lies in memory, at all probes or at some, and where its value is known otherwise."""
        there = operands.at(type_, self._numbered(symbol, True)) if in_memory or not is_scalar(type_) else None
        if there is not None and (not is_value or not is_scalar(type_)):
            return there
        value = constants.convert(type_, self._numbered(symbol, False))
        if there is None:
            return value
        return ir.Conditional(type_, self._numbered(symbol, True), there, value)

    def _numbered(self, symbol: ast.Symbol, address: bool) -> ir.Local:
        local = tree.NamedLocal(symbol.name, symbol.module.partition("`")[2], address)
        if local not in self._scope.locals:
            self._scope.locals.append(local)
        return ir.Local(UINT64, self._scope.locals.index(local))


def _shown(symbol: ast.Symbol) -> str:
    return f"{symbol.module}`{symbol.name}"
