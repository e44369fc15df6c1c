# SPDX-License-Identifier: LGPL-2.1-or-later
"""The target programs can be trusted: each builds, passes undisturbed, and shows what it is for."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.programs.build import BuildError, build, names

VARIANTS = [
    ("work", "static"),
    ("work", "static-pie"),
    ("work", "nopie"),
    ("work", "stripped"),
    ("work", "static+stripped"),
    ("work", "nopie+stripped"),
    ("work", "O0"),
    ("work", "Os"),
    ("work", "O3"),
    ("work", "ibt"),
    ("jumptable", "Os"),
    ("jumptable", "nopie"),
    ("jumptable", "nopie+Os"),
    ("ifunc", "static"),
    ("ifunc", "static-pie"),
    ("ifunc", "now"),
    ("exceptions", "static"),
    ("exceptions", "Os"),
    ("threads", "static"),
    ("many", "n200"),
]


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=250, stdin=subprocess.DEVNULL)


def disassembly(program: Path, function: str) -> list[str]:
    """The instructions of a function, as objdump writes them."""
    command = ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", str(program)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [" ".join(line.split("\t")[1].split()) for line in text.splitlines() if re.match(r" +[0-9a-f]+:\t", line)]


@pytest.fixture(scope="module", autouse=True)
def plugin() -> Path:
    """Build the plugin, which programs open with dlopen beside themselves."""
    return build("plugin")


@pytest.mark.parametrize("name", names())
def test_a_program_passes_untouched(name: str) -> None:
    done = run(build(name))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == f"ok {name}"


@pytest.mark.parametrize("name", names())
def test_a_looping_program_prints_ready_and_ends_with_its_input(name: str) -> None:
    program = subprocess.Popen([build(name), "loop"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert program.stdin and program.stdout
    first = program.stdout.readline()
    while first.startswith("skipped"):
        first = program.stdout.readline()
    assert first == "ready\n"
    rest, _ = program.communicate(timeout=250)
    assert program.returncode == 0
    assert rest.splitlines()[-1] == f"ok {name}"


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_a_variant_passes_untouched(name: str, variant: str) -> None:
    done = run(build(name, variant))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == f"ok {name}"


@pytest.mark.parametrize(
    ("variant", "kind", "interpreter", "symbols"),
    [
        ("default", "DYN", True, True),
        ("static", "EXEC", False, True),
        ("static-pie", "DYN", False, True),
        ("nopie", "EXEC", True, True),
        ("stripped", "DYN", True, False),
    ],
)
def test_a_variant_has_the_properties_in_its_name(variant: str, kind: str, interpreter: bool, symbols: bool) -> None:
    text = subprocess.run(["readelf", "-hlSW", build("work", variant)], capture_output=True, text=True).stdout
    assert re.search(rf"Type: +{kind} ", text)
    assert ("INTERP" in text, " .symtab " in text) == (interpreter, symbols)


def test_hot8_counts_its_calls() -> None:
    assert "calls hot 800\n" in run(build("hot8"), "100").stdout


def test_sleeping_system_calls_are_not_interrupted() -> None:
    assert run(build("syscalls")).stdout == "interrupted 0\nok syscalls\n"


def test_a_broken_check_is_reported(tmp_path: Path) -> None:
    """dlopen fails without its plugin; a broken splice will look the same."""
    program = build("dlopen")
    done = subprocess.run([program], env={"PLUGIN": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("FAIL dlopen: line ")


def test_leaves_use_the_red_zone() -> None:
    for function in ("redzone_leaf", "redzone_bytes", "redzone_asm"):
        code = disassembly(build("redzone"), function)
        assert any(re.search(r"-0x[0-9a-f]+\(%rsp", line) for line in code), function
        assert not any(re.search(r"(sub|add) .*,%rsp", line) for line in code), function


def test_ipara_keeps_caller_saved_registers_over_a_call() -> None:
    code = disassembly(build("ipara"), "ipara_caller")
    last_call = max(i for i, line in enumerate(code) if line.startswith("call "))
    assert not any(line.startswith("push") or "(%rsp" in line for line in code)
    read_after = " ".join(code[last_call:])
    assert all(register in read_after for register in ("%rcx", "%r8", "%r9"))
    vector = disassembly(build("ipara"), "ipara_vector")
    assert not any("(%rsp" in line for line in vector)


@pytest.mark.parametrize("variant", ["default", "Os", "nopie", "nopie+Os"])
def test_switches_are_jump_tables(variant: str) -> None:
    program = build("jumptable", variant)
    for function in ("dense", "shifted", "interpret"):
        assert any(re.match(r"(notrack )?jmp \*", line) for line in disassembly(program, function)), function


def test_tail_calls_are_jumps() -> None:
    assert not any(line.startswith("call") for line in disassembly(build("tailcall"), "is_even"))
    assert any(re.match(r"jmp .*strlen", line) for line in disassembly(build("tailcall"), "tail_to_libc"))


def test_a_build_is_made_once(tmp_path: Path) -> None:
    first = build("work")
    before = first.stat().st_mtime_ns
    assert build("work") == first
    assert first.stat().st_mtime_ns == before


def test_a_warning_is_an_error(tmp_path: Path) -> None:
    from tests.programs.build import compile_to

    source = tmp_path / "bad.c"
    source.write_text("int main(void) { int unused; return 0; }\n")
    with pytest.raises(BuildError, match="unused"):
        compile_to(tmp_path / "bad", [source], ())
