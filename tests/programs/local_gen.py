# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs with many variables in one function ``work``, which differ by a seed: parameters in registers and on the
stack, blocks that shadow each other, structs, arrays, static variables, pointers, an inlined function."""

from __future__ import annotations

import random
from collections.abc import Iterator

_HEAD = """
#include <stdio.h>
struct item { int n; signed char c; struct item *next; long big; };
static volatile int sink;
__attribute__((noinline)) static void touch(int *at) { *at += sink & 3; }
static inline __attribute__((always_inline)) int inner(int x, int twice)
{
	int k = x * 2 + twice;
	sink = k;
	return k ^ sink;
}
"""
_TAIL = """
int main(void)
{
	struct item last = { 7, -3, 0, 1L << 40 }, first = { 5, 9, &last, -2 };
	int sum = 0;
	for (int round = 0; round < 3; round++)
		sum += work(&first, round, -1L - round, (signed char)(round - 1), round * 7u, 11, 12 + round, 13 - round);
	return printf("%d\\n", sum) < 0;
}
"""
_PARAMETERS = (
    "struct item *it, int by, long wide, signed char letter, unsigned int plain, int sixth, int seventh, int eighth"
)
_NAMES = ("by", "letter", "plain", "sixth", "seventh", "eighth")


def program(seed: int) -> str:
    """The C of a program."""
    chance = random.Random(seed)
    body = "".join(_block(chance, list(_NAMES), 1, 3))
    return f"{_HEAD}__attribute__((noinline)) int work({_PARAMETERS})\n{{\n{body}}}\n{_TAIL}"


def _block(chance: random.Random, names: list[str], depth: int, size: int) -> Iterator[str]:
    tab, known = "\t" * depth, list(names)
    for number in range(size + chance.randrange(2)):
        name = chance.choice(["k", "j", "total", f"v{depth}{number}"])
        fresh = f"{name}{'' if depth == 1 or chance.random() < 0.4 else depth}"
        if fresh not in known[len(names) :]:
            yield f"{tab}int {fresh} = {_value(chance, known)};\n"
            known.append(fresh)
        yield f"{tab}sink = {chance.choice(known)};\n"
        yield from _statement(chance, known, depth)
    yield f"{tab}sink = {' + '.join(known[-3:])};\n"
    if depth == 1:
        yield f"{tab}return {' ^ '.join(known[-4:])};\n"


def _statement(chance: random.Random, known: list[str], depth: int) -> Iterator[str]:
    tab, one = "\t" * depth, chance.choice(known)
    kind = chance.randrange(7)
    if kind == 0:
        yield f"{tab}touch(&{chance.choice([each for each in known if each not in ('letter', 'plain')])});\n"
    elif kind == 1:
        copy = f"copy{chance.randrange(1 << 20)}"
        yield f"{tab}struct item {copy} = *it;\n{tab}{copy}.n += {one};\n{tab}sink = {copy}.n;\n"
        yield f"{tab}touch(&{copy}.n);\n"
    elif kind == 2:
        calls = f"calls{chance.randrange(1 << 20)}"
        yield f"{tab}static int {calls};\n{tab}{calls} += {one} & 7;\n"
    elif kind == 3:
        yield f"{tab}{one} += inner({chance.choice(known)}, {chance.randrange(9)});\n"
    elif kind == 4:
        few = f"few{chance.randrange(1 << 20)}"
        yield f"{tab}int {few}[3] = {{ {one}, by, 3 }};\n{tab}touch({few});\n"
    elif depth < 3 and kind == 5:
        yield f"{tab}for (int i = 0; i < 2; i++) {{\n"
        yield from _block(chance, [*known, "i"], depth + 1, 1)
        yield f"{tab}}}\n"
    elif depth < 3:
        yield f"{tab}if ({one} & {1 + chance.randrange(3)}) {{\n"
        yield from _block(chance, known, depth + 1, 1)
        yield f"{tab}}}\n"


def _value(chance: random.Random, known: list[str]) -> str:
    one, other = chance.choice(known), chance.choice(known)
    return chance.choice([
        f"{one} + it->n", f"{one} ^ ({other} << 2)", "it->next->c", f"{one} * 3 - sink", f"(int)(wide >> 1) + {other}",
        str(chance.randrange(99)), f"{one}", f"sink + {other}",
    ])  # fmt: skip
