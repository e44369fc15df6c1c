# SPDX-License-Identifier: LGPL-2.1-or-later
"""The reader of lines that begin with ``#``: pragmas, and the preprocessor's markers of where lines come from."""

from __future__ import annotations

import re
from typing import NoReturn

from gilk.lang.d import items, literals, stability
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Rejected, Span

_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|([^\s"]+)')
_COMMENT = re.compile(r"/\*.*?\*/")
_VERSION = re.compile(r"\d+(\.\d+){1,2}", re.ASCII)
_SHAPES = {"option": "<option>=<val>", "attributes": "<attributes> <ident>", "binding": '"version" <ident>'}
_SHAPES["depends_on"] = "<class> <name>"


class ControlLine:
    """A control line. ``text`` is the text after the ``#``, ``next`` the offset at which the next line begins."""

    def __init__(self, text: str, span: Span, next_line: int, file: str) -> None:
        self.text, self.span, self.next, self.file = text, span, next_line, file
        found = list(_WORD.finditer(_COMMENT.sub(" ", text)))
        self.words = tuple(literals.unescaped(one[1]) if one[1] is not None else one[2] for one in found)
        self.quoted = tuple(one[1] is not None for one in found)

    def read(self) -> items.Pragma | items.Marker | None:
        """The pragma or marker; None for lines without a meaning in D: ``#``, ``#ident``, the pragmas of others. Raises
        Rejected.

        control: '#' ['line'] INT [STRING INT...] | '#' ['pragma'] 'error' WORD... | '#' ['pragma'] 'ident' WORD... |
        '#' 'pragma' 'D' pragma | '#' 'pragma' WORD...
        """
        words = self.words[1:] if self.words[:1] == ("pragma",) else self.words
        match words[:1]:
            case ():
                return None
            case (number,) if number.isdecimal():
                return self._marker(words)
            case ("line",):
                return self._marker(words[1:])
            case ("error",):
                raise Rejected(SyntaxTag.D_PRAGERR, self.span, f"#error: {' '.join(words[1:])} ")
        if words[0] == "ident":
            return None
        if len(words) == len(self.words):
            message = f"invalid control directive: #{words[0]}"
            raise Rejected(SyntaxTag.D_PRAGCTL_INVAL, self.span, message, "-C runs the C preprocessor first")
        return self._pragma(words[1:]) if words[0] == "D" else None

    def _marker(self, words: tuple[str, ...]) -> items.Marker:
        if not words or not words[0].isdecimal() or len(words[0]) > 9:
            raise Rejected(SyntaxTag.D_PRAGMA_MALFORM, self.span, 'malformed #line <line> [ [ "file" ] state ]')
        file = words[1] if len(words) > 1 else self.file
        return items.Marker(self.next, int(words[0]), file)

    def _pragma(self, words: tuple[str, ...]) -> items.Pragma | None:
        """pragma: 'option' WORD | 'attributes' WORD WORD... | 'binding' STRING WORD | 'depends_on' WORD WORD"""
        kind = words[0] if words else ""
        if kind == "ident" or not words:
            return None
        if kind == "error":
            raise Rejected(SyntaxTag.D_PRAGERR, self.span, f"#error: {' '.join(words[1:])} ")
        if kind not in _SHAPES:
            raise Rejected(SyntaxTag.D_PRAGMA_INVAL, self.span, f"invalid D pragma: {kind}")
        getattr(self, f"_check_{kind}")(words[1:])
        rest = tuple(words[1].split("=", 1)) if kind == "option" else words[1:]
        return items.Pragma(self.span, kind, rest)

    def _check_option(self, words: tuple[str, ...]) -> None:
        if not words or self.quoted[-1]:
            self._malformed("option")
        if len(words) > 1:
            message = "superfluous arguments specified for #pragma option"
            raise Rejected(SyntaxTag.D_PRAGMA_MALFORM, self.span, message)

    def _check_attributes(self, words: tuple[str, ...]) -> None:
        provider = words[1:2] == ("provider",)
        if len(words) < (4 if provider else 2):
            self._malformed("attributes")
        if stability.read(words[0]) is None or (provider and words[3] not in stability.PARTS):
            self._invalid("invalid attributes specified by #pragma attributes")

    def _check_binding(self, words: tuple[str, ...]) -> None:
        if len(words) < 2 or not self.quoted[-len(words)]:
            self._malformed("binding")
        if not _VERSION.fullmatch(words[0]):
            self._invalid("invalid version string specified by #pragma binding")

    def _check_depends_on(self, words: tuple[str, ...]) -> None:
        if len(words) < 2:
            self._malformed("depends_on")
        if words[0] not in ("provider", "module", "library"):
            self._invalid(f"invalid class {words[0]} specified by #pragma depends_on")

    def _malformed(self, kind: str) -> NoReturn:
        raise Rejected(SyntaxTag.D_PRAGMA_MALFORM, self.span, f"malformed #pragma {kind} {_SHAPES[kind]}")

    def _invalid(self, message: str) -> NoReturn:
        raise Rejected(SyntaxTag.D_PRAGMA_INVAL, self.span, message)
