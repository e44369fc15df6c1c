# SPDX-License-Identifier: LGPL-2.1-or-later
"""An image's account of the file as a whole, the vdso, and the time it takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gilk.image.elf import File, load, load_bytes
from tests.effort import counted
from tests.programs.build import build

LOAD = re.compile(r"^ +LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+) (0x\w+) (...) ", re.MULTILINE)
SECTION = re.compile(r"^ +\[ *\d+\] (\S+) +\w+ +([0-9a-f]{16}) ([0-9a-f]+) ([0-9a-f]+) [0-9a-f]+ +(\w+) ", re.MULTILINE)


def test_segments_sections_and_dynamic_entries_are_readelfs(system_file: Path, oracle: Callable[..., str]) -> None:
    image, content = load(system_file), system_file.read_bytes()
    headers = [
        (int(address, 16), int(size, 16), content[int(offset, 16) :][: int(held, 16)], "E" in flags, "W" in flags)
        for offset, address, held, size, flags in LOAD.findall(oracle("readelf", "-lW", system_file))
    ]
    assert [(s.address, s.size, s.data, s.executable, s.writable) for s in image.segments] == headers
    rows = SECTION.findall(oracle("readelf", "-SW", system_file))
    expected = {(name, int(a, 16), int(size, 16), "X" in flags) for name, a, _, size, flags in rows if "A" in flags}
    assert {(s.name, s.address, s.size, s.executable) for s in image.sections} == expected
    dynamic = oracle("readelf", "-dW", system_file)
    assert list(image.needed) == re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert [image.soname] == (re.findall(r"\(SONAME\).*\[(.*)\]", dynamic) or [""])
    assert [image.interpreter] == (re.findall(r"interpreter: (.*)\]", oracle("readelf", "-lW", system_file)) or [""])


@pytest.mark.parametrize(
    ("flags", "independent", "static"),
    [((), True, False), (("-no-pie",), False, False), (("-static",), False, True), (("-static-pie",), True, True)],
)
def test_static_and_position_independent_programs_are_recognised(
    flags: tuple[str, ...], independent: bool, static: bool, build: Callable[..., Path], sources: dict[str, str]
) -> None:
    image = load(build(sources["small"], *flags))
    assert (image.position_independent, image.static) == (independent, static)
    assert image.name == "program"
    assert (span := image.span_at(image.entry)) is not None and span.name == "_start"


def test_the_vdso_is_read_from_memory() -> None:
    line = next(line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("[vdso]"))
    start, end = (int(bound, 16) for bound in line.split()[0].split("-"))
    with open("/proc/self/mem", "rb") as memory:
        memory.seek(start)
        image = load_bytes(memory.read(end - start), Path("[vdso]"))
    assert image.static and image.position_independent
    assert image.soname == "linux-vdso.so.1"
    span = next(span for span in image.spans if span.name in ("clock_gettime", "__vdso_clock_gettime"))
    assert span.exported
    assert {span.name, *span.aliases} >= {"clock_gettime", "__vdso_clock_gettime"}


@pytest.mark.parametrize("path", ["/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/gdb"])
def test_reading_takes_a_few_calls_for_each_symbol(path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"no {path} here")
    image, calls = counted(lambda: load(Path(path)))
    print(calls, len(image.symbols), len(image.spans))
    assert calls < 20 * (len(image.symbols) + len(image.spans))


@pytest.mark.parametrize("path", ["/lib/x86_64-linux-gnu/libc.so.6", "/bin/bash"])
def test_exported_names_are_found_without_reading_all_symbols(path: str) -> None:
    """Every name of the whole image is found, also names that are tails of others, and no other name."""
    whole, file = load(Path(path)), File(Path(path))
    exported = {symbol.name for symbol in whole.symbols if symbol.exported}
    some = sorted(exported, key=len)[:60] + sorted(exported)[::40]
    for name in some:
        found = file.exported(name)
        assert found is not None and found in [symbol for symbol in whole.named(name) if symbol.exported]
    for name in ("", "no such name", sorted(exported)[0][:-1] + "?", "exit@"):
        assert file.exported(name) is None
    file.close()


@pytest.mark.parametrize(("program", "expected"), [("green", True), ("ucontext", True), ("work", False)])
def test_a_file_says_which_names_it_mentions(program: str, expected: bool) -> None:
    file = File(build(program))
    try:
        assert file.mentions(["swapcontext", "setcontext"]) is expected
    finally:
        file.close()
