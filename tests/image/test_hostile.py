# SPDX-License-Identifier: LGPL-2.1-or-later
"""Bad files give a named error, quickly, whatever is wrong with them."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gilk.errors import ImageError
from gilk.image import header, symbols
from gilk.image.elf import load, load_bytes
from gilk.image.source import from_bytes

SLUGS = {"not-elf", "elf-class", "elf-machine", "elf-type", "elf-truncated", "elf-malformed"}
EXTREMES = [0, 1, 7, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
BUDGET = 20.0  # seconds of processor time for one file of a few KiB; a healthy one takes milliseconds
# A small C++ program, so that changes hit something, with every table that this package reads.
PROGRAM = """
int __attribute__((noinline)) risky(int x) { if (x > 2) throw x; return x; }
int careful(int x) { try { return risky(x); } catch (int i) { return i; } }
static int other() { return 3; }
int (*pointer)() = other;
int main(int argc, char **) { return careful(argc) + pointer(); }
"""


def refusal(data: bytes) -> str:
    """The slug with which load_bytes refuses ``data``, or '' if it reads it."""
    before = time.process_time()
    try:
        load_bytes(data, Path("hostile"))
        slug = ""
    except ImageError as error:
        assert error.slug in SLUGS
        slug = error.slug
    assert time.process_time() - before < BUDGET
    return slug


class Content(bytes):
    """Bytes that a failing test does not print."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


@pytest.fixture(scope="session")
def program(build: Callable[..., Path]) -> bytes:
    path = build(
        PROGRAM, "-Wl,-z,noseparate-code", "-Wl,-z,pack-relative-relocs", "-Wl,--hash-style=both", language="c++"
    )
    return Content(path.read_bytes())


@pytest.fixture(scope="session")
def tables(program: bytes) -> list[tuple[int, int]]:
    """The ranges [start, end) of the file that this package reads, without code."""
    head = header.parse(from_bytes(program, Path("p")))
    code = (".text", ".comment", ".data", ".rodata", ".bss", ".strtab")
    found = [(s.offset, s.offset + s.size) for s in head.sections if s.size and s.kind != 8 and s.name not in code]
    return [(0, 64 + 56 * len(head.programs)), *found, (len(program) - 64 * len(head.sections), len(program))]


def spoil(data: bytes, tables: list[tuple[int, int]], changes: list[tuple[int, int, int, int]]) -> bytes:
    """``data`` with numbers overwritten: each change is (table, place in it, width in bytes, value)."""
    spoilt = bytearray(data)
    for table, place, width, value in changes:
        start, end = tables[table % len(tables)]
        offset = min(start + place % (end - start), len(spoilt) - width)
        spoilt[offset : offset + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
    return bytes(spoilt)


def changes(most: int) -> st.SearchStrategy[list[tuple[int, int, int, int]]]:
    values = st.one_of(st.sampled_from(EXTREMES), st.integers(0, 1 << 16), st.integers(0, (1 << 64) - 1))
    change = st.tuples(st.integers(0, 63), st.integers(0, 4095), st.sampled_from([1, 2, 4, 8]), values)
    return st.lists(change, min_size=1, max_size=most)


relaxed = settings(suppress_health_check=list(HealthCheck))


@settings(relaxed, max_examples=500)
@given(changes(6))
def test_damaged_tables_give_a_named_error_or_an_image(
    program: bytes, tables: list[tuple[int, int]], changes: list[tuple[int, int, int, int]]
) -> None:
    refusal(spoil(program, tables, changes))


@pytest.mark.stress
@settings(relaxed, max_examples=30_000)
@given(changes(12))
def test_many_damaged_tables_give_a_named_error_or_an_image(
    program: bytes, tables: list[tuple[int, int]], changes: list[tuple[int, int, int, int]]
) -> None:
    refusal(spoil(program, tables, changes))


@settings(relaxed, max_examples=100)
@given(st.integers(0, 1 << 15))
@example(0)
@example(4)
@example(63)
def test_a_file_truncated_anywhere_gives_a_named_error(program: bytes, size: int) -> None:
    data = program[:size]
    slug = refusal(data)
    assert slug == ("not-elf" if size < 4 else slug)
    if size < 64:
        assert slug in ("not-elf", "elf-truncated")


@settings(relaxed, max_examples=100)
@given(st.binary(max_size=4096))
def test_random_bytes_after_the_magic_give_a_named_error(program: bytes, data: bytes) -> None:
    refusal(data)
    refusal(program[:20] + data)


@pytest.mark.parametrize(
    ("offset", "value", "slug"),
    [
        (0, b"\x7fELG", "not-elf"),
        (4, b"\x01", "elf-class"),
        (5, b"\x02", "elf-machine"),
        (18, b"\xb7\x00", "elf-machine"),  # AArch64
        (16, b"\x01\x00", "elf-type"),
        (16, b"\x04\x00", "elf-type"),
        (54, b"\x20\x00", "elf-malformed"),  # program headers of 32 bytes
        (56, b"\x00\x00", "elf-malformed"),  # no program headers
        (32, b"\xff" * 8, "elf-truncated"),  # program headers beyond the end
    ],
)
def test_each_field_has_its_error(offset: int, value: bytes, slug: str, program: bytes) -> None:
    assert refusal(program[:offset] + value + program[offset + len(value) :]) == slug


def test_files_that_are_no_programs(tmp_path: Path) -> None:
    def slug(path: Path) -> str:
        with pytest.raises(ImageError) as caught:
            load(path)
        assert str(path) in str(caught.value) or "\\x00" in str(caught.value)
        return caught.value.slug

    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    assert slug(tmp_path) == "not-elf"
    assert slug(tmp_path / "script") == "not-elf"
    assert slug(tmp_path / "empty") == "not-elf"
    assert slug(tmp_path / "fifo") == "not-elf"
    assert slug(Path("/dev/zero")) == "not-elf"
    assert slug(tmp_path / "missing") == "no-such-file"
    assert slug(tmp_path / "script" / "below") == "no-such-file"
    assert slug(tmp_path / "loop") == "no-such-file"
    assert slug(tmp_path / ("x" * 300)) == "no-such-file"
    assert slug(Path("a\0b")) == "no-such-file"


def test_an_unreadable_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").touch(0)
    if os.geteuid() == 0:  # root may read anything, so the refusal is feigned

        def refuse(*_: object) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ImageError) as caught:
        load(tmp_path / "secret")
    assert caught.value.slug == "no-permission"


