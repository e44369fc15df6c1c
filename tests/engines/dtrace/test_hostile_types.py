# SPDX-License-Identifier: LGPL-2.1-or-later
"""False debug information, with sizes, counts and places that no compiler writes. The tests write it, entry by
entry."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gilk.engines.dtrace.debug_types import DebugTypes
from gilk.errors import ImageError
from gilk.image.dwarf.entries import Entries
from gilk.image.dwarf.sections import Sections
from gilk.lang.types import Array, Pointer, Record, Type
from gilk.render.d.typed import printed

UNIT, BASE, ENUM, STRUCT, UNION, MEMBER, ARRAY, RANGE = 0x11, 0x24, 0x04, 0x13, 0x17, 0x0D, 0x01, 0x21
POINTER, CONST, TYPEDEF = 0x0F, 0x26, 0x16
NAME, SIZE, ENCODING, TYPE, UPPER, COUNT, AT, BITS, BIT_AT = 0x03, 0x0B, 0x3E, 0x49, 0x2F, 0x37, 0x38, 0x0D, 0x6B
SDATA, STRING, REFERENCE, BLOCK = 0x0D, 0x08, 0x13, 0x0A


@dataclass
class One:
    """An entry. An attribute is a number, bytes, or the name of the entry that it refers to."""

    tag: int
    name: str
    attributes: dict[int, int | str | bytes] = field(default_factory=dict)
    inner: tuple[One, ...] = ()


class _Unit:
    """A unit of DWARF 4, in which every entry has an abbreviation of its own."""

    def __init__(self, entries: tuple[One, ...]) -> None:
        self.info, self.abbrev, self._number = bytearray(11), bytearray(), 0
        self._at: dict[str, int] = {}
        self._referring: list[tuple[int, str]] = []
        self._add(One(UNIT, "unit", {}, entries))
        self.abbrev += b"\0"
        for at, name in self._referring:
            self.info[at : at + 4] = struct.pack("<I", self._at[name])
        self.info[:11] = struct.pack("<IHIB", len(self.info) - 4, 4, 0, 8)

    def _add(self, one: One) -> None:
        self._number += 1
        self._at.setdefault(one.name, len(self.info))
        self.info += uleb(self._number)
        self.abbrev += uleb(self._number) + uleb(one.tag) + bytes([bool(one.inner)])
        self._put(NAME, STRING, one.name.encode() + b"\0")
        for attribute, value in one.attributes.items():
            match value:
                case int():
                    self._put(attribute, SDATA, sleb(value))
                case bytes():
                    self._put(attribute, BLOCK, bytes([len(value)]) + value)
                case str():
                    self._referring.append((len(self.info), value))
                    self._put(attribute, REFERENCE, bytes(4))
        self.abbrev += b"\0\0"
        for each in one.inner:
            self._add(each)
        self.info += b"\0" if one.inner else b""

    def _put(self, attribute: int, form: int, data: bytes) -> None:
        self.abbrev += uleb(attribute) + uleb(form)
        self.info += data


def uleb(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + uleb(rest) if rest else bytes([low])


def sleb(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    last = rest == -(low >> 6)
    return bytes([low]) if last else bytes([low | 0x80]) + sleb(rest)


def types(*entries: One) -> DebugTypes:
    unit = _Unit((One(BASE, "int", {SIZE: 4, ENCODING: 5}), *entries))
    return DebugTypes("t", Entries(Sections(Path("t"), bytes(unit.info), bytes(unit.abbrev), b"", b"", b"")))


def whole(*members: One, kind: int = STRUCT, size: int = 8) -> Record:
    found = types(One(kind, "s", {SIZE: size}, members)).named("union" if kind == UNION else "struct", "s")
    assert isinstance(found, Record)
    return found


def member(name: str, type_: str = "int", **given: int) -> One:
    names = {"at": AT, "bits": BITS, "bit_at": BIT_AT}
    return One(MEMBER, name, {TYPE: type_, **{names[word]: value for word, value in given.items()}})


def test_debug_information_written_by_the_tests_is_read_back() -> None:
    """Otherwise the tests below would show nothing."""
    found = whole(member("a", at=0), member("b", bits=3, bit_at=33))
    assert [(one.name, one.offset, one.bits, one.shift) for one in found.members] == [("a", 0, 0, 0), ("b", 4, 3, 1)]


@pytest.mark.parametrize("size", [3, 5, 16, -1, 1 << 40])
def test_an_enum_larger_than_a_number_is_refused(size: int) -> None:
    with pytest.raises(ImageError):
        types(One(ENUM, "e", {SIZE: size})).named("enum", "e")


@pytest.mark.parametrize("size", [-8, 1 << 47, 1 << 64])
@pytest.mark.parametrize("tag", [STRUCT, BASE])
def test_types_larger_than_the_address_space_are_refused(tag: int, size: int) -> None:
    with pytest.raises(ImageError):
        types(One(tag, "s", {SIZE: size, ENCODING: 5})).named("struct" if tag == STRUCT else "", "s")


def array(*ranges: dict[int, int | str | bytes], of: str = "int") -> Type | None:
    inner = tuple(One(RANGE, "", each) for each in ranges)
    return types(One(ARRAY, "a", {TYPE: of}, inner), One(TYPEDEF, "t", {TYPE: "a"})).named("", "t")


@pytest.mark.parametrize("last", [-1, (1 << 32) - 1])
def test_an_array_without_an_end_has_no_elements(last: int) -> None:
    found = array({UPPER: last})
    assert isinstance(found, Array) and found.count == 0


def test_an_array_of_more_than_four_thousand_million_elements() -> None:
    found = array({UPPER: (1 << 33) - 1})
    assert isinstance(found, Array) and found.count == 1 << 33


@pytest.mark.parametrize("attribute", [{COUNT: 1 << 46}, {COUNT: -5}, {UPPER: -5}, {UPPER: (1 << 63) + 1}])
def test_an_array_larger_than_memory_is_refused(attribute: dict[int, int | str | bytes]) -> None:
    with pytest.raises(ImageError):
        array(attribute)


def test_an_array_of_a_thousand_dimensions() -> None:
    with pytest.raises(ImageError):
        array(*({COUNT: 1} for _ in range(1000)))


@pytest.mark.parametrize(
    "lying",
    [
        member("x", at=6),
        member("x", at=-4),
        member("x", at=1 << 60),
        member("x", bits=5, bit_at=62),
        member("x", bits=-5, bit_at=0),
        member("x", bits=70, bit_at=0),
        member("x", bits=5, bit_at=-9),
        member("x", "s", bits=5, bit_at=0),
    ],
    ids=lambda one: str(one.attributes),
)
def test_a_member_outside_its_struct_is_left_out(lying: One) -> None:
    """A member outside its struct is left out: a reader would read the memory behind."""
    inner = One(STRUCT, "s", {SIZE: 8}, (member("a", at=0),))
    found = types(inner, One(STRUCT, "t", {SIZE: 8}, (member("a", at=0), lying))).named("struct", "t")
    assert isinstance(found, Record) and [one.name for one in found.members] == ["a"]


def test_a_truncated_member_location_is_read_as_zero() -> None:
    found = whole(One(MEMBER, "x", {TYPE: "int", AT: b"\x23"}))
    assert [one.offset for one in found.members] == [0]


def test_qualifiers_that_refer_to_each_other_are_refused() -> None:
    circle = One(CONST, "c", {TYPE: "c"})
    with pytest.raises(ImageError):
        types(circle, One(POINTER, "p", {TYPE: "c"}), One(TYPEDEF, "t", {TYPE: "p"})).named("", "t")


def test_endless_chains_of_pointers_are_refused() -> None:
    """This also holds if they are asked for in an order in which each needs only a few more than the last."""
    chain = [One(POINTER, f"p{n}", {TYPE: f"p{n - 1}" if n else "int"}) for n in range(2000)]
    members = [member(f"m{n}", f"p{n}", at=0) for n in range(0, 2000, 10)]
    with pytest.raises(ImageError):
        types(*chain, One(STRUCT, "s", {SIZE: 8}, tuple(members))).named("struct", "s")


def test_chains_of_pointers_of_usual_length_are_accepted() -> None:
    chain = [One(POINTER, f"p{n}", {TYPE: f"p{n - 1}" if n else "int"}) for n in range(20)]
    found = types(*chain, One(TYPEDEF, "t", {TYPE: "p19"})).named("", "t")
    for _ in range(20):
        assert isinstance(found, Pointer)
        found = found.to


def nested(name: str) -> Record:
    """A chain of forty unions, each with two members of the one before; ``name`` is the name of the members."""
    levels = [One(UNION, "u0", {SIZE: 4}, (member("x"),))]
    levels += [One(UNION, f"u{n}", {SIZE: 4}, (member(name, f"u{n - 1}"),) * 2) for n in range(1, 41)]
    found = types(*levels).named("union", "u40")
    assert isinstance(found, Record)
    return found


def test_an_absent_member_is_searched_once_in_each_struct() -> None:
    assert nested("").member("none") is None
    assert nested("").member("x") is not None


def test_printing_an_exponentially_nested_value_is_bounded() -> None:
    assert printed(0, nested("m"), b"\1\0\0\0", 1024, 256).count(b"\n") < 1 << 17


def test_a_member_larger_than_the_bytes_read_does_no_harm() -> None:
    members = (member("x", at=0), member("large", "large", at=8))
    huge = One(ARRAY, "large", {TYPE: "int"}, (One(RANGE, "", {COUNT: 1 << 40}),))
    found = types(huge, One(STRUCT, "s", {SIZE: 1 << 43}, members)).named("struct", "s")
    assert isinstance(found, Record)
    assert b".x = (int)1" in printed(0, found, b"\1\0\0\0".ljust(16, b"\0"), 1024, 256)
