# SPDX-License-Identifier: LGPL-2.1-or-later
"""``args[n]`` is refused, by name, for functions in languages that pass parameters otherwise than C."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.behaviour.harness import run_gilk
from tests.seldom import seldom

SOURCE = r"""
__attribute__((noipa)) long hot(long a, long b) { return a - b; }
int main(void) { return hot(40, 2) != 38; }
"""
GO = """package main
//go:noinline
func hot(a string, n int) int { return len(a) + n }
func main() { hot("hello", 7) }
"""
RUST = """#[inline(never)] #[no_mangle] pub fn hot(a: &str, n: usize) -> usize { a.len() + n }
fn main() { println!("{}", hot("hello", 7)); }
"""


def written_in(language: int, place: Path) -> Path:
    """A program whose debug information claims that language; apart from that, the assembler's text is C's."""
    (place / "hot.c").write_text(SOURCE)
    subprocess.run(["cc", "-O1", "-g", "-dA", "-S", "hot.c"], cwd=place, check=True)
    text = (place / "hot.s").read_text()
    changed, count = re.subn(r"\.byte\t0x[0-9a-f]+(\t# DW_AT_language)", rf".2byte\t{language:#x}\1", text)
    changed, forms = re.subn(r"(uleb128 0x13\t# \(DW_AT_language\)\n\t\.uleb128 )0xb\t", r"\g<1>0x5\t", changed)
    assert count == forms == 1, "the compiler writes it otherwise"
    (place / "hot.s").write_text(changed)
    subprocess.run(["cc", "hot.s", "-o", "hot"], cwd=place, check=True)
    return place / "hot"


def dtrace(clause: str, program: Path) -> tuple[int, str, str]:
    done = run_gilk("dtrace", "-q", "-xerrtags", "-n", clause, "-c", program, timeout=120)
    return done.returncode, done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("language", "name"), seldom([(0x1C, "Rust"), (0x7001, "0x7001"), (0x16, "Go"), (0x13, "D")], 2)
)
def test_args_of_functions_in_foreign_languages_are_refused(language: int, name: str, tmp_path: Path) -> None:
    program = written_in(language, tmp_path)
    for place in ("a.out:hot:entry", "a.out:h*:entry", "a.out::entry", "hot:hot:return"):
        status, _, said = dtrace(f"pid$target:{place} {{ trace(args[1]); exit(0); }}", program)
        assert status == 1, place
        assert "[D_ARGS_LANG]" in said and f"args[ ] of functions in {name}" in said.replace("language ", "")


@pytest.mark.parametrize("language", seldom([0x01, 0x04, 0x2B, 0x8001, 0x02, 0x0C, 0x1D, 0x21, 0x31], 4))
def test_args_of_functions_in_the_c_family_are_the_parameters(language: int, tmp_path: Path) -> None:
    program = written_in(language, tmp_path)
    clause = "pid$target:a.out:hot:entry { trace(args[1]); exit(0); }"
    assert dtrace(clause, program)[:2] == (0, "2")


def test_argument_registers_are_available_in_any_language(tmp_path: Path) -> None:
    program = written_in(0x16, tmp_path)
    assert dtrace("pid$target:a.out:hot:entry { trace(arg0); exit(0); }", program)[:2] == (0, "40")
    assert "[D_ARGS_IDX]" in dtrace("BEGIN { trace(args[0]); exit(0); }", program)[2]  # it has none
    assert dtrace("pid$target:libc:exit:entry { trace(args[0]); exit(0); }", program)[:2] == (0, "0")


@pytest.mark.parametrize(
    ("compiler", "source", "function"),
    [(("go", "build", "-o", "hot"), GO, "main.hot"), (("rustc", "-g", "-O", "-o", "hot"), RUST, "hot")],
    ids=["go", "rust"],
)
def test_args_are_refused_in_programs_of_go_and_rust_compilers(
    compiler: tuple[str, ...], source: str, function: str, tmp_path: Path
) -> None:
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"there is no {compiler[0]} here")
    name = "hot.go" if compiler[0] == "go" else "hot.rs"
    (tmp_path / name).write_text(source)
    subprocess.run([*compiler, name], cwd=tmp_path, check=True)
    status, _, said = dtrace(f"pid$target:a.out:{function}:entry {{ trace(args[1]); exit(0); }}", tmp_path / "hot")
    assert status == 1
    assert "[D_ARGS_LANG]" in said
