# SPDX-License-Identifier: LGPL-2.1-or-later
"""Generate programs that compute with variables of all kinds, from a seed, and find with valgrind every access of those
variables.

A program takes no input, and prints at its end where its variables lie and the bytes that they have.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

TYPES = (
    "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long", "unsigned long", "float",
    "double", "_Bool",
)  # fmt: skip
SIZES = {
    "signed char": 1, "unsigned char": 1, "short": 2, "unsigned short": 2, "int": 4, "unsigned": 4, "long": 8,
    "unsigned long": 8, "float": 4, "double": 8, "_Bool": 1, "struct some": 32, "int[6]": 24,
}  # fmt: skip
FLOATS = ("float", "double")
_HEAD = """\
#include <stdio.h>
#include <string.h>
#define NOINLINE __attribute__((noinline, noclone))
struct some { char a; short b; int c; long d; double e; float f; };
"""


@dataclass(frozen=True)
class AccessedVariable:
    name: str
    type: str
    static: bool

    @property
    def declared(self) -> str:
        base, _, rest = self.type.partition("[")
        return f"{'static ' if self.static else ''}{base} {self.name}{'[' + rest if rest else ''}"

    @property
    def size(self) -> int:
        return SIZES[self.type]

    @property
    def is_whole(self) -> bool:
        return self.size in (1, 2, 4, 8)


@dataclass(frozen=True)
class AccessedProgram:
    text: str
    variables: tuple[AccessedVariable, ...]


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        chosen = [*self.random.sample(TYPES, 6), "struct some", "int[6]"]
        self.variables = tuple(
            AccessedVariable(f"v{n}", type_, self.random.random() < 0.5) for n, type_ in enumerate(chosen)
        )

    def place(self) -> tuple[str, bool]:
        """An lvalue, and whether it is a floating-point number."""
        one = self.random.choice(self.variables)
        if one.type == "struct some":
            member = self.random.choice("abcdef")
            return f"{one.name}.{member}", member in "ef"
        if one.type == "int[6]":
            index = self.random.choice(("0", "1", "3", "5", "(n & 3)", "((n >> 1) & 1) + 4"))
            return f"{one.name}[{index}]", False
        return one.name, one.type in FLOATS

    def number(self, depth: int = 0) -> str:
        kind = self.random.randrange(6 if depth < 2 else 3)
        if kind == 0:
            return str(self.random.choice((0, 1, 2, 3, 7, 100, -1, -5, 1000)))
        if kind == 1:
            return self.random.choice(("n", "m"))
        if kind == 2:
            place, floats = self.place()
            return f"((long)({place} > -1000 && {place} < 1000 ? {place} : 3))" if floats else f"((long){place})"
        left, right = self.number(depth + 1), self.number(depth + 1)
        operator = self.random.choice(("+", "-", "^", "&", "|", "*", "<", "=="))
        if operator in "+-*":
            return f"(long)((unsigned long){left} {operator} (unsigned long){right})"
        return f"({left} {operator} {right})"

    def statement(self) -> str:
        place, floats = self.place()
        kind = self.random.randrange(9)
        if floats:
            number = f"((double)(({self.number()}) & 1023) * 0.5)"
            return f"{place} = {number};" if kind < 4 else f"{place} = {place} * 0.5 + {number};"
        if kind < 3:
            return f"{place} = {self.number()};"
        if kind == 3:
            return f"if ({place} > {self.number()}) {place} = {self.number()};"
        if kind == 4:
            return f"for (i = 0; i < 3; i++) {place} ^= (i + n) & 1;"
        if kind == 5:
            return f"{self.random.choice(('m', 'n'))} = {self.number()};"
        if kind == 6 and not place.startswith(tuple(one.name for one in self.variables if one.type == "_Bool")):
            return f"{place} {self.random.choice(('|', '&', '^'))}= ({self.number()}) & 15;"
        return f"{place} = ({place} ^ {self.number()}) & 1;"

    def function(self, number: int) -> str:
        body = "\n".join(f"\t{self.statement()}" for _ in range(self.random.randint(3, 9)))
        return f"NOINLINE long f{number}(long n, long m)\n{{\n\tlong i = 0;\n{body}\n\treturn n ^ m ^ i;\n}}\n"

    def program(self) -> str:
        functions = "".join(self.function(number) for number in range(4))
        calls = " ".join(f"r += f{number}(i, r & 63);" for number in range(4))
        declared = "".join(f"{one.declared};\n" for one in self.variables)
        shown = "".join(f"\t{line}\n" for one in self.variables for line in _shown(one))
        return f"""\
{_HEAD}{declared}{functions}
int main(void)
{{
	long i, r = 1;

	for (i = 0; i < 40; i++) {{ {calls} }}
	printf("%p %ld\\n", (void *)main, r);
{shown}	return 0;
}}
"""


def _shown(one: AccessedVariable) -> list[str]:
    """The statements that print the values of a variable. They take no addresses: accesses through pointers would be
    out of sight."""
    if one.type == "struct some":
        parts = [(f"{one.name}.{member}", member in "ef") for member in "abcdef"]
    elif one.type == "int[6]":
        parts = [(f"{one.name}[{n}]", False) for n in range(6)]
    else:
        parts = [(one.name, one.type in FLOATS)]
    return [
        f'printf("{part} {"%a" if floats else "%ld"}\\n", ({"double" if floats else "long"}){part});'
        for part, floats in parts
    ]


def made(seed: int) -> AccessedProgram:
    maker = _Maker(seed)
    return AccessedProgram(maker.program(), maker.variables)


def build(place: Path, program: AccessedProgram, compiler: str, *options: str) -> Path:
    source, output = place / "accessed.c", place / "accessed"
    source.write_text(program.text)
    subprocess.run([compiler, "-w", *options, "-o", output, source], check=True)
    return output


def seen_by_valgrind(
    program: Path, place: Path, variables: tuple[AccessedVariable, ...]
) -> dict[str, Counter[tuple[str, int, int]]]:
    """For each variable by name, how often it was accessed, by (r for read or w for written, bytes, offset in the
    variable). valgrind's optimisation is off, because it would leave out loads whose result is not used."""
    log = place / "lackey.log"
    done = subprocess.run(
        ["valgrind", "--tool=lackey", "--vex-iropt-level=0", "--trace-mem=yes", f"--log-file={log}", program],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    symbols = _symbols(program)
    bias = int(done.stdout.split()[0], 16) - symbols["main"][0]
    ranges = [(symbols[one.name][0] + bias, one) for one in variables]
    found: dict[str, Counter[tuple[str, int, int]]] = {one.name: Counter() for one in variables}
    for kind, address, size in re.findall(r"^ ([LSM]) ([0-9a-f]+),(\d+)$", log.read_text(), re.MULTILINE):
        at, count = int(address, 16), int(size)
        for start, one in ranges:
            if at < start + one.size and at + count > start:
                for way in {"L": "r", "S": "w", "M": "rw"}[kind]:
                    found[one.name][way, count, at - start] += 1
    return found


def _symbols(program: Path) -> dict[str, tuple[int, int]]:
    """Address and size of each symbol, by name."""
    done = subprocess.run(["nm", "-S", program], check=True, capture_output=True, text=True)
    rows = (line.split() for line in done.stdout.splitlines())
    return {row[3]: (int(row[0], 16), int(row[1], 16)) for row in rows if len(row) == 4}


def kept(program: Path, variables: tuple[AccessedVariable, ...]) -> tuple[AccessedVariable, ...]:
    """The variables that the compiler has left whole; it may split static ones, or remove them."""
    symbols = _symbols(program)
    return tuple(one for one in variables if symbols.get(one.name, (0, 0))[1] == one.size)
