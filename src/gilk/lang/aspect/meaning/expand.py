# SPDX-License-Identifier: LGPL-2.1-or-later
"""The expansion of matches: pointcuts are replaced by their matches, with the names of their uses, and ``||`` by
alternatives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from gilk.lang.aspect import ast, cnames
from gilk.lang.aspect.meaning.findings import PlainMatch
from gilk.lang.aspect.tags import AspectTag
from gilk.lang.syntax.source import Rejected

#: The number of ways in which one element may match.
_MOST = 256
_Pointcuts = Mapping[str, ast.PointcutItem]


def plain_matches(match: ast.Match, pointcuts: _Pointcuts) -> tuple[PlainMatch, ...]:
    """The ways in which ``match`` can match, in the order in which they are tried. Raises Rejected."""
    found = list[PlainMatch]()
    for one in _plain(match, pointcuts, ()):
        found.append(one)
        if len(found) > _MOST:
            why = f"there are more than {_MOST} ways in which this can match"
            raise Rejected(AspectTag.A_SYNTAX, match.span, why, "make several aspects of it")
    return tuple(found)


def _plain(match: ast.Match, pointcuts: _Pointcuts, within: tuple[str, ...]) -> Iterator[PlainMatch]:
    match match.term:
        case ast.EitherPattern(matches=matches):
            inner: Iterator[PlainMatch] = (one for each in matches for one in _plain(each, pointcuts, within))
        case ast.PointcutUse() as use:
            inner = _used(use, pointcuts, within)
        case term:
            yield PlainMatch(match.span, term, match.qualifiers)
            return
    for one in inner:
        yield PlainMatch(one.span, one.term, (*one.qualifiers, *match.qualifiers))


def _used(use: ast.PointcutUse, pointcuts: _Pointcuts, within: tuple[str, ...]) -> Iterator[PlainMatch]:
    name = use.name.text
    if name not in pointcuts:
        why = f"there is no pointcut {name}"
        raise Rejected(AspectTag.A_UNBOUND, use.name.span, why, f"pointcut {name}() = call(...);")
    if name in within:
        raise Rejected(AspectTag.A_SYNTAX, use.span, f"the pointcut {name} consists of itself")
    item = pointcuts[name]
    if len(use.arguments) != len(item.parameters):
        why = f"the pointcut {name} has {len(item.parameters)} names, and {len(use.arguments)} are given"
        raise Rejected(AspectTag.A_SIGNATURE, use.span, why, "_ for a name that is of no use here")
    for one in _plain(item.match, pointcuts, (*within, name)):
        _binds_all(item, one)
        yield PlainMatch(use.span, *_renamed((one.term, one.qualifiers), _names(item, use)))


def _names(item: ast.PointcutItem, use: ast.PointcutUse) -> dict[str, str]:
    """The new name of each parameter of a pointcut; ``_`` is replaced by a name that is used nowhere else."""
    found = dict[str, str]()
    for parameter, given in zip(item.parameters, use.arguments, strict=True):
        assert parameter.name is not None
        old = parameter.name.text
        found[old] = given.text if given.text != "_" else f"_{old}_{use.span.start}"
    return found


def _binds_all(item: ast.PointcutItem, match: PlainMatch) -> None:
    bound = {name.text for name in bound_names(match)}
    for parameter in item.parameters:
        assert parameter.name is not None
        if parameter.name.text not in bound:
            why = f"the pointcut {item.name.text} does not always bind {parameter.name.text}"
            raise Rejected(AspectTag.A_UNBOUND, parameter.name.span, why, "every one of its ways to match has to")


def bound_names(match: PlainMatch) -> Iterator[ast.Ident]:
    """The names that a match binds, without ``_``."""
    term = match.term
    calls = [term] if isinstance(term, ast.CallPattern) else []
    if isinstance(term, ast.FlowPattern):
        calls = [*term.outer, *([term.last] if isinstance(term.last, ast.CallPattern) else [])]
    found = [one.name for call in calls for one in call.parameters or () if one.name is not None]
    for one in match.qualifiers:
        if isinstance(one, ast.ArgsQualifier):
            found += one.names
        elif isinstance(one, ast.GivesQualifier | ast.BindQualifier):
            found.append(one.name)
    return (name for name in found if name.text != "_")


def _renamed(node: Any, to: Mapping[str, str]) -> Any:
    """The same tree with names replaced as ``to`` says, in C too; variables of the program keep their names."""
    match node:
        case tuple():
            return tuple(_renamed(one, to) for one in node)
        case ast.Ident(text=text):
            return dataclasses.replace(node, text=to.get(text, text))
        case ast.CText(text=text):
            return dataclasses.replace(node, text=cnames.renamed(text, to))
        case ast.GlobalPattern() | ast.CodePattern():
            return node
        case ast.AspectNode():
            names = [field.name for field in dataclasses.fields(node) if field.name != "span"]
            return dataclasses.replace(node, **{name: _renamed(getattr(node, name), to) for name in names})
    return node
