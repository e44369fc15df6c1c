# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names of variables of functions in D: what they mean, and what is refused by name."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gilk.engines.dtrace.compiled import DoesNotCompile
from gilk.engines.dtrace.local_expressions import Why
from tests.behaviour.harness import Loop, differences, leftovers, run_gilk
from tests.programs.build import build, compile_text
from tests.providers.sessions import traced

SOURCE = r"""
#include <stdio.h>
struct small { int a, b; };
static volatile int sink;
static __thread int own;
static inline __attribute__((always_inline)) int helper(int x) { int deep = x * 5; sink = deep; return deep; }
__attribute__((noinline)) static void touch(int *x) { sink = *x; }
__attribute__((noinline)) int in_memory(int same) { touch(&same); sink = same; return same; }
__attribute__((noinline)) int in_register(int same) { sink = same; return sink; }
__attribute__((noinline)) int work(int x, struct small s, double d)
{
	int k = x + 1;
	char text[8] = "hello";
	static int calls = 40;
	static __thread int of_thread;
	text[0] = 'a' + x;
	calls++, of_thread++;
	sink = k;
	{
		long k = x * 7;
		sink = k; touch(&x);
	}
	int r = helper(k) + s.a;
	sink = r + own + text[1] + (int)d; printf("%s\n", text);
	return r + k;
}
int main(void)
{
	int total = 0;
	for (int i = 0; i < 3; i++)
		total += work(i, (struct small){ i, 2 }, i + 0.5) + in_memory(i) + in_register(i + 10);
	return total < 0;
}
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("plain"), "plain", SOURCE, "-O0")


@pytest.fixture(scope="module")
def optimized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("optimized"), "optimized", SOURCE, "-O2")


def line(path: Path, text: str) -> str:
    """The description of the line of the source with that text."""
    rows = path.with_suffix(".c").read_text().splitlines()
    (number,) = [number for number, row in enumerate(rows, 1) if text in row]
    return f"pid$target:a.out:{path.name}.c:{number}"


def values(text: str, program: Path) -> list[str]:
    done = traced(text, program)
    assert (done.refused, done.errors, done.restored) == ({}, "", True)
    return [each for each in done.lines if each.startswith("=")]


def test_scalars_strings_arrays_structs_and_statics_are_typed(plain: Path) -> None:
    shown = "local`k, stringof(local`text), local`text[1], local`s.b, local`d, local`calls, sizeof (local`s)"
    text = f'{line(plain, "sink = r + own")} {{ printf("=%d %s %c %d %.1f %d %d\\n", {shown}); }}'
    assert values(text, plain) == ["=1 aello e 2 0.5 41 8", "=2 bello e 2 1.5 42 8", "=3 cello e 2 2.5 43 8"]


def test_the_innermost_of_several_blocks_counts(plain: Path) -> None:
    inner, outer = line(plain, "touch(&x)"), line(plain, "int r = helper")
    text = f'{inner} {{ printf("=%d", sizeof (local`k)); }} {outer} {{ printf(" %d\\n", sizeof (local`k)); }}'
    assert values(text, plain) == ["=8 4"] * 3


def test_a_variable_with_a_place_in_memory_has_an_address(plain: Path) -> None:
    at = line(plain, "sink = r + own")
    text = f'{at} {{ printf("=%d %d\\n", &local`text[3] - &local`text[0], *(int *)&local`k == local`k); }}'
    assert values(text, plain) == ["=3 1"] * 3


def test_one_clause_has_a_variable_from_a_register_and_from_memory(optimized: Path) -> None:
    """At an entry a parameter is in its register, wherever it lies later."""
    memory, register = line(optimized, "int in_memory"), "pid$target:a.out:in_register:entry"
    found = values(f'{register}, {memory} {{ printf("=%s %d\\n", probefunc, local`same); }}', optimized)
    assert {each for each in found if "in_register" in each} == {f"=in_register {10 + n}" for n in range(3)}
    assert {each for each in found if "in_memory" in each} == {f"=in_memory {n}" for n in range(3)}


def test_a_predicate_and_a_key_may_be_variables(plain: Path) -> None:
    done = traced(f"{line(plain, 'int r = helper')} /local`k > 1/ {{ @[local`k] = count(); }}", plain)
    assert done.numbers() == {"2": 1, "3": 1}


def inlined_at(path: Path) -> str:
    """The offset in ``work`` of the first store of the inlined function, by objdump."""
    words = ["objdump", "-dl", "--no-show-raw-insn", "--disassemble=work", path]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    number = re.search(r":(\d+)$", line(path, "int deep"))
    (start,) = re.findall(r"^0*([0-9a-f]+) <work>:$", listed, re.MULTILINE)
    assert number is not None
    rows = re.findall(rf"\.c:{number[1]}(?: .*)?\n +([0-9a-f]+):\tmov +%\w+,0x\w+\(%rip\)", listed)
    return f"{int(rows[0], 16) - int(start, 16):x}"


def test_an_inlined_functions_variable_is_named_with_the_function(optimized: Path) -> None:
    at = f"pid$target:a.out:work:{inlined_at(optimized)}"
    assert values(f'{at} {{ printf("=%d\\n", local`helper`deep); }}', optimized) == ["=5", "=10", "=15"]
    with pytest.raises(DoesNotCompile, match=re.escape("helper, which is inlined there, has one: local`helper`deep")):
        traced(f"{at} {{ trace(local`deep); }}", optimized)


def test_variables_of_a_running_process_are_read_and_the_process_stays_as_it_was() -> None:
    with Loop([build("hot8", "O0")]) as loop:
        done = traced("pid$target:a.out:hot:entry /++n == 10/ { trace(local`x == arg0); exit(0); }", pid=loop.pid)
        assert (done.lines, done.restored) == (["1"], True)
        assert (differences(loop.pid), leftovers(loop.pid)) == ([], [])


REFUSED = [
    ("work:entry", "kk", "D_LOCAL_UNDEF", "(not-in-scope); near names: k"),
    ("work:entry", "zzz", "D_LOCAL_UNDEF", "(not-in-scope); in scope there: x, s, d"),
    ("work:entry", "k", "D_LOCAL_LOST", "(not-declared-yet)"),
    ("work:entry", "s", "D_LOCAL_LOST", "(not-stored-yet)"),
    ("work:entry", "of_thread", "D_LOCAL_LOST", "(not-declared-yet)"),
    ("work:return", "of_thread", "D_LOCAL_LOST", "(of-the-thread)"),
    ("work:return", "nosuch`k", "D_LOCAL_UNDEF", "(not-in-scope)"),
    ("work:1", "x", "D_LOCAL_LOST", "(not-stored-yet)"),
]


@pytest.mark.parametrize(("where", "name", "tag", "message"), REFUSED)
def test_variables_that_are_not_there_are_refused_by_name(
    where: str, name: str, tag: str, message: str, plain: Path
) -> None:
    with pytest.raises(DoesNotCompile, match=re.escape(message)) as error:
        traced(f"pid$target:a.out:{where} {{ trace(local`{name}); }}", plain)
    assert error.value.wrong.diagnostic.tag == tag


def test_variables_are_refused_where_there_is_no_debug_information(tmp_path: Path) -> None:
    path = compile_text(tmp_path, "bare", SOURCE, "-g0")
    with pytest.raises(DoesNotCompile, match=r"\(no-debug-information\)"):
        traced("pid$target:a.out:work:entry { trace(local`x); }", path)


@pytest.mark.parametrize(
    ("clause", "tag"),
    [
        ("BEGIN { trace(local`k); }", "D_LOCAL_UNDEF"),
        ("inline int k = local`k; BEGIN { }", "D_LOCAL_UNDEF"),
        ("syscall::write:entry { trace(local`k); }", "D_LOCAL_UNDEF"),
        ("pid$target:a.out:work:return { local`k = 3; }", "D_OP_WRITE"),
        ("pid$target:a.out:work:return, pid$target:a.out:in_memory:entry { trace(local`s.a + local`same); }", ""),
        ("pid$target:a.out:work:return, pid$target:a.out:touch:return { trace(local`x); }", "D_LOCAL_MULTI"),
    ],
)
def test_variables_have_no_meaning_elsewhere(clause: str, tag: str, plain: Path) -> None:
    if not tag:  # each of both is had at one of the probes, so the clause runs at none
        done = traced(clause, plain)
        assert sorted(why[-14:] for why in done.refused.values()) == ["(not-in-scope)"] * 2
        return
    with pytest.raises(DoesNotCompile) as error:
        traced(clause, plain)
    assert error.value.wrong.diagnostic.tag == tag


def test_probes_without_the_variable_are_refused_and_the_others_fire(plain: Path) -> None:
    done = traced("pid$target:a.out:work:return, pid$target:a.out:main:entry { @[local`k] = count(); }", plain)
    assert done.numbers() == {"1": 1, "2": 1, "3": 1}
    assert [re.sub(r"^pid\d+:", "", probe) for probe in done.refused] == ["plain:main:entry"]
    assert next(iter(done.refused.values())).startswith("local`k: ")


def test_each_reason_has_a_row_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "d" / "README.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    assert sorted(set(rows) & {*Why}) == sorted(Why)


MARKED = r"""
static volatile int sink;
__attribute__((noinline)) int work(int x)
{
	int k = x * 3;
	sink = k;
	__asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f,994f-993f,3\n"
		"991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte 0\n.8byte 0\n.asciz \"shop\"\n"
		".asciz \"sold\"\n.asciz \"4@%0\"\n994: .balign 4\n.popsection" : : "r"(k));
	sink = x;
	return k;
}
int main(void) { return work(5) + work(7) - 36; }
"""


def test_variables_are_had_at_the_probes_that_a_program_defines(tmp_path: Path) -> None:
    path = compile_text(tmp_path, "marked", MARKED, "-O2", "-no-pie")
    assert values('shop$target:::sold { printf("=%d %d\\n", local`k, arg0); }', path) == ["=15 15", "=21 21"]


def test_variables_are_had_in_a_program_that_a_shell_executes(plain: Path) -> None:
    """The shell has no such function, so the type of the variable is stated by a cast."""
    clause = 'pid$target:plain:work:return { printf("=%d\\n", (int)local`k); }'
    done = run_gilk("dtrace", "-q", "--follow", "-n", clause, "-c", f"sh -c '{plain}; true'", timeout=300)
    assert re.findall(r"=(\d+)$", done.stdout, re.MULTILINE) == ["1", "2", "3"]
