# SPDX-License-Identifier: LGPL-2.1-or-later
"""Random types are compiled, and written again from the compiler's debug information: each member, filled alone, is
at the same bits."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.engines.dtrace.debug_types import DebugTypes
from gilk.image.dwarf import sections
from gilk.image.dwarf.entries import Entries
from gilk.lang.c.declarations import NamedType, TypeDeclarations
from gilk.lang.types import Record
from tests.seldom import seldom

_NUMBERS = ("char", "signed char", "unsigned char", "short", "unsigned", "int", "long", "unsigned long", "_Bool")
_OTHERS = ("float", "double", "void *", "enum sort", "long double", "struct s0 *")
#: clang does not describe a bit-field as such, nor its place, if it is as wide as its type.
_WIDTHS = {"char": 7, "short": 15, "long": 63, "_Bool": 1}
_STRUCTS = 40
_PACKED = ("", "", " __attribute__((packed))", " __attribute__((packed, aligned(4)))")


class Made:
    """Random C types. ``members`` has, for each struct or union, the members that can be filled alone; True for
    bit-fields."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.types = "enum sort { LEAST = -7, MOST = 1 << 30 };\nstruct s0 { int first; };\n"
        self.members: dict[str, dict[str, bool]] = {"struct s0": {"first": False}}
        for number in range(1, _STRUCTS):
            self._struct(f"s{number}")

    def _struct(self, name: str) -> None:
        named = f"{self._random.choice(('struct', 'struct', 'union'))} {name}"
        filled: dict[str, bool] = {}
        texts = [self._member(f"m{number}", filled) for number in range(self._random.randint(1, 7))]
        self.types += f"{named} {{ {' '.join(texts)} }}{self._random.choice(_PACKED)};\n"
        self.members[named] = filled

    def _member(self, name: str, filled: dict[str, bool]) -> str:
        """The C of a member."""
        kind, number = self._random.randrange(8), self._random.choice(_NUMBERS)
        filled |= {f"{name}_a": False, f"{name}_b": False} if kind == 4 else {name: kind < 2}
        if kind < 2:
            return f"{number} {name} : {self._random.randint(1, _WIDTHS.get(number.split()[-1], 31))};"
        if kind == 2:
            return f"{self._random.choice(list(self.members))} {name};"
        if kind == 3:
            return f"{number} {name}[2][3];"
        if kind == 4:
            return f"{self._random.choice(('struct', 'union'))} {{ short {name}_a; long {name}_b; }};"
        return f"{self._random.choice(_OTHERS) if kind == 5 else number} {name};"

    def lines(self) -> Iterator[str]:
        """C statements, each of which prints the bytes of a struct with one member filled."""
        for named, members in self.members.items():
            for member, bits in members.items():
                fill = f"one.{member} = -1" if bits else f"memset(&one.{member}, 255, sizeof one.{member})"
                yield f'{{ static {named} one; {fill}; show("{named} {member}", &one, sizeof one); }}'


SHOW = """
#include <stdio.h>
#include <string.h>
static void show(const char *what, const void *at, unsigned long size)
{
	printf("%s %lu ", what, size);
	for (unsigned long n = 0; n < size; n++) printf("%02x", ((const unsigned char *)at)[n]);
	puts("");
}
"""


def printed(place: Path, name: str, types: str, made: Made, compiler: str) -> list[str]:
    (place / f"{name}.c").write_text(f"{types}{SHOW}int main(void)\n{{\n" + "\n".join(made.lines()) + "\nreturn 0; }\n")
    subprocess.run([compiler, "-g", "-w", "-O0", "-o", place / name, place / f"{name}.c"], check=True)
    return subprocess.run([place / name], capture_output=True, text=True, check=True).stdout.splitlines()


def left_out(made: Made, roots: list[NamedType]) -> set[tuple[str, str, str]]:
    """The bit-fields of packed structs that no integer within the struct holds, which are not read (docs/limits.md)."""
    lost = set()
    for one in roots:
        members = made.members[f"{one.kind} {one.name}"]
        assert isinstance(one.type, Record)
        for name in [name for name, bits in members.items() if bits and one.type.member(name) is None]:
            del members[name]
            lost.add((one.kind, one.name, name))
    return lost


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("seed", seldom(range(4), 2))
def test_recreated_declarations_have_members_at_the_same_bits(tmp_path: Path, compiler: str, seed: int) -> None:
    made = Made(seed)
    expected = printed(tmp_path, "original", made.types, made, compiler)
    found = sections.read(tmp_path / "original")
    assert found is not None
    debug = DebugTypes("original", Entries(found))
    roots = []
    for named in made.members:
        kind, _, name = named.partition(" ")
        type_ = debug.named(kind, name)
        assert type_ is not None
        roots.append(NamedType(kind, name, type_))
    lost = left_out(made, roots)
    assert len(lost) < len(expected) / 10
    text = TypeDeclarations(roots, debug.completed).text(())
    written = printed(tmp_path, "written", text, made, "gcc")
    assert written == [line for line in expected if tuple(line.split()[:3]) not in lost]
