# SPDX-License-Identifier: LGPL-2.1-or-later
"""-h and -G, as a makefile written for dtrace runs them, and the messages if that cannot work."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gilk.cli.main import main

#: Returns the status, and the text on standard error.
Dtrace = Callable[..., tuple[int, str]]
PROVIDER = "provider app { probe start(); probe end(int); };\n"
USES = '#include "app.h"\nint main(void) { APP_START(); if (APP_END_ENABLED()) APP_END(1); return 0; }\n'


@pytest.fixture
def dtrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Dtrace:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.d").write_text(PROVIDER)
    (tmp_path / "app.c").write_text(USES)

    def run(*words: object) -> tuple[int, str]:
        return main(["dtrace", *map(str, words)]), capsys.readouterr().err

    return run


def test_a_program_with_usdt_probes_is_built_by_a_makefile(dtrace: Dtrace, tmp_path: Path) -> None:
    def step(*words: str) -> str:
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert dtrace("-h", "-s", "app.d") == (0, "")
    step("gcc", "-c", "app.c")
    assert dtrace("-G", "-s", "app.d", "app.o", "-o", "probes.o") == (0, "")
    assert "REL (Relocatable file)" in step("readelf", "-h", "probes.o")
    step("gcc", "-Wl,--fatal-warnings", "app.o", "probes.o", "-o", "app")
    assert re.findall(r"Name: (\S+)", step("readelf", "-nW", "app")) == ["start", "end"]
    assert re.search(r"GNU_STACK\s.*RW ", step("readelf", "-lW", "app"))
    step("./app")


def test_the_output_file_is_named_by_option_or_script(dtrace: Dtrace, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "other.d").write_text(PROVIDER)
    assert dtrace("-h", "-s", "below/other.d", "-o", "named.hh") == (0, "")
    assert "#ifndef _NAMED_HH\n" in (tmp_path / "named.hh").read_text()
    dtrace("-h", "-s", "below/other.d")
    dtrace("-G", "-s", "below/other.d")
    dtrace("-G", "-n", PROVIDER)
    assert {path.name for path in tmp_path.iterdir()} >= {"other.h", "other.o", "d.out"}


def test_errors_of_headers_and_objects_are_reported(dtrace: Dtrace, tmp_path: Path) -> None:
    for name, words in (
        ("pointer", "void __dtrace_app___start(void); void *p(void) { return __dtrace_app___start; }"),
        ("other", "void __dtrace_app___go(void); void f(void) { __dtrace_app___go(); }"),
    ):
        (tmp_path / f"{name}.c").write_text(words)
        subprocess.run(["gcc", "-fno-pic", "-c", f"{name}.c"], cwd=tmp_path, check=True)
    (tmp_path / "narrow.o").write_bytes(b"\x7fELF\1" + (tmp_path / "other.o").read_bytes()[5:])
    (tmp_path / "broken.o").write_bytes((tmp_path / "other.o").read_bytes()[:-64])
    (tmp_path / "bad.d").write_text("provider bad { probe a(nothing_t); };\n")
    (tmp_path / "struct.d").write_text("struct s { int x; };\nprovider p { probe a(struct s); };\n")
    for words, said in (
        (["-G", "-s", "app.d", "pointer.o"], "pointer.o uses probe start of provider app in another way"),
        (["-G", "-s", "app.d", "other.o"], "other.o calls probe go of provider app, which no program defines"),
        (["-G", "-s", "app.d", "narrow.o"], "narrow.o: it is no object file of a compiler for x86-64, with 64 bits"),
        (["-G", "-s", "app.d", "broken.o"], "broken.o: its tables are broken"),
        (["-G", "-s", "app.d", "app.c"], "app.c: it is no object file"),
        (["-G", "-s", "app.d", "none.o"], "cannot read none.o: No such file or directory"),
        (["-h", "-s", "app.d", "-o", "/nowhere/app.h"], "/nowhere/app.h: No such file or directory"),
        (["-h", "-s", "app.d", "-s", "bad.d"], "failed to compile script bad.d: line 1: "),
        (["-h", "-s", "app.d", "-n", "BEGIN"], "-h requires an output file"),
        (["-h", "-s", "struct.d"], "probe a of provider p gives a struct s"),
        (["-h", "-l", "-s", "app.d"], "only one of -G, -h and -l"),
        (["-h"], "there is no program"),
    ):
        status, told = dtrace(*words)
        assert (status in (1, 2), said in told, "Traceback" in told) == (True, True, False), told


#: Calls as headers by DTrace have them: twelve bytes of arguments on the stack, a call at the end of a function (a
#: jump), and one in an inline function, which is in a section group.
CALLS = """
extern "C" {
void __dtrace_shop___order__placed(long, const char *, long, long, long, long, long, long);
void __dtrace_shop___last(long);
void __dtrace_shop___shared(void);
void __dtraceenabled_shop___last(unsigned *);
}
inline __attribute__((noinline)) void twice() { __dtrace_shop___shared(); asm volatile(""); }
static __attribute__((noinline)) void quiet(int n) { __dtrace_shop___last(n); }
"""
SHOP = """provider shop {
	probe order__placed(int, char *, long, short, unsigned char, int, int, int); probe last(int); probe shared();
};
"""


def test_probes_that_a_program_calls_as_functions_fire(dtrace: Dtrace, tmp_path: Path) -> None:
    body = "unsigned on = 0; __dtraceenabled_shop___last(&on); if (on) quiet(on + 4); twice(); other(); return 0; }"
    call = '__dtrace_shop___order__placed(-7, "book", 1L << 40, -3, 200, 6, 70, 80);'
    (tmp_path / "one.cc").write_text(f"{CALLS}void other(); int main() {{ {call} {body}\n")
    (tmp_path / "two.cc").write_text(f"{CALLS}void other() {{ twice(); }}\n")
    (tmp_path / "shop.d").write_text(SHOP)
    subprocess.run(["g++", "-O2", "-Wno-unused-function", "-c", "one.cc", "two.cc"], cwd=tmp_path, check=True)
    assert dtrace("-G", "-s", "shop.d", "one.o", "two.o") == (0, "")
    first = [(tmp_path / name).read_bytes() for name in ("one.o", "two.o", "shop.o")]
    assert dtrace("-G", "-s", "shop.d", "one.o", "two.o") == (0, "")  # a makefile may do it again
    assert first == [(tmp_path / name).read_bytes() for name in ("one.o", "two.o", "shop.o")]
    linking = ["g++", "-Wl,--fatal-warnings", "one.o", "two.o", "shop.o", "-o", "shop"]
    subprocess.run(linking, cwd=tmp_path, check=True)
    notes = subprocess.run(["readelf", "-nW", "shop"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert sorted(re.findall(r"Name: (\S+)", notes)) == ["last", "order__placed", "shared"]
    assert "Arguments: -4@%edi 8@%rsi -8@%rdx -2@%cx 1@%r8b -4@%r9d -4@0(%rsp) -4@8(%rsp)\n" in notes
    program = """
        shop$target:::order-placed { printf("%s %d %s %d %d %d %d %d %d\\n", probefunc, (int)arg0, copyinstr(arg1),
            arg2, (short)arg3, arg4, arg5, arg6, arg7); }
        shop$target:::last { printf("%s %d\\n", probefunc, arg0); }
        shop$target:::shared { @ = count(); }
        END { printa("%@d\\n", @); }
    """
    words = [sys.executable, "-m", "gilk", "dtrace", "-q", "-n", program, "-c", "./shop"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    expected = ["main -7 book 1099511627776 -3 200 6 70 80", "quiet(int) 5", "2"]
    assert (done.stdout.split("\n")[:3], done.stderr) == (expected, "")
    assert subprocess.run(["./shop"], cwd=tmp_path, check=False).returncode == 0