def test_a_sparse_file_of_absurd_size(tmp_path: Path, program: bytes) -> None:
    path = tmp_path / "huge"
    path.write_bytes(program)
    os.truncate(path, 1 << 37)
    with pytest.raises(ImageError, match="too large"):
        load(path)


def headers(*programs: tuple[int, int, int, int, int, int], body: bytes = b"", count: int | None = None) -> bytes:
    """An ELF file of these program headers: (type, flags, offset, address, file size, size)."""
    table = b"".join(struct.pack("<IIQQQQQQ", t, f, o, a, a, fs, ms, 8) for t, f, o, a, fs, ms in programs)
    number = len(programs) if count is None else count
    fields = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, number, 64, 0, 0)
    return b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + fields + table + body


def test_segments_that_share_the_whole_file_are_refused() -> None:
    body = bytes(1 << 20)
    many = [(1, 5, 0, i << 21, 1 << 20, 1 << 20) for i in range(200)]
    assert refusal(headers(*many, body=body)) == "elf-malformed"
    assert refusal(headers(*[(1, 5, 0, i << 12, 1, 1) for i in range(60_000)])) == "elf-malformed"


def test_segments_that_overlap_or_wrap_are_refused() -> None:
    assert refusal(headers((1, 5, 0, 0x1000, 64, 0x2000), (1, 6, 0, 0x2000, 64, 64))) == "elf-malformed"
    assert refusal(headers((1, 5, 0, (1 << 64) - 8, 64, 64))) == "elf-malformed"
    assert refusal(headers((1, 5, 0, 0, 65, 64))) == "elf-malformed"


def test_a_huge_bss_takes_no_memory() -> None:
    image = load_bytes(headers((1, 6, 0, 0x1000, 64, (1 << 64) - 0x1000)), Path("big"))
    assert len(image.read(0x1000, 1 << 40)) == 64


def test_many_notes_cost_no_more_than_the_file() -> None:
    body = struct.pack("<III", 4, 0, 0) * (1 << 16)
    notes = [(4, 4, 0, 0, len(body), 0)] * 50_000
    assert refusal(headers((1, 5, 0, 0, 64, 64), *notes, body=body)) == ""


def test_symbols_that_share_one_long_name_take_little_memory() -> None:
    rows = struct.pack("<IBBHQQ", 0, 2, 0, 1, 0x1000, 8) * 10_000
    table = symbols.SymbolTable(symbols._rows(rows), b"x" * (1 << 20), "symtab")
    assert sum(len(symbol.name) for symbol in symbols.symbols(table)) < 1 << 25


def test_fdes_that_share_one_long_lsda_take_little_time(tmp_path: Path) -> None:
    """20 000 FDEs that share a table of 200 000 call sites would have 4 000 000 000 of them."""
    source = """
        .text
        f: .fill 64, 1, 0x90
        .section .gcc_except_table, "a"
        lsda: .byte 0xff, 0xff, 1
        .uleb128 2f - 1f
        1: .fill 200000, 4, 0x00010101
        2:
        .section .eh_frame, "a"
        cie: .long 3f - . - 4, 0
        .asciz "\\1zLR"
        .uleb128 1
        .sleb128 -8
        .byte 16, 2, 0x1b, 0x1b, 0, 0, 0
        .balign 4
        3: .rept 20000
        .long 20, . - cie
        .long f - ., 64
        .byte 4
        .long lsda - .
        .byte 0, 0, 0
        .endr
    """
    path = tmp_path / "shared"
    command: list[str | Path] = [
        "gcc",
        "-x",
        "assembler",
        "-",
        "-shared",
        "-nostdlib",
        "-o",
        path,
        "-Wl,--no-eh-frame-hdr,--no-ld-generated-unwind-info",
    ]
    subprocess.run(command, input=source, text=True, check=True, capture_output=True)
    assert refusal(path.read_bytes()) == ""
    assert len(load(path).frames) > 1000


def test_hostile_files_need_little_memory(tmp_path: Path) -> None:
    """The header lists 64 Ki sections, each of which claims the whole sparse file of 4 GiB."""
    path = tmp_path / "sparse"
    path.write_bytes(headers((1, 5, 0, 0x1000, 64, 64)))
    with path.open("r+b") as file:
        row = struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, 0, 1 << 32, 0, 0, 0, 24)
        file.seek(4096)
        file.write(row * 1000)
        file.seek(40)
        file.write(struct.pack("<Q", 4096))
        file.seek(60)
        file.write(struct.pack("<HH", 1000, 1))
    os.truncate(path, 1 << 33)
    script = """
import resource, sys
from pathlib import Path
from gilk.errors import ImageError
from gilk.image.elf import load
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
try: load(Path(sys.argv[1]))
except ImageError as error: print(error.slug)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, path],
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.stdout.strip() == "elf-malformed", done.stderr
