# SPDX-License-Identifier: LGPL-2.1-or-later
"""The words of a type before its declarator, and the check that they fit together."""

from __future__ import annotations

from dataclasses import field

from gilk.lang.d import ast
from gilk.lang.d.lexer import QUALIFIERS, TYPE_WORDS
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Rejected, Span
from gilk.lang.types import basic
from gilk.values import dataclass

_LENGTHS = {"short", "long"}
_SIGNS = {"signed", "unsigned"}


@dataclass(slots=True)
class Specifiers:
    """The specifiers that were read so far. ``named`` is the name of a type, or a struct, a union or an enum."""

    storage: str = ""
    words: list[str] = field(default_factory=list)
    named: ast.BaseType | None = None

    @property
    def complete(self) -> bool:
        """Whether the specifiers are complete, so that a name that follows cannot be a type's."""
        return self.named is not None or any(word in TYPE_WORDS for word in self.words)

    def store(self, word: str, span: Span) -> None:
        if self.storage:
            raise Rejected(SyntaxTag.D_DECL_CLASS, span, "only one storage class allowed in a declaration")
        if word in ("auto", "register"):
            raise Rejected(SyntaxTag.D_DECL_BADCLASS, span, "specified storage class not appropriate in D")
        self.storage = word

    def check_tag(self, span: Span) -> None:
        """Check the words before a struct, a union or an enum. ``span``: the token after its tag, where DTrace reports
        mistakes. Raises Rejected.
        """
        _check(Specifiers(words=self.words, named=ast.TagType(span, "struct", "")), span)

    def base(self, span: Span) -> ast.BaseType:
        """The type that the specifiers make together. Raises Rejected."""
        _check(self, span)
        if self.named is None:
            return ast.BasicType(span, tuple(self.words) if self.complete else (*self.words, "int"))
        if isinstance(self.named, ast.BasicType):
            return ast.BasicType(span, (*self.words, *self.named.words))
        return self.named


def _check(given: Specifiers, span: Span) -> None:
    """Raises Rejected, with DTrace's tag, if words do not go together."""
    words = [word for word in given.words if word not in QUALIFIERS]
    lengths, signs = [w for w in words if w in _LENGTHS], [w for w in words if w in _SIGNS]
    types = [word for word in words if word not in _LENGTHS | _SIGNS]
    numbers = not given.named and not {"string", "void"} & set(types)
    if "char" in types and lengths:
        _wrong(SyntaxTag.D_DECL_CHARATTR, span, "short and long may not be used with char type")
    if "void" in types and (lengths or signs):
        _wrong(SyntaxTag.D_DECL_VOIDATTR, span, "attributes may not be used with void type")
    if signs and (not numbers or {"float", "double"} & set(types)):
        _wrong(SyntaxTag.D_DECL_SIGNINT, span, "signed and unsigned may only be used with integer type")
    if "long" in lengths and not numbers:
        _wrong(
            SyntaxTag.D_DECL_LONGINT, span, "long and long long may only be used with integer or floating-point type"
        )
    impossible = words and basic(tuple(words)) is None and set(lengths) != _LENGTHS  # short long is rejected later
    if (given.named and words) or len(signs) > 1 or len(types) > 1 or impossible:
        raise Rejected(SyntaxTag.D_DECL_COMBO, span, "invalid type combination")


def _wrong(tag: SyntaxTag, span: Span, message: str) -> None:
    raise Rejected(tag, span, f"invalid type declaration: {message}")
