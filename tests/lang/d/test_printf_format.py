# SPDX-License-Identifier: LGPL-2.1-or-later
"""Formats are taken apart as DTrace does, and everything wrong with one has its tag and DTrace's words."""

from __future__ import annotations

import pytest

from gilk.lang.d.printf import RULES, Conversion, Flags, LiteralText, PrintfTag, parse_format
from gilk.lang.d.printf_check import (
    ArgumentKind,
    Category,
    accepts,
    check,
    check_joined,
    check_printa,
    of_aggregation,
    undefined_aggregation,
)
from gilk.lang.data import Function
from gilk.lang.syntax.source import Rejected, Span

INT = ArgumentKind(Category.INTEGER, "int", 4)
UINT = ArgumentKind(Category.INTEGER, "unsigned int", 4, False)
SHORT = ArgumentKind(Category.INTEGER, "short", 2)
LONG = ArgumentKind(Category.INTEGER, "long", 8)
ULONG = ArgumentKind(Category.INTEGER, "unsigned long", 8, False)
STRING = ArgumentKind(Category.STRING, "string", 256)
POINTER = ArgumentKind(Category.POINTER, "struct task_struct *")
STACK = ArgumentKind(Category.STACK, "dt_stack_t")
SYMBOL = ArgumentKind(Category.SYMBOL, "_symaddr")
USER_SYMBOL = ArgumentKind(Category.USER_SYMBOL, "_usymaddr")
DOUBLE = ArgumentKind(Category.FLOAT, "double", 8)
LONG_DOUBLE = ArgumentKind(Category.FLOAT, "long double", 16)
WIDE = ArgumentKind(Category.WIDE_STRING, "wchar_t [4]", 16)
AGGREGATION = ArgumentKind(Category.AGGREGATION, "aggregation")
OTHER = ArgumentKind(Category.OTHER, "struct timespec", 16)


def only(text: str) -> Conversion:
    (piece,) = parse_format(text)
    assert isinstance(piece, Conversion)
    return piece


def test_text_and_conversions_alternate_and_percents_are_text() -> None:
    pieces = parse_format("100%% of %s, %d%%\n")
    assert pieces[0] == LiteralText("100% of ") and pieces[2] == LiteralText(", ") and pieces[4] == LiteralText("%\n")
    assert [(p.number, p.rule.name) for p in pieces if isinstance(p, Conversion)] == [(2, "s"), (3, "d")]


def test_flags_width_precision_and_modifiers() -> None:
    one = only("%#+ '-12.34lld")
    assert one.flags == Flags.ALTERNATE | Flags.PLUS | Flags.SPACE | Flags.GROUP | Flags.LEFT
    assert (one.width, one.precision, one.rule.name) == (12, 34, "lld")
    one = only("%-*.*@u")
    assert one.dynamic_width and one.dynamic_precision and one.aggregation and one.rule.name == "u"


def test_the_later_of_the_flags_zero_and_minus_counts() -> None:
    assert only("%0-5d").flags == Flags.LEFT
    assert only("%-05d").flags == Flags.ZERO
    assert only("%05d").width == 5
    assert only("%5.05d").precision == 5


def test_a_question_mark_is_the_width_of_an_address() -> None:
    assert only("%0?p").width == 16


def test_every_conversion_of_dtraces_table_is_known() -> None:
    names = """a A c C d e E f g G hd hi ho hu hx hX i k lc ld li lo lu ls lx lX lld lli llo llu llx llX
               Le LE Lf Lg LG o p s S T u wc ws x X Y"""
    assert set(names.split()) < set(RULES)
    for name in RULES:
        assert only(f"%{name}").rule is RULES[name]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%1$d", "format conversion #1 uses unsupported positional format (%n$)"),
        ("%d %", "format conversion #2 name expected before end of format string"),
        ("%%%Z", "format conversion #2 is undefined: %Z"),
        ("%hs", "format conversion #1 is undefined: %hs"),
        ("%**d", "format conversion #1 has more than one '*' specified for the output width"),
        ("%.**d", "format conversion #1 has more than one '*' specified for the output precision"),
        ("%1.2.3d", "format conversion #1 has more than one '.' specified"),
        ("%5%", "format conversion #1 cannot be combined with other format flags: %%"),
    ],
)
def test_malformed_formats_are_refused_as_d_syntax(text: str, message: str) -> None:
    with pytest.raises(Rejected) as caught:
        parse_format(text, Span(3, 9))
    found = caught.value.diagnostic
    assert (found.tag, found.message, found.span) == ("D_SYNTAX", message, Span(3, 9))


