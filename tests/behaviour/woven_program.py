# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program whose functions are called by lines of input, and the same functions in Python.

Each call that the Python program makes goes through ``Calling``, so that a test may put anything around it.
"""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.behaviour.advised import OPTIONS

Value = int | float | str
#: Calls a function of the program by its name.
Calling = Callable[..., Value]

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define NOINLINE __attribute__((noinline, noclone))
#define KEEP __asm__ volatile("")
struct pair { long x, y; };
static long total;
NOINLINE long one(long a) { KEEP; return a * 2 + 1; }
NOINLINE long two(long a, long b) { KEEP; return a - b; }
NOINLINE long three(long a, long b, long c) { KEEP; return a + b * c; }
NOINLINE long outer(long a, long b) { long r = one(a + 1); KEEP; r += two(r, b); KEEP; return r; }
NOINLINE long deep(long n, long k) { long r; KEEP; if (n <= 0 || n > 3) return k; r = deep(n - 1, k + 1); KEEP;
	return r * 2 + n; }
NOINLINE long text(const char *s, long n) { KEEP; return s[0] + n; }
NOINLINE long both(struct pair p, long n) { KEEP; return p.x * n + p.y; }
NOINLINE void nothing(long a) { KEEP; total += a; }
NOINLINE long eight(long a, long b, long c, long d, long e, long f, long g, long h)
{ KEEP; return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h; }
NOINLINE double real(double x, long n) { KEEP; return x * n + 0.5; }
NOINLINE int narrow(int a, unsigned char b) { KEEP; return a + b; }

int main(void)
{
	char line[256], word[16], rest[64];
	long n[8];

	setvbuf(stdout, 0, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		memset(n, 0, sizeof n);
		sscanf(line, "%15s %63s %ld %ld %ld %ld %ld %ld %ld", word, rest, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7);
		n[0] = atol(rest);
		if (!strcmp(word, "one")) printf("%ld\n", one(n[0]));
		else if (!strcmp(word, "two")) printf("%ld\n", two(n[0], n[1]));
		else if (!strcmp(word, "three")) printf("%ld\n", three(n[0], n[1], n[2]));
		else if (!strcmp(word, "outer")) printf("%ld\n", outer(n[0], n[1]));
		else if (!strcmp(word, "deep")) printf("%ld\n", deep(n[0], n[1]));
		else if (!strcmp(word, "text")) printf("%ld\n", text(rest, n[1]));
		else if (!strcmp(word, "both")) printf("%ld\n", both((struct pair){n[0], n[1]}, n[2]));
		else if (!strcmp(word, "nothing")) { nothing(n[0]); printf("%ld\n", total); total = 0; }
		else if (!strcmp(word, "eight"))
			printf("%ld\n", eight(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]));
		else if (!strcmp(word, "real")) printf("%.17g\n", real(atof(rest), n[1]));
		else if (!strcmp(word, "narrow")) printf("%d\n", narrow((int)n[0], (unsigned char)n[1]));
	}
	return 0;
}
"""


@dataclass(frozen=True)
class Twin:
    """A function of the program, and its twin in Python. ``result`` and ``parameters`` are types in C; ``body`` gets a
    Calling and the arguments.

    If ``leaf``, it does nothing but compute its result, so it may be called once more.
    """

    name: str
    result: str
    parameters: tuple[str, ...]
    body: Callable[..., Value]
    leaf: bool = True

    def called(self, calling: Calling, arguments: tuple[Value, ...]) -> Value:
        given = (held(value, type_) for value, type_ in zip(arguments, self.parameters, strict=True))
        return held(self.body(calling, *given), self.result)


_HELD = {"long": ctypes.c_int64, "int": ctypes.c_int32, "unsigned char": ctypes.c_uint8}


def held(value: Value, type_: str) -> Value:
    """The value that a variable of that type holds after the assignment."""
    if type_ == "double":
        return float(value)
    return _HELD[type_](value).value if isinstance(value, int) and type_ in _HELD else value


def _outer(calling: Calling, a: int, b: int) -> Value:
    r = calling("one", held(a + 1, "long"))
    return held(r + calling("two", r, b), "long")  # type: ignore[operator]


def _deep(calling: Calling, n: int, k: int) -> Value:
    if n <= 0 or n > 3:
        return k
    return calling("deep", n - 1, held(k + 1, "long")) * 2 + n  # type: ignore[operator, return-value]


def pair(text: str) -> tuple[int, int]:
    """The two members of a struct, which is a text here, as in events."""
    x, y = text.split(",")
    return int(x), int(y)


TWINS = {
    one.name: one
    for one in (
        Twin("one", "long", ("long",), lambda _, a: a * 2 + 1),
        Twin("two", "long", ("long", "long"), lambda _, a, b: a - b),
        Twin("three", "long", ("long",) * 3, lambda _, a, b, c: a + b * c),
        Twin("outer", "long", ("long", "long"), _outer, leaf=False),
        Twin("deep", "long", ("long", "long"), _deep, leaf=False),
        Twin("text", "long", ("const char *", "long"), lambda _, s, n: ord(s[0]) + n),
        Twin("both", "long", ("struct pair", "long"), lambda _, p, n: pair(p)[0] * n + pair(p)[1]),
        Twin("nothing", "void", ("long",), lambda _, a: a, leaf=False),
        Twin("eight", "long", ("long",) * 8, lambda _, *n: sum(i * each for i, each in enumerate(n, 1))),
        Twin("real", "double", ("double", "long"), lambda _, x, n: x * n + 0.5),
        Twin("narrow", "int", ("int", "unsigned char"), lambda _, a, b: a + b),
    )
}


@dataclass(frozen=True)
class Command:
    """A line of input, which has main call a function."""

    function: str
    arguments: tuple[Value, ...]

    @property
    def line(self) -> str:
        words = (" ".join(one.split(",")) if isinstance(one, str) else f"{one}" for one in self.arguments)
        return " ".join((self.function, *words))


def shown(value: Value) -> str:
    """The value as the program prints it."""
    return f"{value:.17g}" if isinstance(value, float) else f"{value}"


def build(place: Path, source: str = SOURCE) -> Path:
    path, output = place / "program.c", place / "program"
    path.write_text(source)
    subprocess.run(["gcc", *OPTIONS, "-o", output, path], check=True)
    return output


class Commanded:
    """The running program."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self.process = subprocess.Popen([path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def ask(self, line: str) -> str:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@contextlib.contextmanager
def commanded(path: Path, *arguments: str) -> Iterator[Commanded]:
    """Run the program, which must end with status 0."""
    program = Commanded(path, *arguments)
    stdin, stdout = program.process.stdin, program.process.stdout
    assert stdin and stdout
    try:
        yield program
        stdin.close()
        assert program.process.wait(60) == 0
    finally:
        program.process.kill()
        program.process.wait()
        with contextlib.suppress(BrokenPipeError):
            stdin.close()
        stdout.close()
