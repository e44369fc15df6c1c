# SPDX-License-Identifier: LGPL-2.1-or-later
"""Code that gilk itself places behaves like code that the linker has placed."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.errors import CompileError
from gilk.toolchain.compilers import compile_object, compiler
from gilk.toolchain.dprogram import ClauseEvent, Native
from gilk.toolchain.relocatable import parse

SOURCE = """
extern __attribute__((visibility("hidden"))) const long given[];
static const char *const words[] = { "one", "two", "three" };
static __attribute__((noinline)) long length(const char *text) { long n = 0; while (text[n]) n++; return n; }
__attribute__((used, noinline)) long answer(long n) { return given[n] * 10 + length(words[n]); }
__attribute__((used)) void d_group_0(long *to, void *event, unsigned int always)
{ (void)event; (void)always; for (int n = 0; n < 3; n++) to[n] = answer(n); }
"""
GIVEN = b"".join(n.to_bytes(8, "little") for n in (7, 70, 700))


def compiled(directory: Path, source: str) -> bytes:
    (directory / "a.c").write_text(source)
    compile_object(directory / "a.c", directory / "a.o", ["-fPIC"])
    return (directory / "a.o").read_bytes()


def test_calls_constants_and_addresses_are_relocated(tmp_path: Path) -> None:
    native = Native(parse(compiled(tmp_path, SOURCE)), {"given": GIVEN})
    found = (ctypes.c_long * 3)()
    native.fire(0, ctypes.addressof(found), ClauseEvent(), False)
    (tmp_path / "b.c").write_text(
        "const long given[] = { 7, 70, 700 };"
        + SOURCE.replace("(used, noinline)", '(used, noinline, visibility("default"))')
    )
    subprocess.run([*compiler(), "-O2", "-fPIC", "-shared", tmp_path / "b.c", "-o", tmp_path / "b.so"], check=True)
    linked = ctypes.CDLL(str(tmp_path / "b.so"))
    assert list(found) == [linked.answer(n) for n in range(3)] == [73, 703, 7005]


def test_undefined_symbols_are_refused(tmp_path: Path) -> None:
    program = parse(compiled(tmp_path, SOURCE))
    assert program.undefined == {"given"}
    with pytest.raises(CompileError, match="given is not defined"):
        program.placed(0x1000, {})
    with pytest.raises(CompileError, match="more than 2 GiB away"):
        program.placed(0x1000, {"given": 1 << 40})


def test_writable_variables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="variables"):
        parse(compiled(tmp_path, "int n = 1; __attribute__((used)) int f(void) { return n++; }"))


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_file_is_refused_or_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = bytearray(OBJECT or compiled(tmp_path_factory.mktemp("o"), SOURCE))
    OBJECT[:] = OBJECT or content
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        parse(bytes(content[: data.draw(st.integers(0, len(content)))])).placed(0x1000, {"given": 0x2000})
    except CompileError as error:
        assert error.slug == "does-not-link"


OBJECT = bytearray()