@pytest.mark.parametrize(
    ("format_", "arguments"),
    [
        ("%d %i %u %x %X %o %c %C", [INT] * 8),
        ("%hd %hu %hhd", [SHORT, ArgumentKind(Category.INTEGER, "ushort_t", 2, False),
                          ArgumentKind(Category.INTEGER, "char", 1)]),
        ("%ld %lu %lx %lx %lld %llX %jd %zu %td", [LONG, ULONG, LONG, ULONG, LONG, ULONG, LONG, ULONG, LONG]),
        ("%p %p %a %a %A", [POINTER, LONG, POINTER, SYMBOL, USER_SYMBOL]),
        ("%s %S %ls %k", [STRING, STRING, WIDE, STACK]),
        ("%Y %T", [LONG, ULONG]),
        ("%e %Lf", [DOUBLE, LONG_DOUBLE]),
        ("%*.*d", [INT, LONG, SHORT]),
        ("plain", []),
    ],
)  # fmt: skip
def test_arguments_that_fit_their_conversions_are_accepted(format_: str, arguments: list[ArgumentKind]) -> None:
    check(parse_format(format_), arguments)


INCOMPATIBLE = (
    "printf( ) argument #{} is incompatible with conversion #{} prototype:\n\tconversion: %{}\n\t prototype: "
)
ERRORS = [
    (PrintfTag.FMT_EMPTY, "", [], "printf( ) format string is empty"),
    (PrintfTag.ARG_PROTO, "%d", [],
     "printf( ) prototype mismatch: conversion #1 (%d) is missing a corresponding value argument"),
    (PrintfTag.ARG_TYPE, "%d %d", [INT, AGGREGATION],
     INCOMPATIBLE.format(3, 2, "d") + "char, short, int, long, or long long\n\t  argument: aggregation"),
    (PrintfTag.ARG_TYPE, "%s", [INT],
     INCOMPATIBLE.format(2, 1, "s") + "char [] or string (or use stringof)\n\t  argument: int"),
    (PrintfTag.ARG_TYPE, "%c", [LONG], INCOMPATIBLE.format(2, 1, "c") + "char, short, or int\n\t  argument: long"),
    (PrintfTag.ARG_TYPE, "%hu", [SHORT], INCOMPATIBLE.format(2, 1, "hu") + "unsigned short\n\t  argument: short"),
    (PrintfTag.ARG_TYPE, "%p", [STACK],
     INCOMPATIBLE.format(2, 1, "p") + "pointer or integer\n\t  argument: dt_stack_t"),
    (PrintfTag.ARG_TYPE, "%k", [POINTER],
     INCOMPATIBLE.format(2, 1, "k") + "stack\n\t  argument: struct task_struct *"),
    (PrintfTag.ARG_TYPE, "%Y", [INT], INCOMPATIBLE.format(2, 1, "Y") + "int64_t\n\t  argument: int"),
    (PrintfTag.ARG_TYPE, "%f", [OTHER],
     INCOMPATIBLE.format(2, 1, "f") + "float, double, or long double\n\t  argument: struct timespec"),
    (PrintfTag.ARG_TYPE, "%Lg", [DOUBLE], INCOMPATIBLE.format(2, 1, "Lg") + "long double\n\t  argument: double"),
    (PrintfTag.ARG_EXTRA, "%d", [INT, INT],
     "printf( ) prototype mismatch: only 1 arguments required by this format string"),
    (PrintfTag.ARG_EXTRA, "%*d", [INT, INT, INT],
     "printf( ) prototype mismatch: only 2 arguments required by this format string"),
    (PrintfTag.DYN_PROTO, "%*d", [],
     'printf( ) prototype mismatch: conversion #1 (%d) is missing a corresponding "*" argument'),
    (PrintfTag.DYN_PROTO, "%*.*d", [INT],
     'printf( ) prototype mismatch: conversion #1 (%d) is missing a corresponding ".*" argument'),
    (PrintfTag.DYN_TYPE, "%.*d", [STRING, INT],
     "printf( ) argument #2 is incompatible with conversion #1 prototype:\n\tconversion: % .* d\n"
     "\t prototype: int\n\t  argument: string"),
    (PrintfTag.AGG_CONV, "%@d", [INT], "%@ conversion requires an aggregation and is not for use with printf( )"),
]  # fmt: skip


