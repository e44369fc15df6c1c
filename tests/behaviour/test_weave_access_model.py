# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects about accesses of variables, alone, in sequences and at the end of control flows, do what their model
does: the program's output, reports in their order, counts of instances. Files and commands are made from a seed."""

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
from tests.behaviour.woven_program import Command, held
from tests.seldom import seldom

SEEDS = range(12)
MANY = int(os.environ.get("GILK_WOVEN_SEEDS", "600"))
SOURCE = r"""
#include <stdio.h>
#include <string.h>
#define NOINLINE __attribute__((noinline, noclone))
static long a; int b; static long total;
NOINLINE void set_a(long n) { a = n; }
NOINLINE long get_a(void) { return a; }
NOINLINE void set_b(long n) { b = (int)n; }
NOINLINE long get_b(void) { return b; }
NOINLINE void add_a(long n) { a += n; }
NOINLINE void add_b(long n) { b += (int)n; }
/* The nops are room for a jump at its end: one that shared bytes with what follows could lead into the heap. */
NOINLINE void both(long n) { __asm__ volatile("nop"); set_a(n); __asm__ volatile(""); add_b(n); __asm__ volatile("nop;nop;nop;nop;nop"); }
int main(void)
{
	char line[256], word[16];
	long n;

	setvbuf(stdout, 0, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		n = 0;
		sscanf(line, "%15s %ld", word, &n);
		if (!strcmp(word, "set_a")) set_a(n);
		else if (!strcmp(word, "set_b")) set_b(n);
		else if (!strcmp(word, "add_a")) add_a(n);
		else if (!strcmp(word, "add_b")) add_b(n);
		else if (!strcmp(word, "both")) both(n);
		else if (!strcmp(word, "get_a")) total = get_a();
		else if (!strcmp(word, "get_b")) total = get_b();
		printf("%ld\n", total);
	}
	return 0;
}
"""
TYPES = {"a": "long", "b": "int"}
FUNCTIONS = ("set_a", "get_a", "set_b", "get_b", "add_a", "add_b", "both")
_NUMBERS = (0, 1, 1, 2, 3, -1, 5)


class Accessing(PlayedAccesses):
    """The model of a thread that reads and writes the variables of the program."""

    def __init__(self, file: CheckedFile, pid: int) -> None:
        super().__init__(file, pid)
        self._variables = {"a": 0, "b": 0}
        self._shown = 0

    def command(self, one: Command) -> str:
        number = int(one.arguments[0]) if one.arguments else 0
        result = self._called(one.function, number)
        self._shown = self._shown if result is None else result
        return str(self._shown)

    def _called(self, function: str, number: int) -> int | None:
        verb, _, variable = function.partition("_")
        given = () if verb == "get" else (number,)
        self._step(EventKind.CALL, function, arguments=given)
        result = None
        if verb == "set":
            self._write(variable, number, function)
        elif verb == "get":
            result = self._read(variable, function)
        elif verb == "add":
            self._write(variable, self._read(variable, function) + number, function)
        else:
            self._called("set_a", number)
            self._called("add_b", number)
        self._step(EventKind.RETURN, function, value=result)
        return result

    def _size(self, variable: str) -> int:
        return {"long": 8, "int": 4}[TYPES[variable]]

    def _read(self, variable: str, function: str) -> int:
        now = self._variables[variable]
        read = self._step(EventKind.READ, function, variable=variable, value=now, size=self._size(variable))
        return int(held(int(read[-1]), TYPES[variable])) if read else now

    def _write(self, variable: str, value: int, function: str) -> None:
        value = int(held(value, TYPES[variable]))
        before, old = len(self.deeds), self._variables[variable]
        self._step(EventKind.WRITE, function, variable=variable, value=value, old=old, size=self._size(variable))
        if not any(one.did is Did.SKIPPED for one in self.deeds[before:]):
            self._variables[variable] = value


