# SPDX-License-Identifier: LGPL-2.1-or-later
"""C expressions as the model computes them; a C compiler is the oracle for arithmetic and advice."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gilk.lang.aspect.advice import LocalScope, run
from gilk.lang.aspect.cells import Cell, Value, converted, told
from gilk.lang.aspect.evaluate import NotTold, compute
from gilk.lang.aspect.fragments import block, ctype, normal
from gilk.lang.aspect.printed import printed
from gilk.toolchain.compilers import compiler

NAMES = {
    "a": ("int", -7), "b": ("unsigned", 4_000_000_000), "c": ("char", -3), "d": ("unsigned char", 250),
    "e": ("long", -(1 << 40)), "f": ("unsigned long", (1 << 64) - 5), "g": ("short", 300), "h": ("size_t", 12),
}  # fmt: skip


class Scope:
    """A scope of names, which keeps the reports."""

    def __init__(self, names: dict[str, Cell], **said: Value) -> None:
        self.names, self.said = names, {normal(text): value for text, value in said.items()}

    def named(self, name: str) -> Cell | None:
        return self.names.get(name)

    def told(self, text: str) -> Cell | None:
        found = self.said.get(normal(text))
        return None if found is None else told(found)

    def assign(self, name: str, value: Cell) -> bool:
        if name in self.names:
            self.names[name] = converted(value, self.names[name].type)
        return name in self.names

    def store(self, text: str, value: Cell) -> None:
        self.said[normal(text)] = value.value


def scope(**said: Value) -> Scope:
    return Scope({name: converted(told(value), ctype(type_)) for name, (type_, value) in NAMES.items()}, **said)


def expressions(chance: random.Random) -> Callable[[int], str]:
    def some(depth: int) -> str:
        if depth == 0:
            return chance.choice(
                [*NAMES, *NAMES, "1", "0", "7u", "0x80000000", "2147483648", "3l", "'x'", "0xffffffffffu"]
            )
        one, other = some(depth - 1), some(depth - 1)
        form = chance.choice([
            "({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} & {1})", "({0} | {1})", "({0} ^ {1})", "({0} < {1})",
            "({0} <= {1})", "({0} == {1})", "({0} != {1})", "({0} && {1})", "({0} || {1})", "(!{0})",
            "(~{0})", "(-{0})", "({0} >> ({1} & 15))", "({0} << ({1} & 7))", "({0} / (({1} & 7) + 1))",
            "({0} % (({1} & 7) + 2))", "({0} ? {1} : {0})", "(({2}){0})", "({0}, {1})",
        ])  # fmt: skip
        return form.format(
            one, other, chance.choice(["int", "char", "unsigned char", "long", "unsigned short", "pid_t"])
        )

    return some


def compiled(tmp_path: Path, body: str) -> list[str]:
    """The lines that a program with this body prints."""
    source, program = tmp_path / "x.c", tmp_path / "x"
    names = "".join(
        f"volatile {type_} {name} = {value}{'u' * (value > 1 << 31)};\n" for name, (type_, value) in NAMES.items()
    )
    source.write_text(f"#include <stdio.h>\n#include <sys/types.h>\nint main(void)\n{{\n{names}{body}return 0;\n}}\n")
    command = [*compiler(), "-w", "-fwrapv", "-O1", str(source), "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()


def test_arithmetic_gives_a_compilers_results(tmp_path: Path) -> None:
    chance = random.Random(7)
    texts = [expressions(chance)(1 + number % 4) for number in range(400)]
    # Also whether it is unsigned, and how large: by what -1 becomes next to it.
    body = "".join(
        f'printf("%lld %d %d\\n", (long long)({one}), (({one}) * 0 - 1) < 0, (int)sizeof(({one}) + 0));\n'
        for one in texts
    )
    found = []
    for one in texts:
        value, negative = compute(one, scope()).value, compute(f"(({one}) * 0 - 1) < 0", scope()).value
        cell = compute(f"({one}) + 0", scope())
        assert isinstance(value, int) and cell.type is not None
        signed = value - (1 << 64) if value >= 1 << 63 else value
        found.append(f"{signed} {negative} {getattr(cell.type, 'size', 0)}")
    for text, mine, theirs in zip(texts, found, compiled(tmp_path, body), strict=True):
        assert mine == theirs, text


ADVICE = [
    "{ int x = a, y; y = x * 2; x += y; if (x < 0) { long z = x - 1; x = z; } else x = 5; return x; }",
    "{ unsigned char x = d; x++; x += 10; return x--; }",
    "{ long e = 5, k = e + 1; { long e = 7; k += e; } return k * 100 + e; }",
    "{ if (c) if (h) return 1; else return 2; return 3; }",
    "{ int n = 0; n = a > 0 ? (n = 5, n + 1) : (n = 9); return n << 3 | 1; }",
    "{ char s = b; return s == (char)b && ++s != 0; }",
    '{ char c = "//"[0]; /* " // */ return c; // "\\n }\n }',
    "{ unsigned x = 1; x -= 2; return x > 0 && x / 2 > 100; }",
]


def test_advice_gives_the_results_of_compiled_code(tmp_path: Path) -> None:
    functions = "".join(
        f'({{ long r_{number}(void) {one} printf("%ld\\n", r_{number}()); }});\n' for number, one in enumerate(ADVICE)
    )
    if "clang" in " ".join(compiler()):
        pytest.skip("nested functions are gcc's")
    for text, theirs in zip(ADVICE, compiled(tmp_path, functions), strict=True):
        body = block(text)
        assert body is not None
        advice = run(body, LocalScope(scope()))
        with pytest.raises(StopIteration) as end:
            next(advice)
        assert str(end.value.value.value) == theirs, text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("p->next", 7),
        ("p -> next + 1", 8),
        ("f(a, p->next)", 3),
        ('strcmp("a", "b")', -1),
        ('strlen("abc") == 3 && !strncmp("abc", "abd", 2)', 1),
        ('"abc"[1]', 98),
        ('*"abc"', 97),
        ("sizeof(long) + sizeof(char *)", 16),
        ("EACCES + NULL", 13),
        ("0 && nobody(knows)", 0),
        ("1 || nobody(knows)", 1),
        ('s == "x"', 1),
    ],
)
def test_values_given_with_the_event_are_used(text: str, value: int) -> None:
    assert compute(text, scope(**{"p->next": 7, "f(a, p->next)": 3, "s": "x"})).value == value


@pytest.mark.parametrize(
    "text", ["p->next", "f(a)", "x", "a / 0", "a % (c + 3)", "*p", "sizeof(struct x)", '"a" + 1 < 2', "&a"]
)
def test_values_that_the_event_lacks_are_named(text: str) -> None:
    with pytest.raises(NotTold):
        compute(text, scope())


@pytest.mark.parametrize(
    "text", ["", ")", "a +", "while (1) {}", "{", "a b", "'", '"', "(" * 500 + "a" + ")" * 500, "a" + " + a" * 5000]
)
def test_text_that_is_no_expression_is_looked_up_as_a_whole(text: str) -> None:
    with pytest.raises(NotTold):
        compute(text, scope())
    assert compute(text, scope(**{text: 5})).value == 5


def test_reports_are_formatted_as_printf_does() -> None:
    cells = [told(value) for value in (5, -1, "abc", 255, 65, "x", 3.5)]
    assert (
        printed("%03d|%u|%-5s|%#x|%c|%s|%.2f|100%%|%d", cells) == "005|18446744073709551615|abc  |0xff|A|x|3.50|100%|%d"
    )


def test_a_report_has_a_bound_and_any_bytes() -> None:
    assert printed("%99999999d|%.9999999s", [told(1), told("a")]) == "%99999999d|%.9999999s"
    assert compute(r'"\377"[0]', scope()).value == -1
    with pytest.raises(NotTold):
        compute("big * big", scope(big=1e300))


@given(
    st.text("%-+ 0#123.lhzdiuxXocspfgea", max_size=12),
    st.lists(
        st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3)
    ),
)
def test_any_format_can_be_printed(form: str, values: list[Value]) -> None:
    assert len(printed(form, [told(one) for one in values])) < 6000
