# SPDX-License-Identifier: LGPL-2.1-or-later
"""Findings about debug information that are kept: they agree with addr2line, are not found twice, follow the content
of the file, and false ones in the cache do no harm."""

from __future__ import annotations

import json
import random
import re
import subprocess
from pathlib import Path

import pytest

from gilk.cache.place import cache_dir
from gilk.image.dwarf import inlined, kept, line_program, lines, sections
from gilk.image.dwarf.entries import Entries
from gilk.image.dwarf.inlined import Copies, copies
from gilk.image.dwarf.line_program import LineRow
from gilk.image.dwarf.lines import LinePlace, SourceLines

SOURCE = r"""
static inline __attribute__((always_inline)) int gone(int x, const char *name)
{
	volatile int y = x * 3;
	return y + *name;
}
__attribute__((noinline)) int once(int x) { return gone(x, "once") + gone(x + 2, "more"); }
int main(int argc, char **argv)
{
	return once(argc)
		+ gone(argc, argv[0]);
}
"""


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own, for programs as small as a test's."""
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept, "_WORTH", 0)


def built(place: Path, text: str = SOURCE, flags: str = "-O1") -> Path:
    (place / "source.c").write_text(text)
    subprocess.run(["cc", "-g", *flags.split(), "source.c", "-o", "program"], cwd=place, check=True)
    return place / "program"


def found(program: Path) -> tuple[list[LinePlace], list[LineRow], Copies]:
    """The places of a line, the rows of all code, and the copies of a function."""
    read = sections.read(program)
    assert read is not None
    table = SourceLines(read)
    line = 1 + SOURCE[: SOURCE.index("return once")].count("\n")
    return table.places("source.c", line), table.rows(0, 1 << 40), copies(Entries(read), "gone", True)


def afresh(program: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[LinePlace], list[LineRow], Copies]:
    with monkeypatch.context() as once:
        once.setattr(kept, "_WORTH", 1 << 60)
        return found(program)


def recalled(program: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[LinePlace], list[LineRow], Copies]:
    """The same, which must come from the cache; otherwise this fails."""
    with monkeypatch.context() as once:
        once.delattr(lines, "_header")
        once.delattr(lines, "run")
        once.delattr(inlined, "_Reader")
        return found(program)


@pytest.mark.parametrize("flags", ["-O0", "-O1", "-O0 -gdwarf-4", "-O1 -gz"])
def test_recalled_findings_equal_those_read_anew(flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = built(tmp_path, flags=flags)
    first = found(program)
    assert recalled(program, monkeypatch) == first == afresh(program, monkeypatch)
    places, rows, known = recalled(program, monkeypatch)
    told = subprocess.run(
        ["addr2line", "-e", program, *(f"{place.address:#x}" for place in places)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert {tuple(each) for each in re.findall(r"/(\w+\.c):(\d+)", told)} == {("source.c", str(places[0].line))}
    assert len(known.found) == 3 and all(type(row.end) is type(row.statement) is bool for row in rows)
    assert [each.name for each in known.found[0].arguments] == ["x", "name"]


def test_a_file_that_was_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found(built(tmp_path))
    changed = built(tmp_path, SOURCE.replace("once(argc)", "once(argc) + gone(7, argv[0])"))
    assert len(found(changed)[2].found) == 4
    assert found(changed) == afresh(changed, monkeypatch)


def test_files_of_the_cache_that_were_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, draw = built(tmp_path), random.Random(11)
    right = found(program)
    for _ in range(20):
        files = [file for file in (cache_dir() / "dwarf").iterdir() if file.is_file()]
        assert files
        for file in files:
            data = bytearray(file.read_bytes())
            if draw.random() < 0.5:
                del data[draw.randrange(len(data)) :]
            else:
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            file.write_bytes(data)
        assert found(program) == right
    assert recalled(program, monkeypatch) == right, "they are written anew"


HOSTILE = [
    b"", b"?", b"null", b"[]", b"{}", b"7", b'"text"', b"[" * 100_000, b"\xff\xfe", b"[[], []]", b"[[], true, [[]]]",
    b"[[[]], true, []]", b"[[], true, [[-1, []]]]",
    b'[[["f", [[0, 1]], 0, 0, false, 0, [[0, 7, null, ""]]]], true, []]',
    b'[["a"], [[0, 9, 5, 1, 1, 0, 0, [], []]]]', b'[["a"], [[0, 4294967295, 0, 1, 1, 0, 14, [0], [[0, 0]]]]]',
    b'[["a"], [[0, 9, 5, 1, 1, 0, 14, [0, 1], [[0, 4]]]]]', b'[[7], [[0, 9, 5, 1, 1, 0, 14, [0, 1], [[0, 0]]]]]',
    b"[1e999, NaN]", b"A" * 21, b"1" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("content", HOSTILE, ids=lambda content: repr(content[:40]))
def test_hostile_content_is_not_believed(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused, or it is an answer of the right form."""
    program = built(tmp_path)
    right = found(program)
    monkeypatch.setattr(kept, "load_blob", lambda kind, key: content)
    places, rows, known = found(program)
    assert known == right[2] or (known.found == () and json.loads(content))
    assert places == right[0] or not places
    assert all(isinstance(row, LineRow) for row in rows)


def test_rows_that_do_not_fit_are_read_each_time() -> None:
    rows = [LineRow(1 << 63, 1, 2, True, False, 3), LineRow((1 << 64) - 1, 0, 0, False, True, 0)]
    assert kept.rows_from_bytes(kept.rows_to_bytes(rows)) == rows
    with pytest.raises(ValueError, match="rows"):
        kept.rows_from_bytes(kept.rows_to_bytes([LineRow(1, 1 << 40, 1, True, False)]))
    assert line_program.LineRow is LineRow
