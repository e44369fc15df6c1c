# SPDX-License-Identifier: LGPL-2.1-or-later
"""Symbols, against readelf."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

from gilk.image import symbols
from gilk.image.elf import load, load_bytes
from gilk.image.model import SymbolKind

ROW = re.compile(r"^ *\d+: ([0-9a-f]+) +(\w+) (\w+) +(\w+) +(\w+) +(\w+) ?(\S*)", re.MULTILINE)
KINDS = {"NOTYPE": "notype", "FUNC": "func", "IFUNC": "ifunc", "OBJECT": "object"}


def read(oracle: Callable[..., str], flag: str, path: Path) -> list[tuple[str, int, int, str, str, str]]:
    """(name without version, address, size, kind, binding, visibility) of the defined symbols readelf shows."""
    found = []
    for value, size, kind, binding, visibility, index, name in ROW.findall(oracle("readelf", flag, path)):
        name = name.split("@")[0] if flag == "--dyn-syms" else name
        if kind in KINDS and index not in ("UND", "ABS") and name:
            found.append((name, int(value, 16), int(size, 0), KINDS[kind], binding, visibility))
    return found


def test_every_dynamic_symbol_is_the_one_that_readelf_shows(system_file: Path, oracle: Callable[..., str]) -> None:
    expected = read(lambda *c: oracle("readelf", "-W", *c[1:]), "--dyn-syms", system_file)
    shown = {row[:4]: (row[4] != "LOCAL" and row[5] in ("DEFAULT", "PROTECTED")) for row in expected}
    ours = {(s.name, s.address, s.size, str(s.kind)): s.exported for s in load(system_file).symbols}
    assert expected
    assert shown.keys() <= ours.keys()
    assert {key for key, exported in ours.items() if exported} == {key for key, exported in shown.items() if exported}


@pytest.mark.parametrize("flags", [(), ("-no-pie",), ("-static",), ("-static-pie",), ("-shared", "-fPIC")])
def test_symbols_of_symtab_are_those_of_readelf(
    flags: tuple[str, ...], build: Callable[..., Path], sources: dict[str, str], oracle: Callable[..., str]
) -> None:
    path = build(sources["small"], *flags)
    expected = {
        (name, address, size, kind, binding == "LOCAL")
        for name, address, size, kind, binding, _ in read(lambda *c: oracle("readelf", "-sW", c[2]), "-s", path)
    }
    ours = {(s.name, s.address, s.size, str(s.kind), s.local) for s in load(path).symbols if "@" not in s.name}
    assert ours == {row for row in expected if "@" not in row[0]}
    assert any(row[0] == "visible" for row in ours)


@pytest.mark.parametrize("style", ["sysv", "gnu", "both"])
@pytest.mark.parametrize("flags", [(), ("-rdynamic",), ("-shared", "-fPIC")])
def test_dynamic_symbols_are_found_without_section_headers(
    style: str,
    flags: tuple[str, ...],
    build: Callable[..., Path],
    sources: dict[str, str],
    strip_sections: Callable[[bytes], bytes],
) -> None:
    path = build(sources["small"], f"-Wl,--hash-style={style}", "-s", *flags)
    whole = load(path)
    bare = load_bytes(strip_sections(path.read_bytes()), path)
    assert not bare.sections
    assert bare.symbols == whole.symbols
    assert bare.got == whole.got
    assert "puts" in bare.got.values()


def test_a_name_table_without_terminators_costs_no_more_than_its_size() -> None:
    strings = b"x" * 100_000
    found = symbols.names(strings, numpy.arange(100_000, dtype=numpy.uint32))
    assert len(found) == 100_000
    assert sum(map(len, found)) < 32 * len(strings)
    assert found[0] == "x" * 100_000


def test_names_that_are_not_utf8_are_still_text() -> None:
    assert symbols.names(b"\0caf\xc3\xa9\0\xff\0", numpy.array([1, 7, 99], numpy.uint32)) == ["café", "\\xff", ""]


def test_size_and_kind_of_an_ifunc(build: Callable[..., Path], sources: dict[str, str]) -> None:
    (symbol,) = [s for s in load(build(sources["ifunc"])).symbols if s.name == "chosen"]
    assert symbol.kind is SymbolKind.IFUNC
    assert symbol.size > 0
