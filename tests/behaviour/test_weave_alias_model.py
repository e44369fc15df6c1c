# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects about accesses by address do what their model does: the program's output, reports in their order, counts
of instances. Instances watch overlapping parts of one piece of memory. Files and commands are made from a seed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.lang.aspect.checked import CheckedFile
from gilk.lang.aspect.deeds import Did
from gilk.lang.aspect.events import EventKind
from tests.behaviour.woven_access import Agreement, Cases, PlayedAccesses, agreeing
from tests.behaviour.woven_program import Command
from tests.seldom import seldom

SEEDS = range(10)
MANY = int(os.environ.get("GILK_WOVEN_SEEDS", "600"))
SOURCE = r"""
#include <stdio.h>
#include <string.h>
#define NOINLINE __attribute__((noinline, noclone))
static char pool[512] __attribute__((aligned(64)));
NOINLINE char *grab(long at, long n) { __asm__ volatile("" : : "r"(n)); return pool + at; }
NOINLINE void release(char *p) { __asm__ volatile("" : : "r"(p)); }
NOINLINE void store1(char *p, long v) { *(volatile char *)p = (char)v; }
NOINLINE void store8(char *p, long v) { *(volatile long *)p = v; }
NOINLINE void store16(char *p, long v)
{ __asm__ volatile("movq %1, %%xmm0; punpcklqdq %%xmm0, %%xmm0; movups %%xmm0, (%0)" : : "r"(p), "r"(v) : "xmm0", "memory"); }
NOINLINE long load1(char *p) { return *(volatile unsigned char *)p; }
NOINLINE long load8(char *p) { return *(volatile long *)p; }
NOINLINE void add8(char *p, long v) { __asm__ volatile("addq %1, (%0)" : : "r"(p), "r"(v) : "memory", "cc"); }
NOINLINE void fill(char *p, long n)
{ long v = 7; __asm__ volatile("rep stosb" : "+D"(p), "+c"(n) : "a"(v) : "memory"); }
NOINLINE void copy(char *p, long n)
{ char *from = pool; __asm__ volatile("rep movsb" : "+D"(p), "+c"(n), "+S"(from) : : "memory"); }
int main(void)
{
	char line[256], word[16];
	long at, n, r;

	setvbuf(stdout, 0, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		at = n = r = 0;
		sscanf(line, "%15s %ld %ld", word, &at, &n);
		if (!strcmp(word, "grab")) r = grab(at, n) - pool;
		else if (!strcmp(word, "release")) release(pool + at);
		else if (!strcmp(word, "store1")) store1(pool + at, n);
		else if (!strcmp(word, "store8")) store8(pool + at, n);
		else if (!strcmp(word, "store16")) store16(pool + at, n);
		else if (!strcmp(word, "load1")) r = load1(pool + at);
		else if (!strcmp(word, "load8")) r = load8(pool + at);
		else if (!strcmp(word, "add8")) add8(pool + at, n);
		else if (!strcmp(word, "fill")) fill(pool + at, n);
		else if (!strcmp(word, "copy")) copy(pool + at, n);
		else if (!strcmp(word, "clear")) memset(pool, 0, sizeof pool);
		printf("%ld\n", r);
	}
	return 0;
}
"""
BASE = 0x10000  # the address of the memory in the model
SIZES = {"store1": 1, "store8": 8, "store16": 16, "load1": 1, "load8": 8, "add8": 8}
VALUED = "in(store1, store8, load1, load8, add8)"
ANY = "in(store*, add8, fill, copy)"


class Accessing(PlayedAccesses):
    """The model of a thread that reads and writes the memory."""

    def __init__(self, file: CheckedFile, pid: int) -> None:
        super().__init__(file, pid)
        self._pool = bytearray(512)

    def command(self, one: Command) -> str:
        at, number = (*map(int, one.arguments), 0, 0)[:2]
        if one.function == "clear":
            self._pool = bytearray(512)
            return "0"
        where = BASE + at
        self._step(EventKind.CALL, one.function, arguments=(at if one.function == "grab" else where, number))
        result = self._done(one.function, at, number)
        told = {"grab": where}.get(one.function, result)
        self._step(EventKind.RETURN, one.function, value=told)
        return str(result)

    def _done(self, function: str, at: int, number: int) -> int:
        if function in ("grab", "release"):
            return at if function == "grab" else 0
        if function.startswith("load"):
            return self._read(function, at)
        if function == "add8":
            number = _signed(self._read(function, at) + number)
        self._write(function, at, number)
        return 0

    def _read(self, function: str, at: int) -> int:
        size = SIZES[function]
        now = int.from_bytes(self._pool[at : at + size], "little", signed=size == 8)
        read = self._step(EventKind.READ, function, address=BASE + at, value=now, size=size)
        if not read:
            return now
        return _signed(int(read[-1])) if size == 8 else int(read[-1]) & 0xFF

    def _write(self, function: str, at: int, number: int) -> None:
        size = SIZES.get(function, number)
        new = (number & (1 << 64) - 1).to_bytes(8, "little")
        if function == "fill":
            new = b"\7" * size
        elif function == "copy":
            new = self._copied(at, size)
        else:
            new = (new * 2)[:size]
        before = len(self.deeds)
        old = int.from_bytes(self._pool[at : at + min(size, 8)], "little", signed=size >= 8)
        value = int.from_bytes(new[:8], "little", signed=size >= 8)
        if size:
            self._step(EventKind.WRITE, function, address=BASE + at, value=value, old=old, size=size)
        if not any(one.did is Did.SKIPPED for one in self.deeds[before:]):
            self._pool[at : at + size] = new

    def _copied(self, at: int, size: int) -> bytes:
        """The result of a copy that goes byte by byte, as the instruction does."""
        pool = bytearray(self._pool)
        for n in range(size):
            pool[at + n] = pool[n]
        return bytes(pool[at : at + size])


