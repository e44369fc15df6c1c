# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types from BTF agree with the compiler that wrote it, and BTF that no compiler would write does no harm."""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gilk.engines.dtrace.btf_types import BtfTypes
from gilk.errors import ImageError
from gilk.image.kernel.btf import Btf, TypeKind
from gilk.lang.types import CHAR, ULONG, VOID, Array, Integer, Pointer, Record, size_of
from tests.engines.dtrace.test_debug_types import Made, made, value, written

TEXT = """
typedef int number_t; typedef number_t *numbers_t; struct list { struct list *next; const volatile number_t *n; };
struct none; union both { double d; long l; __int128 w; }; enum color { RED, BLUE = -5 };
struct all { numbers_t many; struct none *hidden; enum color c; union both b; char name[16]; int (*call)(int);
    long end[]; };
unsigned long taking(struct all *a, char c, const char *text, struct list *l, ...) { return 0; }
void plain(void) {}
struct all *variable;
"""


def content(source: str, place: Path) -> bytes:
    (place / "t.c").write_text(source)
    subprocess.run(["gcc", "-gbtf", "-O0", "-w", "-c", "-o", place / "t.o", place / "t.c"], check=True)
    return extracted(place / "t.o")


def extracted(program: Path) -> bytes:
    out = program.with_suffix(".btf")
    flags = ["--only-section=.BTF", "--set-section-flags", ".BTF=alloc"]
    subprocess.run(["objcopy", "-O", "binary", *flags, program, out], check=True)
    return out.read_bytes()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return content(TEXT, tmp_path_factory.mktemp("btf"))


def test_members_are_at_the_compilers_offsets(tmp_path: Path) -> None:
    chance, structs = random.Random(5), list[Made]()
    for number in range(60):
        structs.append(made(chance, f"s{number}", structs[-5:]))
    _, bytes_of = written(tmp_path, structs, ["-g", "-gbtf"])
    types = BtfTypes("t", Btf(extracted(tmp_path / "types")))
    missing = 0
    for each in structs:
        type_ = types.named("struct", each.name)
        assert isinstance(type_, Record) and type_.size == len(bytes_of[each.name])
        for path, wanted in each.leaves:
            if path.endswith("]"):
                continue  # gcc 12 reverses the sizes of an array of arrays
            found = value(types, type_, path, bytes_of[each.name])
            assert found in (wanted, None), (each.text, path)
            missing += found is None
    assert missing <= sum(len(each.leaves) for each in structs) / 50  # some lie over nine bytes, in packed structs


def test_types_are_found_by_name(data: bytes) -> None:
    types = BtfTypes("t", Btf(data))
    number = Integer("number_t", 4, True, 2)
    assert types.named("", "number_t") == number and types.named("", "numbers_t") == Pointer(number)
    found = types.named("struct", "all")
    assert isinstance(found, Record)
    members = {member.name: member.type for member in found.members}
    hidden, both = members["hidden"], members["b"]
    assert isinstance(hidden, Pointer) and isinstance(hidden.to, Record)
    assert not types.completed(hidden.to).complete
    assert isinstance(both, Record) and both.size == 16
    assert members["name"] == Array(CHAR, 16) and members["call"] == Pointer(VOID)
    assert isinstance(members["end"], Array) and members["end"].count == 0
    head = types.named("struct", "list")
    assert isinstance(head, Record) and isinstance(head.members[0].type, Pointer)
    following = head.members[0].type.to
    assert isinstance(following, Record) and not following.complete
    assert types.completed(following).members == head.members
    assert types.named("struct", "nothing") is None and types.named("union", "all") is None


def test_functions_have_their_parameters(data: bytes) -> None:
    """The dots of a function with any number of parameters are left out."""
    found = BtfTypes("t", Btf(data)).function("taking")
    assert found is not None
    value_, given = found
    assert value_ == ULONG and given[1:3] == (CHAR, Pointer(CHAR)) and len(given) == 4
    assert BtfTypes("t", Btf(data)).function("plain") == (VOID, ())
    assert BtfTypes("t", Btf(data)).function("absent") is None


