# SPDX-License-Identifier: LGPL-2.1-or-later
"""The check for stack at the start of functions of Go, beside objdump's disassembly and the symbols in it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gilk.analysis.analysis import Analysis
from gilk.image.elf import load
from tests.analysis.conftest import Compile
from tests.programs.build import build_go

# A loop of C that ends in a call and goes back to its start looks much the same, but for what it compares.
LOOP = r"""
int more(void);
asm(".text\n.type f,@function\n.type g,@function\n.type h,@function\n"
    "f: cmp 16(%rdi), %rsp\njbe 1f\nret\n1: call more\njmp f\n.size f,.-f\n"
    "g: cmp 16(%rdi), %rsi\njbe 1f\nret\n1: call more\njmp g\n.size g,.-g\n"
    "h: cmp 16(%rdi), %rsp\njbe 1f\nret\n1: jmp h\n.size h,.-h\n");
int more(void) { return 1; }
int main(void) { return 0; }
"""
GROWS = re.compile(r"call.*<runtime\.morestack(_noctxt)?(\.abi0)?>")


@pytest.fixture(scope="module")
def program() -> Path:
    return build_go("steady")


def checks(program: Path) -> dict[int, int]:
    """The address of the last comparison before the branch to code that calls runtime.morestack, by the function's
    start, as objdump shows them. Where runtime.morestackc is called instead, the program ends."""
    text = subprocess.check_output(["objdump", "-d", "--no-show-raw-insn", program], text=True)
    found = {}
    for part in re.split(r"\n(?=[0-9a-f]+ <)", text):
        lines = re.findall(r"^ +([0-9a-f]+):\t(.+?)\s*$", part, re.MULTILINE)
        callers = [n for n, (_, code) in enumerate(lines) if GROWS.search(code)]
        if not callers or not re.match(r"[0-9a-f]+ <", part.lstrip()):
            continue
        start = int(lines[0][0], 16)
        goal = int(lines[callers[0]][0], 16)
        for n, (_, code) in enumerate(lines[:12]):
            branch = re.match(r"jbe +([0-9a-f]+)", code)
            if branch and start <= int(branch[1], 16) <= goal and lines[n - 1][1].startswith("cmp"):
                found[start] = int(lines[n - 1][0], 16)
                break
    return found


def test_each_check_of_a_go_program_is_known(program: Path) -> None:
    analysis = Analysis(load(program))
    expected = checks(program)
    functions = {span.start: analysis.function(span) for span in analysis.image.spans}
    found = {start: each.check.compare for start, each in functions.items() if each.check is not None}
    assert len(expected) > 1000
    assert found == {start: at for start, at in expected.items() if start in functions}
    assert not any(functions[start].loops for start in found)


def test_other_code_that_begins_again_has_no_check(compiled: Compile) -> None:
    analysis = compiled(LOOP)
    checked = {}
    for span in analysis.image.spans:
        if span.name in ("f", "g", "h"):
            function = analysis.function(span)
            checked[span.name] = (function.check is not None, function.loops)
    assert checked == {"f": (True, False), "g": (False, True), "h": (False, True)}
