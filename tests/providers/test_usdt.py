# SPDX-License-Identifier: LGPL-2.1-or-later
"""The marks that programs carry: those that readelf lists fire, with the values that the program passed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gilk.errors import GilkError
from gilk.image.elf import load
from gilk.image.stapsdt import marks
from gilk.lang.d.probes import described
from gilk.lang.ir import Peek
from gilk.lang.to_c.expressions import ExpressionPrinter
from gilk.providers import usdt
from gilk.providers.operands import operands
from gilk.targets.process import Process, attach
from tests.behaviour.harness import Loop, differences, leftovers
from tests.programs.build import build
from tests.providers.sessions import traced

_WITH_MARKS = [
    Path("/usr/lib/x86_64-linux-gnu/libstdc++.so.6"),
    Path("/usr/bin/python3"),
    *Path("/usr/lib/jvm").glob("*/lib/server/libjvm.so"),
]
_NOTE = re.compile(
    r"Provider: (\S+)\s+Name: (\S+)\s+Location: (\S+), Base: \S+, Semaphore: (\S+)\s+Arguments: ?(.*)", re.MULTILINE
)


@pytest.mark.parametrize("path", _WITH_MARKS, ids=lambda path: path.name)
def test_usdt_notes_are_those_that_readelf_shows(path: Path) -> None:
    try:
        found = marks(path)
    except GilkError:
        pytest.skip("not there")
    told = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, check=True).stdout
    rows = [
        (p, n, int(at, 16), int(counter, 16), arguments.strip()) for p, n, at, counter, arguments in _NOTE.findall(told)
    ]
    assert rows
    assert [(m.provider, m.name, m.address, m.semaphore, m.arguments.strip()) for m in found] == rows


def test_an_image_without_usdt_notes_has_no_probes() -> None:
    assert marks(build("work")) == ()


def test_a_replaced_file_has_the_notes_of_the_new_one(tmp_path: Path) -> None:
    place = tmp_path / "program"
    shutil.copy(build("work"), place)
    assert usdt.marks_of(place) == ()
    new = tmp_path / "new"
    shutil.copy("/usr/bin/python3", new)
    new.rename(place)
    assert usdt.marks_of(place) == tuple(marks(Path("/usr/bin/python3"))) != ()
    place.unlink()
    assert usdt.marks_of(place) == ()


def test_unsupported_operands_are_refused() -> None:
    unknown = "8f@%xmm0 4@%st(1) 8@%fs:16 8@8(%rip) 8@gone(%rip) 8@(%eax) 8@- 8@a*b(%rax) 8@$09"
    for text in unknown.split():
        assert operands(text, {"here": 64}.get) == (None,), text


@pytest.mark.parametrize(
    "text, expected",
    [
        ("-4@%edi", "((gd_s32)regs->rdi)"),
        ("1@%ch", "((gd_u8)((gd_u64)(regs->rcx >> (((gd_u64)0x8UL) & 63))))"),
        ("8@%r9d", "((gd_u32)regs->r9)"),
        ("%r9", "((gd_u64)regs->r9)"),
        ("2@$-1", "((gd_u16)65535)"),
        ("8@$010", "((gd_u64)0x8UL)"),
        (
            "4@(%rdi)",
            "((gd_u32)d_word(regs, ((gd_u64)(((gd_u64)0x0UL) + ((gd_u64)(regs->rdi * ((gd_u64)0x1UL))))), 4))",
        ),
        ("4@here+4(%rip)", "((gd_u32)d_word(regs, ((gd_u64)0x44UL), 4))"),
    ],
)
def test_an_operand_becomes_a_c_expression(text: str, expected: str) -> None:
    (found,) = operands(text, {"here": 64}.get)
    assert found is not None
    assert ExpressionPrinter(0, 0).emit(found) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("-8@-8(%rbp, %rax, 4)", -8 + 0x1000 + 4 * 0x30),
        ("4@(,%rbx,2)", 2 * 0x50),
        ("4@0x10-here(%rdi)", 0x10 - 64 + 0x7000),
        ("1@010(%rdi,%rdi)", 8 + 0xE000),
        ("4@here+4(%rip)", 68),
    ],
)
def test_operands_in_memory_have_the_right_address(text: str, expected: int) -> None:
    (found,) = operands(text, {"here": 64}.get)
    assert isinstance(found, Peek)
    registers = {"rax": 0x30, "rbx": 0x50, "rbp": 0x1000, "rdi": 0x7000}
    code = ExpressionPrinter(0, 0).emit(found.address).replace("(gd_u64)", "").replace("UL", "")
    for name, value in registers.items():
        code = code.replace(f"regs->{name}", str(value))
    assert eval(code, {"__builtins__": {}}) & (1 << 64) - 1 == expected


def test_usdt_probes_fire_with_the_programs_values(capfd: pytest.CaptureFixture[str]) -> None:
    program = """#pragma D depends_on provider marked
        marked$target:::work-step { @n["passages"] = count(); @a["first"] = sum(arg0); @b["second"] = sum(arg1); }
        marked$target:a.out::work__step { @c["third"] = sum(arg2); @l["both"] = sum(arg3 * 10 + arg4); }
        marked$target:::work-* { @["last"] = max(arg5); }
        marked$target:::float { @f["float"] = sum(arg1); }
        pid$target:a.out:ten:entry { @s["stack"] = sum(arg6 + 2 * arg7 + 3 * arg8 + 4 * arg9); }"""
    done = traced(program, build("marked"))
    steps, total, listened = map(int, re.findall(r"\d+", capfd.readouterr().out.splitlines()[0]))
    assert (steps, listened) == (1000, 1000)
    assert done.numbers() == {
        "passages": steps, "first": -total, "second": -total, "third": sum(i & 255 for i in range(steps)),
        "both": 25 * steps, "last": total, "float": 7 * steps, "stack": sum(2 * i + 8 for i in range(steps)),
    }  # fmt: skip
    assert (done.refused, done.errors) == ({}, "")


def test_semaphores_are_lowered_after_the_session() -> None:
    """An argument that cannot be fetched makes its probe refused."""
    with Loop([build("marked")]) as loop:
        program = """marked*:::work-step { @ = count(); hit = 1; } marked*:::float { trace(arg0); }
            tick-10ms /hit/ { exit(0); }"""
        done = traced(program, pid=loop.pid)
        assert done.restored and int(done.lines[0]) > 0
        assert list(done.refused.values()) == ["arg0 is where it cannot be fetched from"]
        assert (differences(loop.pid), leftovers(loop.pid), _semaphore(loop.pid)) == ([], [], 0)


def _semaphore(pid: int) -> int:
    """The value of marked.c's semaphore in that process."""
    image = load(build("marked"))
    address = next(each.address for each in image.symbols if each.name == "marked_step_semaphore")
    base = int(Path(f"/proc/{pid}/maps").read_text().split("-", 1)[0], 16)
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(base + address)
        return int.from_bytes(memory.read(2), "little")