def test_damaged_btf_raises_only_image_errors(data: bytes) -> None:
    chance = random.Random(1)
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 6)):
            damaged[chance.randrange(24, len(damaged))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        with suppress(ImageError):
            types = BtfTypes("t", Btf(bytes(damaged)))
            for kind, name in (("struct", "all"), ("struct", "list"), ("", "numbers_t"), ("union", "both")):
                with suppress(ImageError):
                    found = types.named(kind, name)
                    assert not isinstance(found, Record) or all(_is_inside(found))
            with suppress(ImageError):
                types.function("taking"), types.variable("variable")


def _is_inside(record: Record) -> list[bool]:
    return [0 <= one.offset <= record.size - size_of(one.type, 1) for one in record.members]


# BTF written here, type by type.


class _Written:
    def __init__(self) -> None:
        self.types, self.strings, self.count = bytearray(), bytearray(b"\0"), 0

    def add(self, kind: TypeKind, name: str, size: int, *words: int, count: int = 0, flag: bool = False) -> int:
        """Add a type, and return its number."""
        self.types += struct.pack("<III", self._string(name), kind << 24 | count | flag << 31, size)
        self.types += struct.pack(f"<{len(words)}I", *words)
        self.count += 1
        return self.count

    def record(self, name: str, size: int, *members: tuple[str, int, int], flag: bool = False) -> int:
        words = [word for member, type_, at in members for word in (self._string(member), type_, at)]
        return self.add(TypeKind.STRUCT, name, size, *words, count=len(members), flag=flag)

    def _string(self, text: str) -> int:
        at = len(self.strings)
        self.strings += text.encode() + b"\0"
        return at if text else 0

    def read(self) -> BtfTypes:
        head = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(self.types), len(self.types), len(self.strings))
        return BtfTypes("t", Btf(head + bytes(self.types + self.strings)))


def test_btf_written_by_the_tests_is_read_back() -> None:
    """Otherwise the tests below would show nothing."""
    btf = _Written()
    number = btf.add(TypeKind.INT, "int", 4, 1 << 24 | 32)
    btf.record("s", 8, ("a", number, 0), ("b", number, 3 << 24 | 33), flag=True)
    found = btf.read().named("struct", "s")
    assert isinstance(found, Record)
    assert [(one.name, one.offset, one.bits, one.shift) for one in found.members] == [("a", 0, 0, 0), ("b", 4, 3, 1)]


@pytest.mark.parametrize(
    ("at", "flag"), [(48, False), (1, False), (1 << 31, False), (5 << 24 | 60, True), (70 << 24, True)]
)
def test_a_member_outside_its_struct_is_left_out(at: int, flag: bool) -> None:
    btf = _Written()
    number = btf.add(TypeKind.INT, "int", 4, 1 << 24 | 32)
    btf.record("s", 8, ("a", number, 0), ("x", number, at), flag=flag)
    found = btf.read().named("struct", "s")
    assert isinstance(found, Record) and [one.name for one in found.members] == ["a"]


def _itself(btf: _Written) -> None:
    btf.record("s", 8, ("s", 1, 0))


def _round_about(btf: _Written) -> None:
    btf.record("s", 8, ("a", 2, 0), ("b", 2, 0))
    btf.record("t", 8, ("a", 1, 0), ("b", 1, 0))


def _qualifiers(btf: _Written) -> None:
    btf.add(TypeKind.CONST, "", 1)
    btf.record("s", 8, ("a", 1, 0))


def _pointers(btf: _Written) -> None:
    """The types are asked for in an order in which each needs only a few more than the last."""
    number = btf.add(TypeKind.INT, "int", 4, 1 << 24 | 32)
    chain = [btf.add(TypeKind.PTR, "", number + at) for at in range(2000)]
    btf.record("s", 8, *((f"m{at}", at, 0) for at in chain[::10]))


def _arrays(btf: _Written) -> None:
    number = btf.add(TypeKind.INT, "int", 4, 1 << 24 | 32)
    for at in range(8):
        btf.add(TypeKind.ARRAY, "", 0, number + at, number, 1 << 31)
    btf.record("s", 8, ("a", number + 8, 0))


@pytest.mark.parametrize("wrong", [_itself, _round_about, _qualifiers, _pointers, _arrays])
def test_btf_that_no_compiler_writes_is_refused(wrong: Callable[[_Written], None]) -> None:
    btf = _Written()
    wrong(btf)
    with pytest.raises(ImageError, match=r"types in types|contains itself|an array of"):
        btf.read().named("struct", "s")


def test_an_exponentially_nested_struct_is_built_once_per_level() -> None:
    btf = _Written()
    last = btf.record("s0", 0)
    for level in range(1, 40):
        last = btf.record(f"s{level}", 0, ("a", last, 0), ("b", last, 0))
    found = btf.read().named("struct", "s39")
    assert isinstance(found, Record) and len(found.members) == 2