def _signed(value: int) -> int:
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


class _Maker:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def file(self) -> str:
        return "\n".join(self.aspect(number) for number in range(self.chance.randint(1, 3))) + "\n"

    def aspect(self, number: int) -> str:
        self._pointer = self.chance.choice(("char *", "long *", "void *"))
        options = self.chance.choice(("", "", "unique(b) ", "instances 3 ", "perthread "))
        first = f"call({self._pointer}grab(long at, long n)) && return(b)"
        middle = [self.element(f"v{number}{each}") for each in range(self.chance.randint(1, 2))]
        stars = [one + (" *" if self.chance.random() < 0.7 else "") for one in middle]
        until = " until " + self.match("u")[0] if self.chance.random() < 0.3 else ""
        last = f"call(void release({self._pointer}b))"
        return f"{options}seq({first}; {'; '.join(stars)}; {last}){until};"

    def match(self, name: str) -> tuple[str, list[str], str]:
        kind = self.chance.choice(("write", "write", "read"))
        length = self.chance.choice(("", ", n", ", n + 8", ", 16", ", 2 * sizeof(long)"))
        if self._pointer == "void *" and not length:
            length = ", n"
        valued = kind == "read" or self.chance.random() < 0.4
        names = [f"s{name}", f"o{name}"]
        text = f"{kind}(b{length}) && size(s{name}) && offset(o{name}) && {VALUED if valued else ANY}"
        if valued:
            text += f" && value({name})"
            names.append(name)
        if valued and kind == "write":
            text += f" && old(w{name})"
            names.append(f"w{name}")
        if self.chance.random() < 0.3:
            text += f" && if (o{name} {self.chance.choice(('>=', '<', '!='))} {self.chance.choice((0, 4, 8))})"
        return text, names, kind

    def element(self, name: str) -> str:
        match, names, kind = self.match(name)
        valued = len(names) > 2
        when = self.chance.choice(("before", "after", "inplace") if valued else ("before", "inplace", "none"))
        if when == "none":
            return match
        shown = f'report("{kind}{" %ld" * len(names)}"' + "".join(f", (long){one}" for one in names) + ");"
        if when == "inplace" and kind == "read" and self._pointer == "char *":
            when = "before"  # a value of one byte cannot replace one of eight
        if when != "inplace":
            return f"{match} then {when} {{ {shown} }}"
        if kind == "read":
            more = self.chance.choice(("return proceed();", f"return {name};"))
        else:
            more = self.chance.choice(("proceed();", "", f"if (o{name} > 0) proceed();"))
        return f"{match} then inplace {{ {shown} {more} }}"


def commands(seed: int) -> tuple[Command, ...]:
    chance = random.Random(seed)
    return (Command("clear", ()), *(_command(chance) for _ in range(60)))


def _command(chance: random.Random) -> Command:
    function = chance.choice((*SIZES, *SIZES, "grab", "grab", "release", "fill", "copy"))
    at = chance.choice((64, 68, 72, 80, 88, 96, 100, 128, 200))
    if function == "grab":
        return Command(function, (chance.choice((64, 72, 80, 96, 128)), chance.choice((0, 1, 8, 24, 64, 200))))
    if function == "release":
        return Command(function, (chance.choice((64, 72, 80, 96, 128)),))
    if function.startswith("load"):
        return Command(function, (at,))
    return Command(function, (at, chance.choice((0, 1, 3, 5, 17, 40))))


CASES = Cases(lambda seed: _Maker(seed).file(), commands, Accessing)


@pytest.fixture(scope="module")
def agreement(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agreement]:
    with agreeing(CASES, tmp_path_factory.mktemp("aliases"), SOURCE) as found:
        yield found


@pytest.mark.parametrize("seed", seldom(SEEDS, 2))
def test_woven_aliases_agree_with_the_model(agreement: Agreement, tmp_path: Path, seed: int) -> None:
    agreement.holds(tmp_path, seed)


@pytest.mark.stress
@pytest.mark.parametrize("first", range(1000, 1000 + MANY, 20))
def test_woven_aliases_agree_with_the_model_for_many_seeds(agreement: Agreement, tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        agreement.holds(tmp_path, seed)


def test_the_cases_detect_a_mistake_in_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model in which every access reaches all memory behaves differently in one of the cases."""
    sound = CASES.all_played(tmp_path, SEEDS)
    monkeypatch.setattr("gilk.lang.aspect.matching._Binding._overlaps", lambda self, point: True)
    assert CASES.all_played(tmp_path, SEEDS) != sound