def test_usdt_probes_are_selected_by_name_and_glob() -> None:
    with Loop([build("marked")]) as loop, attach(loop.pid) as process:
        provider = f"marked{loop.pid}"
        both = [(provider, "marked", function, "work-step") for function in ("step", "other_step")]
        assert sorted(listed(process, "mark*:::work*")) == sorted(both)
        assert listed(process, f"{provider}:marked:other_step:work__step") == both[1:]
        assert [row[3] for row in listed(process, f"{provider}:::f*")] == ["float"]
        assert listed(process, "work-step") == listed(process, "marked:::") == listed(process, "marked0:::") == []


def listed(process: Process, text: str) -> list[tuple[str, str, str, str]]:
    return [probe.key for probe in usdt.probes(process, described(text))]


@pytest.mark.stress
def test_python_function_probes_fire_where_gdb_stops() -> None:
    python = ["/usr/bin/python3", "-I", "-S", "-c", _COUNTING]
    if not marks(Path(python[0])):
        pytest.skip("python3 has no marks")
    program = "python$target:::function-entry, python$target:::function-return { @[probename] = count(); }"
    words = ["-batch", "-ex", "set breakpoint pending on"]
    for number, name in enumerate(("entry", "return"), 1):
        words += ["-ex", f"break -probe-stap python:function__{name}", "-ex", f"ignore {number} 1000000"]
    told = subprocess.run(
        ["gdb", "-q", *words, "-ex", "run", "-ex", "info breakpoints", "--args", *python],
        capture_output=True,
        text=True,
    )
    hits = [int(number) for number in re.findall(r"already hit (\d+) times", told.stdout)]
    assert traced(program, *python).numbers() == dict(zip(("function-entry", "function-return"), hits, strict=True))


_COUNTING = """\
import sys
def inner(n): return n + 1
def outer(): return sum(inner(n) for n in range(100))
sys.setprofile(lambda *_: None)
for _ in range(20): outer()
"""
