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
from gilk.toolchain.relocatable import parse, undefined

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


def test_addresses_are_taken_from_words_behind_the_code(tmp_path: Path) -> None:
    """A symbol that may be far away has its address in a word, as in a global offset table; so has one that is near,
    where the compiler cannot know that."""
    source = SOURCE.replace('extern __attribute__((visibility("hidden"))) ', "extern ")
    source = '__attribute__((weak, visibility("default"))) const long more[3] = {0};' + source.replace(
        "+ len", "+ more[n] + len"
    )
    content = compiled(tmp_path, source)
    listing = subprocess.run(["readelf", "-rW", tmp_path / "a.o"], capture_output=True, text=True, check=True).stdout
    assert {"given", "more"} <= {row.split()[4] for row in listing.splitlines() if "GOTPCREL" in row}
    native = Native(parse(content), {"given": GIVEN})
    found = (ctypes.c_long * 3)()
    native.fire(0, ctypes.addressof(found), ClauseEvent(), False)
    assert list(found) == [73, 703, 7005]


def test_the_names_that_relocations_refer_to_are_those_of_nm(tmp_path: Path) -> None:
    source = "int puts(const char *); extern int seen, unseen; void *malloc(unsigned long); int n; static int kept;"
    source += "__attribute__((used)) long f(void) { kept++; n++; return puts(malloc(4)) + seen; }"
    names = undefined(compiled(tmp_path, source))
    listing = subprocess.run(["nm", "-u", tmp_path / "a.o"], capture_output=True, text=True, check=True).stdout
    theirs = {line.split()[-1] for line in listing.splitlines()}
    assert set(names) == theirs - {"_GLOBAL_OFFSET_TABLE_"} == {"malloc", "puts", "seen"}
    assert list(names) == sorted(names)


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
