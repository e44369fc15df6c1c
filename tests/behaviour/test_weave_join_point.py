# SPDX-License-Identifier: LGPL-2.1-or-later
"""`jp` tells advice where it is. The program prints the same numbers, as its compiler has them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from tests.behaviour.advised import Rounds, aspects, build, rounds

PROGRAM = r"""
int counter;
NOINLINE long work(long n)
{
	static void *caller;

	caller = __builtin_return_address(0);
	printf("%p %p ", (void *)work, caller);
	return n + 1;
}
NOINLINE long first(long n) { long r = work(n); __asm__ volatile(""); return r; }
NOINLINE long second(long n) { long r = work(n) + 1; __asm__ volatile(""); return r; }
NOINLINE void stores(int n) { counter = n; __asm__ volatile("" ::: "memory"); }
static void one_round(void) { first(1); second(2); stores(3); puts(""); }
"""
WHERE = 'report("%p %p", jp.pc, jp.caller);'


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("places"), PROGRAM, "-O2", "-g", "-no-pie", "-pthread")


@pytest.fixture
def running(program: Path) -> Iterator[Rounds]:
    with rounds(program) as one:
        yield one


def _told(running: Rounds, path: Path) -> tuple[list[str], str]:
    """The texts of the reports of a round, and what the program says."""
    with gilk.attach(running.pid) as target, gilk.weave(path, target) as woven:
        said = running.ask()
        return [one.text for one in woven.reports(final=True)], said


@pytest.mark.parametrize("when", ["before", "inplace", "after"])
def test_a_call_knows_its_function_and_where_it_returns(running: Rounds, tmp_path: Path, when: str) -> None:
    advice = f"{WHERE}{' return proceed();' * (when == 'inplace')}"
    found, said = _told(running, aspects(tmp_path, f"call(long work(long n)) then {when} {{ {advice} }};"))
    assert " ".join(found) == said


def test_an_address_is_reported_by_its_name(running: Rounds, tmp_path: Path) -> None:
    found, said = _told(running, aspects(tmp_path, 'call(long work(long n)) then { report("%pS", jp.caller); };'))
    assert [one.split("+")[0] for one in found] == ["program:first", "program:second"]
    first = said.split()[1]
    (found_by_nm,) = re.findall(r"(\w+) T first$", _nm(running), re.MULTILINE)
    assert found[0].endswith(f"+{int(first, 16) - int(found_by_nm, 16):#x}")


def test_an_access_knows_its_instruction(running: Rounds, tmp_path: Path) -> None:
    text = 'writeGlobal(int counter) then after { report("%p", jp.pc); };'
    (found,), _ = _told(running, aspects(tmp_path, text))
    said = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", f"/proc/{running.pid}/exe"], capture_output=True, text=True, check=True
    )
    (instruction,) = re.findall(rf"^ *{int(found, 16):x}:\t(.*)$", said.stdout, re.MULTILINE)
    assert instruction.startswith("mov ") and instruction.endswith("<counter>")


def _nm(running: Rounds) -> str:
    return subprocess.run(["nm", f"/proc/{running.pid}/exe"], capture_output=True, text=True, check=True).stdout
