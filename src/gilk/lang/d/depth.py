# SPDX-License-Identifier: LGPL-2.1-or-later
"""Limits for the depth of a program, so that the parser and the passes never need more stack than there is."""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.d import ast
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Rejected, Span

#: The limit for nested brackets. The parser calls itself about seven times for each.
NESTING = 60
#: The limit for the height of a tree. ``a + b + c`` nests nothing, but its tree has height 3.
HEIGHT = 200


def too_deep(span: Span) -> Rejected:
    return Rejected(SyntaxTag.D_SYNTAX, span, "too deeply nested", "assign parts of it to variables")


def children(node: ast.Node) -> Iterator[ast.Node]:
    """The children of a node, in the order in which the class declares them, which is that of the source."""
    for name in type(node).__slots__:
        value = getattr(node, name)
        if isinstance(value, ast.Node):
            yield value
        elif isinstance(value, tuple):
            yield from (one for one in value if isinstance(one, ast.Node))


def check_height(item: ast.Node) -> None:
    """Raise Rejected if the tree is too high. The tree is searched level by level, since it may be too high for
    recursion.
    """
    level = [item]
    for _ in range(HEIGHT):
        level = [child for node in level for child in children(node)]
        if not level:
            return
    raise too_deep(level[0].span)
