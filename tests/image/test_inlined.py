# SPDX-License-Identifier: LGPL-2.1-or-later
"""The places of inlined functions agree with readelf, in units apart and linked together; false files do no harm."""

from __future__ import annotations

import random
import re
import shutil
import struct
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from gilk.errors import ImageError
from gilk.image.dwarf import sections
from gilk.image.dwarf.entries import Entries
from gilk.image.dwarf.inlined import Copies, copies
from gilk.image.dwarf.sections import Sections

FIRST = r"""
#include "both.h"
#define IN static inline __attribute__((always_inline))
IN int gone(int x) { volatile int y = x * 3; return y + 1; }
static int twice(int x) { volatile int y = x; return y * 7; }
int (*pointer)(int) = twice;
__attribute__((noinline)) int work(int x) { return gone(x) + gone(x + 1) + common(x); }
int main(int argc, char **argv) { (void)argv; return work(argc) + twice(argc) + gone(argc) + other(argc); }
"""
SECOND = r"""
#include "both.h"
__attribute__((noinline)) int other(int x) { return common(x) + common(x * 2); }
"""
HEADER = r"""
int other(int);
static inline __attribute__((always_inline)) int common(int x) { volatile int y = x - 1; return y; }
"""


@pytest.fixture
def built(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    for name, text in (("first.c", FIRST), ("second.c", SECOND), ("both.h", HEADER)):
        (tmp_path / name).write_text(text)
    command = ["cc", "-O2", *getattr(request, "param", "-g").split(), "first.c", "second.c", "-o", "inlining"]
    subprocess.run(command, cwd=tmp_path, check=True)
    return tmp_path / "inlining"


def entries(program: Path) -> Entries:
    found = sections.read(program)
    assert found is not None
    return Entries(found)


def told_by_readelf(program: Path) -> Counter[str]:
    """The number of inlined copies by name."""
    done = subprocess.run(["readelf", "--debug-dump=info", program], capture_output=True, text=True, check=True)
    names: dict[str, str] = {}
    origins: list[str] = []
    last: dict[str, str] = {}
    for line in done.stdout.splitlines():
        if found := re.match(r" <[0-9a-f]+><([0-9a-f]+)>: Abbrev Number: \d+ \((\w+)\)", line):
            last = {"at": found[1], "tag": found[2]}
        elif found := re.match(r"    <[0-9a-f]+>   DW_AT_name +: (?:\(.*\): )?(\w+)", line):
            names[last["at"]] = found[1]
        elif (found := re.search(r"DW_AT_abstract_origin: <0x([0-9a-f]+)>", line)) and "inlined" in last["tag"]:
            origins.append(found[1])
    return Counter(names[each] for each in origins)


@pytest.mark.parametrize("built", ["-g", "-gdwarf-4", "-gdwarf-3", "-g -flto", "-gdwarf-4 -flto"], indirect=True)
def test_each_inlined_copy_is_found(built: Path) -> None:
    expected = told_by_readelf(built)
    assert {"gone", "common", "twice"} <= expected.keys()
    for name, count in expected.items():
        found = copies(entries(built), name)
        assert found.complete
        assert len(found.found) == count, name
    within = Counter(each.within for each in copies(entries(built), "gone").found)
    assert within == {"work": 2, "main": 1}
    assert copies(entries(built), "nothing") == Copies((), True)
    assert not copies(entries(built), "main").found


def test_addresses_of_copies_lie_in_the_functions_that_contain_them(built: Path) -> None:
    lines = subprocess.run(["nm", "-S", built], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^(\w+) (\w+) \w (\w+)$", lines, re.MULTILINE)
    extents = {name: (int(at, 16), int(size, 16)) for at, size, name in rows}
    for name in ("gone", "common", "twice"):
        for each in copies(entries(built), name).found:
            at, size = extents[each.within]
            assert each.address is not None
            assert all(at <= place < at + size for place in (each.address, *(low for low, _ in each.ranges)))


def inlined_told_by_addr2line(program: Path, addresses: list[int]) -> dict[str, set[int]]:
    """The instructions of each function that are inlined in another."""
    words = ["addr2line", "-a", "-f", "-i", "-e", str(program), *map(hex, addresses)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[str, set[int]] = {}
    for told in re.split(r"^0x", done.stdout, flags=re.MULTILINE)[1:]:
        address, *rows = told.splitlines()
        for name in rows[:-2:2]:
            found.setdefault(name, set()).add(int(address, 16))
    return found


@pytest.mark.parametrize("compiler", ["gcc -gdwarf-5", "gcc -gdwarf-4", "clang -gdwarf-5", "clang -gdwarf-4"])
def test_pieces_of_copies_are_those_of_addr2line(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler.split()[0]) is None:
        pytest.skip(f"there is no {compiler}")
    for name, text in (("first.c", FIRST), ("second.c", SECOND), ("both.h", HEADER)):
        (tmp_path / name).write_text(text)
    command = [*compiler.split(), "-O2", "first.c", "second.c", "-o", "inlining"]
    subprocess.run(command, cwd=tmp_path, check=True)
    built = tmp_path / "inlining"
    code = subprocess.run(["objdump", "-d", built], capture_output=True, text=True, check=True).stdout
    addresses = [int(each, 16) for each in re.findall(r"^ +([0-9a-f]+):\t", code, re.MULTILINE)]
    expected = inlined_told_by_addr2line(built, addresses)
    assert {"gone", "common", "twice"} <= expected.keys()
    for name, there in expected.items():
        pieces = [piece for each in copies(entries(built), name).found for piece in each.ranges]
        assert {at for at in addresses if any(low <= at < high for low, high in pieces)} == there, name


def test_damaged_debug_information_gives_an_answer_or_elf_malformed(built: Path) -> None:
    good = entries(built).sections
    draw = random.Random(7)
    refused = 0
    for _ in range(300):
        info, lists = bytearray(good.info), bytearray(good.location_lists)
        for data in (info, lists):
            for _ in range(draw.choice((1, 3, 30))):
                data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            copies(Entries(replace(good, info=bytes(info), location_lists=bytes(lists))), "gone", True)
        except ImageError as error:
            assert error.slug == "elf-malformed"
            refused += 1
    assert refused


def lying(attribute: int, form: int, value: bytes, repeated: int = 1) -> Sections:
    """A unit with the function `gone` and a copy of it, which has that attribute, so often."""
    copy = bytes([0x1D, 0, 0x31, 0x13]) + bytes([attribute, form]) * repeated
    abbrev = bytes([1, 0x11, 1, 0, 0, 2, 0x2E, 0, 3, 8, 0, 0, 3]) + copy + bytes(3)
    head_size = 11
    info = b"\1\2gone\0\3" + struct.pack("<I", head_size + 1) + value * repeated + b"\0"
    head = struct.pack("<IHIB", len(info) + head_size - 4, 4, 0, 8)
    return Sections(Path("lying"), head + info, abbrev, b"", b"", bytes(64), ranges=bytes(64))


RUST = r"""
#[inline(always)]
fn weight(a: u32, name: &str, flag: bool) -> u32 { if flag { a * 3 + name.len() as u32 } else { a } }
#[inline(never)]
fn total(n: u32) -> u32 { let mut s = 0; for i in 0..n { s += weight(i, "abc", i % 2 == 0); } s }
fn main() { println!("{}", total(std::env::args().count() as u32)); }
"""


def test_arguments_of_other_languages_have_no_numbers(tmp_path: Path) -> None:
    """rustc makes a variable of `name` here, so that the third argument is described as the second."""
    if shutil.which("rustc") is None:
        pytest.skip("there is no rustc")
    (tmp_path / "main.rs").write_text(RUST)
    subprocess.run(["rustc", "-g", "-O", "main.rs"], cwd=tmp_path, check=True)
    found = copies(entries(tmp_path / "main"), "weight", True).found
    assert found
    for copy in found:
        assert {(each.number, each.place, each.why) for each in copy.arguments} == {(None, None, "argument-kind")}


RANGES, NAME, LINE = 0x55, 0x03, 0x3B
DATA1, DATA8, STRX = 0x0B, 0x07, 0x1A
HIGHEST = b"\xff" * 9 + b"\x7f"  # 70 bits, as LEB128 has them


def test_numbers_beyond_the_address_space_do_no_harm() -> None:
    """They are no offsets into anything. Python has an error of its own for each size of them."""
    assert len(copies(Entries(lying(LINE, DATA1, b"\7")), "gone").found) == 0, "it has no code"
    (found,) = copies(Entries(lying(RANGES, DATA8, bytes(8))), "gone").found
    assert found.ranges == ()
    (found,) = copies(Entries(lying(RANGES, DATA8, b"\xff" * 8)), "gone").found
    assert found.ranges == ()
    with pytest.raises(ImageError):
        copies(Entries(lying(NAME, STRX, HIGHEST)), "gone")


def test_an_entry_with_endless_attributes_is_refused() -> None:
    """They may take no bytes, and each entry has them anew."""
    assert copies(Entries(lying(LINE, DATA1, b"\7", 90)), "gone").complete
    with pytest.raises(ImageError):
        copies(Entries(lying(LINE, DATA1, b"\7", 1000)), "gone")
