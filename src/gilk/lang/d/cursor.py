# SPDX-License-Identifier: LGPL-2.1-or-later
"""The tokens ahead of the parser, and helpers that every production needs."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gilk.lang.d import ast
from gilk.lang.d.depth import NESTING, too_deep
from gilk.lang.d.lexer import LOOPS, Lexer, Token, TokenKind
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Rejected, Span
from gilk.lang.types import ALIASES

_OPENS = {")": "(", "]": "[", "}": "{"}


class Cursor:
    """A cursor. ``types``: the names that are known to be types at this point of the program."""

    def __init__(self, lexer: Lexer, types: Iterable[str] = ()) -> None:
        self.lexer = lexer
        self.types = {*ALIASES, *types}
        self.last = Span(0, 0)
        self._ahead: deque[Token] = deque()
        self.unfinished: ast.TagType | None = None  # the last struct whose members are being read
        self._nesting = 0
        self._open: Counter[str] = Counter()  # how often each bracket is open

    def peek(self, distance: int = 0) -> Token:
        while len(self._ahead) <= distance:
            self._ahead.append(self.lexer.token())
        return self._ahead[distance]

    def take(self) -> Token:
        token = self.peek()
        self._ahead.popleft()
        self.last = token.span
        if token.text in _OPENS.values():
            self._open[token.text] += 1
        elif token.text in _OPENS:
            self._open[_OPENS[token.text]] -= 1
        return token

    def at(self, *texts: str) -> bool:
        return self.peek().text in texts

    def accept(self, *texts: str) -> Token | None:
        return self.take() if self.peek().text in texts else None

    def expect(self, text: str) -> Token:
        if self.peek().text != text:
            raise self.unexpected(f"expected {text}")
        return self.take()

    def name(self) -> Token:
        """Take a name: the production IDENT. Raises Rejected."""
        if self.peek().kind is not TokenKind.NAME:
            raise self.unexpected("expected a name")
        return self.take()

    def member_name(self) -> Token:
        """Take the name of a member: IDENT or KEYWORD, since no word is reserved after a dot or an arrow. Raises
        Rejected.
        """
        if self.peek().kind not in (TokenKind.NAME, TokenKind.KEYWORD):
            raise self.unexpected("expected the name of a member")
        return self.take()

    def since(self, start: Span) -> Span:
        """The span from ``start`` to the last token that was taken."""
        return start.to(self.last)

    def unexpected(self, hint: str = "") -> Rejected:
        token = self.peek()
        if token.kind is TokenKind.END:
            where = "end of input" if self._open["{"] else "end-of-input"  # DTrace's two messages for this
            return Rejected(SyntaxTag.D_SYNTAX, token.span, f"syntax error near {where}", hint)
        if unbalanced := self._unbalanced(token):
            return unbalanced
        if token.text in LOOPS:
            hint = "D has no loops, no switch and no goto"
        return Rejected(SyntaxTag.D_SYNTAX, token.span, f'syntax error near "{token.text[:40]}"', hint)

    def _unbalanced(self, token: Token) -> Rejected | None:
        """An error about the brackets before ``token``, or about ``token`` as a bracket; None if brackets are not the
        problem.
        """
        text = token.text
        if text in _OPENS and not self._open[_OPENS[text]]:
            return Rejected(SyntaxTag.D_SYNTAX, token.span, f"extra {text} in input stream")
        if text == "/" and not self._open["{"] and self.peek(1).text in ("", ";", "{", "/"):
            for closing in ")]":
                if self._open[_OPENS[closing]]:
                    what = f"closing {closing} expected in predicate before /"
                    return Rejected(SyntaxTag.D_SYNTAX, self.peek(1).span, what)
        return None

    @contextmanager
    def nested(self) -> Iterator[None]:
        """The inside of a bracket of any kind. Raises Rejected if brackets are nested too deeply."""
        if self._nesting == NESTING:
            raise too_deep(self.peek().span)
        self._nesting += 1
        yield
        self._nesting -= 1