@pytest.mark.parametrize(("tag", "format_", "arguments", "message"), ERRORS)
def test_arguments_that_do_not_fit_are_refused_with_tags(
    tag: PrintfTag, format_: str, arguments: list[ArgumentKind], message: str
) -> None:
    with pytest.raises(Rejected) as caught:
        check(parse_format(format_), arguments, span=Span(1, 2))
    found = caught.value.diagnostic
    assert (found.tag, found.message, found.span) == (tag, message, Span(1, 2))


def test_user_addresses_need_a_process_or_a_symbol() -> None:
    assert accepts(RULES["A"], POINTER, target=True)
    assert not accepts(RULES["A"], POINTER, target=False)
    assert accepts(RULES["A"], USER_SYMBOL, target=False)
    assert not accepts(RULES["a"], USER_SYMBOL)


def test_printa_takes_keys_and_leaves_some() -> None:
    check(parse_format("%s %@d %@u\n"), [STRING, INT], function="printa", aggregation=of_aggregation(Function.COUNT))
    with pytest.raises(Rejected, match="printa\\( \\) aggregating action is incompatible with conversion #1") as caught:
        check(parse_format("%@s"), [], function="printa", aggregation=of_aggregation(Function.SUM))
    assert caught.value.diagnostic.message.endswith("argument: int64_t")
    with pytest.raises(Rejected, match="printa\\( \\) argument #2"):
        check(parse_format("%p"), [STACK], function="printa", aggregation=of_aggregation(Function.SUM))


def rejected(call: object, *arguments: object) -> tuple[str, str]:
    assert callable(call)
    with pytest.raises(Rejected) as caught:
        call(*arguments)
    return caught.value.diagnostic.tag, caught.value.diagnostic.message


def test_wrong_arguments_of_printa_are_refused() -> None:
    check_printa([AGGREGATION, AGGREGATION], True)
    text = "printa( ) prototype mismatch: 1 args passed, 2 expected"
    assert rejected(check_printa, [], True) == ("D_PRINTA_PROTO", text)
    text = "printa( ) argument #1 is incompatible with prototype:\n\tprototype: aggregation\n\t argument: int"
    assert rejected(check_printa, [INT], False) == ("D_PRINTA_AGGARG", text)
    found = undefined_aggregation("a").diagnostic
    assert (found.tag, found.message) == ("D_PRINTA_AGGBAD", "undefined aggregation: @a")


def test_joined_aggregations_need_the_same_keys() -> None:
    check_joined("a", [INT, STRING], "b", [LONG, STRING])
    text = "printa( ): @a and @b do not have matching key signatures: @a has 1 key, @b has 2 keys"
    assert rejected(check_joined, "a", [INT], "b", [INT, INT]) == ("D_PRINTA_AGGKEY", text)
    text = "printa( ): @b[ ] key #1 is incompatible with @a:\n        a key #1: int\n        b key #1: string"
    assert rejected(check_joined, "a", [INT], "b", [STRING]) == ("D_PRINTA_AGGPROTO", text)


def test_every_tag_has_an_example() -> None:
    shown = {tag for tag, *_ in ERRORS}
    here = {PrintfTag.SYNTAX, PrintfTag.ARG_FMT, *(tag for tag in PrintfTag if tag.name.startswith("PRINTA"))}
    assert shown | here == set(PrintfTag)
