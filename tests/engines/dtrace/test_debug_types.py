# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types from debug information agree with the compiler that made it: the places of members, and their bits.

The compiler's forms are all tried: DWARF 3 to 5, compressed sections, types in units of their own.
"""

from __future__ import annotations

import random
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from gilk.engines.dtrace.debug_types import DebugTypes
from gilk.engines.dtrace.parameters import placed
from gilk.errors import ImageError
from gilk.image.dwarf import sections
from gilk.image.dwarf.entries import Entries
from gilk.lang.types import Array, Enumeration, Float, Integer, Member, Pointer, Record, Type, size_of
from gilk.toolchain.compilers import compiler

INTEGERS = {"char": 8, "signed char": 8, "unsigned char": 8, "short": 16, "unsigned short": 16, "int": 32}
INTEGERS |= {"unsigned": 32, "long": 64, "u64": 64, "_Bool": 1}
FLAGS = [
    ["-gdwarf-3", "-gstrict-dwarf"],
    ["-gdwarf-4"],
    ["-gdwarf-5"],
    ["-gdwarf-5", "-gz=zlib"],
    ["-gdwarf-5", "-fdebug-types-section"],
]


@dataclass
class Made:
    """A struct of the test. ``leaves`` are the C text of each member, and the value it is set to."""

    name: str
    text: str
    leaves: list[tuple[str, int]]


def made(chance: random.Random, name: str, known: list[Made], depth: int = 0) -> Made:
    members, leaves = [], []
    packed = " __attribute__((packed))" if chance.random() < 0.2 else ""
    for number in range(chance.randint(1, 7)):
        member, kind = f"m{number}", chance.random()
        if kind < 0.35:
            integer = chance.choice(list(INTEGERS))
            members.append(f"{integer} {member};")
            leaves.append((member, 1 if integer == "_Bool" else chance.getrandbits(7)))
        elif kind < 0.65:
            integer = chance.choice(list(INTEGERS))
            bits = chance.randint(1, INTEGERS[integer])
            members.append(f"{integer} {member} : {bits};")
            leaves.append((member, chance.getrandbits(bits - 1) if bits > 1 else 0))
        elif kind < 0.75:
            members.append(f"int {member}[2][3];")
            leaves += [(f"{member}[{i}][{j}]", chance.getrandbits(31)) for i in range(2) for j in range(3)]
        elif kind < 0.85 and known:
            inner = chance.choice(known)
            members.append(f"struct {inner.name} {member};")
            leaves += [(f"{member}.{path}", value) for path, value in inner.leaves]
        elif kind < 0.92 and depth < 2:
            inner = made(chance, "", known, depth + 1)
            members.append(f"struct {{ {inner.text} }} {member};")
            leaves += [(f"{member}.{path}", value) for path, value in inner.leaves]
        else:
            members.append(f"struct {{ enum color c{number}; struct {name or 'all'} *p{number}; }};")
            leaves += [(f"c{number}", 5), (f"p{number}", chance.getrandbits(40))]
    text = " ".join(members)
    return Made(name, f"struct {name} {{ {text} }}{packed};" if name else text, leaves)


def _constant(path: str, value: int) -> str:
    return f"(void *){value}L" if path.rpartition(".")[2].startswith("p") else f"{value}L"


def written(tmp_path: Path, structs: list[Made], flags: list[str]) -> tuple[DebugTypes, dict[str, bytes]]:
    """Compile and run the structs. Returns the types, and the bytes of each struct with its members set."""
    body = []
    for each in structs:
        sets = " ".join(f"v.{path} = {_constant(path, value)};" for path, value in each.leaves)
        body.append(f"{{ static struct {each.name} v; {sets} dump(&v, sizeof v); }}")
    text = "#include <stdio.h>\ntypedef unsigned long u64; enum color { RED, GREEN = 5 }; struct all { int x; } all;\n"
    text += "\n".join(each.text for each in structs)
    text += "\nstatic void dump(void *p, unsigned long n) { for (unsigned long i = 0; i < n; i++)"
    text += ' printf("%02x", ((unsigned char *)p)[i]); printf("\\n"); }\nint main(void) {\n' + "\n".join(body) + " }"
    source, program = tmp_path / "types.c", tmp_path / "types"
    source.write_text(text)
    subprocess.run([*compiler(), "-w", "-O0", *flags, "-o", program, source], check=True)
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    found = sections.read(program)
    assert found is not None
    names = [each.name for each in structs]
    data = {name: bytes.fromhex(line) for name, line in zip(names, lines, strict=True)}
    return DebugTypes("types", Entries(found)), data


class Completes(Protocol):
    def completed(self, record: Record) -> Record: ...


def value(debug: Completes, type_: Type, path: str, data: bytes) -> int | None:
    """The value of a leaf, extracted from the bytes by the types; None if there is no such member."""
    at, member = 0, Member("", type_, 0)
    for step in path.replace("[", ".[").split("."):
        if step.startswith("["):
            assert isinstance(member.type, Array)
            at += int(step[1:-1]) * size_of(member.type.of, 0)
            member = Member("", member.type.of, 0)
        else:
            assert isinstance(member.type, Record)
            inner = debug.completed(member.type).member(step)
            if inner is None:
                return None
            member, at = inner, at + inner.offset
    assert isinstance(member.type, Integer | Enumeration | Pointer), path
    number = int.from_bytes(data[at : at + size_of(member.type, 0)], "little")
    return number >> member.shift & (1 << member.bits) - 1 if member.bits else number


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_members_are_at_the_compilers_offsets(tmp_path: Path, flags: list[str]) -> None:
    chance, structs = random.Random(str(flags)), list[Made]()
    for number in range(60):
        structs.append(made(chance, f"s{number}", structs[-5:]))
    debug, data = written(tmp_path, structs, flags)
    missing = 0
    for each in structs:
        type_ = debug.named("struct", each.name)
        assert isinstance(type_, Record) and type_.complete
        assert type_.size == len(data[each.name]), each.text
        for path, wanted in each.leaves:
            found = value(debug, type_, path, data[each.name])
            assert found in (wanted, None), (each.text, path)
            missing += found is None
    assert missing <= sum(len(each.leaves) for each in structs) / 50  # some lie over nine bytes, in packed structs


TEXT = """
typedef int number_t; typedef number_t *numbers_t; struct list { struct list *next; const volatile number_t *n; };
struct list head; union both { double d; float f; long double l; __int128 w; };
enum small { A, B = 200 } __attribute__((packed)) little; static const char *const words[3];
extern int elsewhere; int elsewhere; struct none;
struct none *hidden; union both both; numbers_t many; struct pair { int a, b; }; struct mixed { double d; int i; };
struct large { long a, b, c; };
long taking(char c, double d, struct pair p, struct mixed m, struct large l, struct list *n, int i) { return c; }
"""


@pytest.fixture(scope="module")
def debug(tmp_path_factory: pytest.TempPathFactory) -> DebugTypes:
    place = tmp_path_factory.mktemp("types")
    (place / "t.c").write_text(TEXT)
    subprocess.run([*compiler(), "-w", "-g", "-shared", "-fPIC", "-o", place / "t.so", place / "t.c"], check=True)
    found = sections.read(place / "t.so")
    assert found is not None
    return DebugTypes("t", Entries(found))


def test_types_and_variables_are_found_by_name(debug: DebugTypes) -> None:
    number = Integer("number_t", 4, True, 2)
    assert debug.named("", "number_t") == number
    assert debug.named("", "numbers_t") == Pointer(number) == debug.variable("many")
    head = debug.named("struct", "list")
    assert isinstance(head, Record) and [member.type for member in head.members][1] == Pointer(number)
    following = head.members[0].type
    assert isinstance(following, Pointer) and isinstance(following.to, Record)
    assert not following.to.complete and debug.completed(following.to).members == head.members
    words = debug.variable("words")
    assert isinstance(words, Array) and words.count == 3 and isinstance(words.of, Pointer)
    assert debug.variable("elsewhere") == Integer("int", 4, True, 2)
    both = debug.named("union", "both")
    assert isinstance(both, Record) and [type(member.type) for member in both.members] == [Float, Float, Float, Array]
    assert debug.named("enum", "small") == Integer("enum small", 1, False, 0)


def test_names_that_do_not_exist_are_not_found(debug: DebugTypes) -> None:
    assert debug.named("struct", "nothing") is None and debug.variable("nothing") is None
    assert debug.named("struct", "none") is None and debug.function("head") is None
    hidden = debug.variable("hidden")
    assert isinstance(hidden, Pointer) and isinstance(hidden.to, Record) and not debug.completed(hidden.to).complete


def test_parameters_are_in_the_registers_of_the_abi(debug: DebugTypes) -> None:
    found = debug.function("taking")
    assert found is not None
    assert [register for _, register in placed(found[1])] == [0, None, None, None, None, 3, 4]


def test_damaged_debug_information_raises_only_image_errors(tmp_path: Path) -> None:
    """Whatever the bytes are, they are read, or there is an ImageError."""
    (tmp_path / "t.c").write_text(TEXT)
    subprocess.run([*compiler(), "-w", "-g", "-c", "-o", tmp_path / "t.o", tmp_path / "t.c"], check=True)
    subprocess.run([*compiler(), "-shared", "-o", tmp_path / "t.so", tmp_path / "t.o"], check=True)
    whole = sections.read(tmp_path / "t.so")
    assert whole is not None
    chance = random.Random(1)
    for _ in range(150):
        parts = [bytearray(whole.info), bytearray(whole.abbrev)]
        for _ in range(chance.randint(1, 6)):
            part = chance.choice(parts)
            part[chance.randrange(len(part))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        info, abbrev = map(bytes, parts)
        broken = sections.Sections(whole.path, info, abbrev, whole.strings, whole.line_strings, b"")
        debug = DebugTypes("t", Entries(broken))
        for name in ("list", "taking", "words"):
            with suppress(ImageError):
                debug.named("struct", name), debug.function(name), debug.variable(name)


def test_an_exponentially_nested_struct_is_built_once_per_level(tmp_path: Path) -> None:
    source, program = tmp_path / "deep.c", tmp_path / "deep.o"
    levels = "".join(f"struct s{n} {{ struct s{n - 1} a, b; }};" for n in range(1, 25))
    source.write_text(f"struct s0 {{ char c[0]; }};{levels} struct s24 deep;")
    subprocess.run(["cc", "-g", "-shared", "-fPIC", "-o", program, source], check=True)
    read = sections.read(program)
    assert read is not None
    found = DebugTypes("deep", Entries(read)).named("struct", "s24")
    assert isinstance(found, Record) and found.size == 0
