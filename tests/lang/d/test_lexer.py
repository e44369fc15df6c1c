# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tokens, and the values of literals."""

from __future__ import annotations

import pytest

from gilk.lang.d import literals
from gilk.lang.d.lexer import Lexer, Token, TokenKind
from gilk.lang.d.macros import Substitution
from gilk.lang.syntax.source import Rejected, Source, Span
from tests.lang.d.programs import GIVEN


def tokens(text: str) -> list[Token]:
    lexer = Lexer(Source("test", text), Substitution(GIVEN))
    found = [lexer.token()]
    while found[-1].kind is not TokenKind.END:
        found.append(lexer.token())
    return found[:-1]


def one(text: str) -> Token:
    (found,) = tokens(text)
    return found


def test_the_longest_operator_is_taken() -> None:
    text = "a+++b<<=c>>d->e...&&=^^^|||"
    expected = "a ++ + b <<= c >> d -> e ... && = ^^ ^ || |"
    assert [token.text for token in tokens(text)] == expected.split()


def test_spans_cover_the_text() -> None:
    text = ' foo /* x */ "bar"\t0x1f@a[$1]'
    assert [text[token.span.start : token.span.end] for token in tokens(text)] == [token.text for token in tokens(text)]


@pytest.mark.parametrize(
    ("text", "value", "suffix", "decimal"),
    [
        ("0", 0, "", True),
        ("42", 42, "", True),
        ("0x2A", 42, "", False),
        ("052", 42, "", False),
        ("1U", 1, "u", True),
        ("1lu", 1, "ul", True),
        ("0xfLLu", 15, "ull", False),
        ("1ll", 1, "ll", True),
        ("18446744073709551615", (1 << 64) - 1, "", True),
        ("0" * 5000 + "1", 1, "", False),
        ("'a'", 97, "char", True),
        ("'ab'", 0x6162, "char", True),
        (r"'\n'", 10, "char", True),
        (r"'\''", 39, "char", True),
        (r"'\377'", 255, "char", True),
        (r"'\x7f'", 127, "char", True),
        (r"'\q'", 0x5C71, "char", True),
        ("'é'", 0xC3A9, "char", True),
        ("$1", 5, "", True),
        ("$target", 1234, "", True),
    ],
)
def test_values_and_suffixes_of_numbers(text: str, value: int, suffix: str, decimal: bool) -> None:
    found = one(text)
    assert (found.kind, found.number, found.suffix, found.decimal) == (TokenKind.NUMBER, value, suffix, decimal)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"a\tb"', "a\tb"),
        (r'"\"\\"', '"\\'),
        (r'"\101\x42\0"', "AB\0"),
        (r'"\x00000041G"', "AG"),
        (r'"\303\251"', "é"),
        (r'"\377"', "\udcff"),
        (r'"\q%d"', "\\q%d"),
        ('"é"', "é"),
        ("$$1", "5"),
        ("$3", "some text"),
        ("$$pid", "99"),
    ],
)
def test_values_of_strings(text: str, value: str) -> None:
    found = one(text)
    assert (found.kind, found.word) == (TokenKind.TEXT, value)


@pytest.mark.parametrize("value", ["", "plain", 'a"b\\', "\0\x01", "é\udcff", "\ud800"])
def test_quoting_and_unquoting_a_string_gives_it_back(value: str) -> None:
    again = literals.unescaped(literals.quoted(value)[1:-1])
    assert again.encode("utf-8", "surrogateescape") == literals.resolved(value.replace("\\", "\\\\"))


@pytest.mark.parametrize(
    ("given", "kind", "word", "number"),
    [
        ("12", TokenKind.NUMBER, "", 12),
        ("-12", TokenKind.NUMBER, "", -12),
        ("+0x10", TokenKind.NUMBER, "", 16),
        ("read", TokenKind.NAME, "read", 0),
        ("if", TokenKind.NAME, "if", 0),
        ("12 monkeys", TokenKind.TEXT, "12 monkeys", 0),
        ('"12"', TokenKind.TEXT, "12", 0),
        ("", TokenKind.TEXT, "", 0),
        ("09", TokenKind.TEXT, "09", 0),
        ("/bin/ls", TokenKind.TEXT, "/bin/ls", 0),
    ],
)
def test_an_argument_is_a_number_a_name_or_a_text(given: str, kind: TokenKind, word: str, number: int) -> None:
    macros = Substitution(type(GIVEN)(arguments=("script", given)))
    found = Lexer(Source("test", "$1"), macros).token()
    assert (found.kind, found.word, found.number) == (kind, word, number)


def test_keywords_are_not_names() -> None:
    assert [token.kind for token in tokens("if ifs self selves string")] == [
        *(TokenKind.KEYWORD, TokenKind.NAME, TokenKind.KEYWORD, TokenKind.NAME, TokenKind.KEYWORD)
    ]


def test_lines_are_joined_by_backslashes() -> None:
    assert [token.text for token in tokens("a \\\n b\\\r\nc")] == ["a", "b", "c"]


@pytest.mark.parametrize("text", ["\\", "\0", "é", "`1x`é", "?#", "'", '"', "$", "$$", "1e5", "/*", "#foo"])
def test_malformed_tokens_are_rejected(text: str) -> None:
    with pytest.raises(Rejected) as error:
        tokens(text)
    span = error.value.diagnostic.span
    assert 0 <= span.start <= span.end <= len(text)


def test_long_integers_are_refused_without_converting_them() -> None:
    with pytest.raises(Rejected, match="overflow"):
        literals.integer("9" * 1_000_000, Span(0, 1))