class _Maker:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._names = iter(f"n{number}" for number in range(99))

    def file(self) -> str:
        return "\n".join(self.aspect() for _ in range(self.chance.randint(2, 4))) + "\n"

    def aspect(self) -> str:
        if self.chance.random() < 0.4:
            return f"{self.element()};"
        elements = [self.element() for _ in range(self.chance.randint(2, 4))]
        middle = [one + (" *" if self.chance.random() < 0.4 else "") for one in elements[1:-1]]
        options = self.chance.choice(("", "instances 2 ", "perthread "))
        until = f" until {self.match()[0]}" if self.chance.random() < 0.3 else ""
        return f"{options}seq({'; '.join((elements[0], *middle, elements[-1]))}){until};"

    def element(self) -> str:
        match, names, kind = self.match()
        when = self.chance.choice(("", "before", "after", "inplace", "none"))
        if when == "none" or (kind == "call" and when == "inplace"):
            return match
        shown = (
            f'report("{match.split("(")[0]} {" ".join("%ld" for _ in names)}"'
            + "".join(f", (long){n}" for n in names)
            + ");"
        )
        if when != "inplace":
            return f"{match} then {when} {{ {shown} }}"
        if kind == "read":
            more = self.chance.choice(("return proceed();", "return proceed() + 1;", "return 4;"))
        else:
            more = self.chance.choice(("proceed();", "", f"if ({names[0] if names else 1} > 1) proceed();"))
        return f"{match} then inplace {{ {shown} {more} }}"

    def match(self) -> tuple[str, list[str], str]:
        kind = self.chance.choice(("read", "write", "write", "call"))
        variable = self.chance.choice("ab")
        if kind == "call":
            function = self.chance.choice([one for one in FUNCTIONS if not one.startswith("get")])
            name = next(self._names)
            return f"call(void {function}(long {name}))", [name], kind
        names = [next(self._names)]
        point = f"{kind}Global({TYPES[variable]} {variable})"
        if self.chance.random() < 0.3:
            outer = self.chance.choice(("both", f"set_{variable}", f"add_{variable}"))
            word = self.chance.choice(("controlflow", "controlflowstar"))
            names.insert(0, next(self._names))
            point = f"{word}(call(void {outer}(long {names[0]})), {point})"
        text = f"{point} && value({names[-1]})"
        if kind == "write" and self.chance.random() < 0.5:
            names.append(next(self._names))
            text += f" && old({names[-1]})"
        if self.chance.random() < 0.2:
            text += f" && in({self.chance.choice(('set_*', 'add_*', 'get_*'))})"
        if self.chance.random() < 0.4:
            text += f" && if ({names[-1]} {self.chance.choice(('>', '!=', '<='))} {self.chance.choice(_NUMBERS)})"
        return text, names, kind


def commands(seed: int) -> tuple[Command, ...]:
    chance = random.Random(seed)
    return (Command("get_a", ()), *(_command(chance) for _ in range(40)))


def _command(chance: random.Random) -> Command:
    function = chance.choice(FUNCTIONS)
    return Command(function, () if function.startswith("get") else (chance.choice(_NUMBERS),))


CASES = Cases(lambda seed: _Maker(seed).file(), commands, Accessing, tuple(f"set_{variable} 0" for variable in TYPES))


@pytest.fixture(scope="module")
def agreement(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agreement]:
    with agreeing(CASES, tmp_path_factory.mktemp("accessing"), SOURCE) as found:
        yield found


@pytest.mark.parametrize("seed", seldom(SEEDS, 2))
def test_woven_accesses_agree_with_the_model(agreement: Agreement, tmp_path: Path, seed: int) -> None:
    agreement.holds(tmp_path, seed)


@pytest.mark.stress
@pytest.mark.parametrize("first", range(1000, 1000 + MANY, 20))
def test_woven_accesses_agree_with_the_model_for_many_seeds(agreement: Agreement, tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        agreement.holds(tmp_path, seed)


def test_the_cases_detect_a_mistake_in_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that ignores the conditions of accesses behaves differently in one of the cases."""
    sound = CASES.all_played(tmp_path, SEEDS)
    monkeypatch.setattr("gilk.lang.aspect.matching._is_variable", lambda point, hit: True)
    assert CASES.all_played(tmp_path, SEEDS) != sound
