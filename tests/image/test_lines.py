# SPDX-License-Identifier: LGPL-2.1-or-later
"""Lines of the source agree with addr2line and objdump, in each version of DWARF; false files do no harm."""

from __future__ import annotations

import random
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gilk.image.dwarf import sections
from gilk.image.dwarf.lines import SourceLines, is_meant
from gilk.image.dwarf.sections import Sections
from gilk.image.elf import load
from tests.programs.build import BARE, HERE, build_go
from tests.seldom import seldom

FLAGS = [
    "-O0",
    "-O2",
    "-O2 -gdwarf-4",
    "-O2 -gdwarf-3 -gstrict-dwarf",
    "-O2 -ffunction-sections",
    "-O2 -flto",
    "-O2 -gz",
]


def read(program: Path) -> Sections:
    found = sections.read(program)
    assert found is not None
    return found


def compiled(place: Path, compiler: str, flags: str, source: Path = BARE / "names.cpp") -> Path:
    program = place / "program"
    warned = ["-D_GNU_SOURCE", "-pthread", f"-I{HERE}"]
    subprocess.run([compiler, "-g", *flags.split(), *warned, source, "-o", program, "-lm"], check=True)
    return program


def told_by_addr2line(program: Path, addresses: list[int]) -> list[int]:
    """The lines by addr2line, without files: for inlined code it sometimes names the file of the function around it."""
    text = "\n".join(map(hex, addresses))
    done = subprocess.run(["addr2line", "-e", program], input=text, capture_output=True, text=True, check=True)
    lines = [re.sub(r" \(discriminator \d+\)", "", line).rpartition(":")[2] for line in done.stdout.splitlines()]
    return [0 if line == "?" else int(line) for line in lines]


def compare(program: Path, most: int = 5000) -> None:
    """Compare every address, or a selection if there are very many."""
    table = SourceLines(read(program))
    addresses = [at for span in load(program).spans for at in range(span.start, span.end)]
    addresses = addresses[:: len(addresses) // most + 1]
    told = told_by_addr2line(program, addresses)
    ours = [table.at(address) for address in addresses]
    assert sum(line > 0 for line in told) > 50
    for address, found, line in zip(addresses, ours, told, strict=True):
        assert (found.line if found is not None else 0) == line, hex(address)


@pytest.mark.parametrize("flags", seldom(FLAGS, 3))
def test_each_address_has_the_line_that_addr2line_says(tmp_path: Path, flags: str) -> None:
    compare(compiled(tmp_path, "g++", flags))


@pytest.mark.parametrize("flags", ["-O2", "-O2 -gdwarf-4"])
def test_lines_of_clang_programs_are_those_of_addr2line(tmp_path: Path, flags: str) -> None:
    compare(compiled(tmp_path, "clang", flags, HERE / "work.c"))


def test_lines_of_go_programs_are_those_of_addr2line() -> None:
    compare(build_go("steady"))


def told_by_objdump(program: Path) -> list[tuple[int, str, int, bool]]:
    """Address, file, line (0 at the end of code) and whether it begins a statement, of each row, in order."""
    done = subprocess.run(["objdump", "--dwarf=decodedline", program], capture_output=True, text=True, check=True)
    row = re.compile(r"(\S+) +(\d+|-) +(0x[0-9a-f]+|0)(?: +\d+)?(?: +(x))?")
    found = filter(None, map(row.match, done.stdout.splitlines()))
    return [(int(m[3], 16), m[1], 0 if m[2] == "-" else int(m[2]), bool(m[4])) for m in found]


@pytest.mark.parametrize("flags", ["-O0", "-O1", "-O2 -gdwarf-4"])
def test_line_table_rows_are_those_that_objdump_decodes(tmp_path: Path, flags: str) -> None:
    program = compiled(tmp_path, "g++", flags)
    table, rows = SourceLines(read(program)), told_by_objdump(program)
    last = {at: (file, line) for at, file, line, _ in rows}
    last = {at: place for at, place in last.items() if place[1]}
    assert len(last) > 50
    for at, expected in last.items():
        found = table.at(at)
        assert found is not None and (Path(found.file).name, found.line) == expected, hex(at)


def test_points_of_a_line_are_its_statements(tmp_path: Path) -> None:
    program = compiled(tmp_path, "g++", "-O1")
    table, rows = SourceLines(read(program)), told_by_objdump(program)
    lines = table.lines("names.cpp")
    assert (
        lines == table.lines("bare/names.cpp") == sorted({row[2] for row in rows if row[1] == "names.cpp" and row[3]})
    )
    for line in lines:
        statements = {at for at, file, number, stops in rows if (file, number, stops) == ("names.cpp", line, True)}
        ours = {place.address for place in table.places("names.cpp", line)}
        assert ours and ours <= statements
        kept = {at for at in statements if table.at(at) == (table.files("names.cpp")[0], line)} or statements
        assert min(kept) in ours


def test_a_source_file_is_named_by_the_end_of_its_path() -> None:
    assert is_meant("a.c", "/x/a.c") and is_meant("x/a.c", "/x/a.c") and is_meant("/x/a.c", "/x/a.c")
    assert not is_meant("a.c", "/x/ba.c") and not is_meant("/a.c", "/x/a.c")


def test_a_program_without_line_information_has_none(tmp_path: Path) -> None:
    program = compiled(tmp_path, "g++", "-g0")
    found = sections.read(program)
    assert found is None or not found.lines


def test_damaged_line_information_does_no_harm(tmp_path: Path) -> None:
    """For any change of the bytes, reading ends, and gives lines or none."""
    whole = read(compiled(tmp_path, "g++", "-O1"))
    addresses = [span.start for span in load(tmp_path / "program").spans]
    chosen = random.Random(17)
    for _ in range(300):
        data = bytearray(whole.lines)
        for _ in range(chosen.randrange(1, 8)):
            data[chosen.randrange(len(data))] = chosen.randrange(256)
        table = SourceLines(replace(whole, lines=bytes(data[: chosen.randrange(len(data) + 1)])))
        for address in addresses:
            found = table.at(address)
            assert found is None or 0 < found.line < 1 << 31
        table.places("names.cpp", 30)


def test_a_unit_without_rows_has_no_lines(tmp_path: Path) -> None:
    """Its header is all there is."""
    good = read(compiled(tmp_path, "g++", "-O2 -gdwarf-5"))
    program = 12 + int.from_bytes(good.lines[8:12], "little")  # DWARF 5, section 6.2.4
    known = SourceLines(replace(good, lines=(program - 4).to_bytes(4, "little") + good.lines[4:program]))
    (file,) = known.files("names.cpp")
    assert known.lines(file) == [] and known.places(file, 1) == [] and known.at(0x1000) is None
