# SPDX-License-Identifier: LGPL-2.1-or-later
"""Blocks and edges of compiled functions, and of whole images against objdump."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gilk.analysis.analysis import Analysis
from gilk.analysis.jumps import JumpTargets
from gilk.analysis.model import End, Function
from gilk.arch import decode as x86
from tests.analysis.conftest import Compile, function


def ends(f: Function) -> set[End]:
    return {block.how for block in f.blocks}


def code(f: Function, start: int, end: int) -> bytes:
    return f.code[start - f.start : end - f.start]


def boundaries(path: Path) -> set[int]:
    """Addresses at which objdump shows an instruction."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    return {int(match, 16) for match in re.findall(r"^\s+([0-9a-f]+):\t", text.stdout, re.MULTILINE)}


def test_every_instruction_of_bash_begins_where_objdump_has_one(bash: Analysis) -> None:
    theirs = boundaries(bash.image.path)
    ours = {i.ip for f in bash.functions() for b in f.blocks for i in x86.decode(code(f, b.start, b.end), b.start)}
    assert len(ours) > 150_000
    assert ours - theirs == set()


def test_blocks_are_sorted_disjoint_and_joined_by_edges(bash: Analysis) -> None:
    for f in bash.functions():
        starts = {block.start for block in f.blocks}
        for before, after in zip(f.blocks, f.blocks[1:], strict=False):
            assert before.end <= after.start
        for number, block in enumerate(f.blocks):
            assert block.index == number
            assert f.start <= block.start < block.end <= f.end
            assert starts.issuperset(block.successors)
            if block.how is End.FALL and block.successors:
                assert block.successors == (block.end,)


def test_nearly_all_code_of_bash_is_reached(bash: Analysis) -> None:
    reached = sum(block.end - block.start for f in bash.functions() for block in f.blocks)
    assert reached / sum(f.end - f.start for f in bash.functions()) > 0.95


def test_a_call_does_not_end_a_block(compiled: Compile) -> None:
    source = 'int puts(const char *); int main(void) { puts("a"); puts("b"); return 0; }'
    main = function(compiled(source, "-O1"), "main")
    assert len(main.blocks) == 1
    assert [target != 0 for _, target in main.calls] == [True, True]


NORETURN = """
#include <stdlib.h>
#include <setjmp.h>
static jmp_buf place;
__attribute__((noinline)) static void last(int n) { if (n > 3) exit(n); abort(); }
__attribute__((noinline)) static void twice(int n) { last(n + 1); }
int by_exit(int n) { if (n) return n * 3; exit(4); }
int by_local(int n) { if (n) return n * 3; twice(n); return 1; }
int by_jump(int n) { if (n) return n * 3; longjmp(place, 1); }
int main(int n, char **v) { return by_exit(n) + by_local(n) + by_jump(n); }
"""


@pytest.mark.parametrize("name", ["by_exit", "by_local", "by_jump"])
@pytest.mark.parametrize("flags", [["-O1"], ["-O2"], ["-O2", "-no-pie", "-fno-plt"]], ids=" ".join)
def test_a_call_that_does_not_return_ends_its_block(compiled: Compile, name: str, flags: list[str]) -> None:
    analysis = compiled(NORETURN, "-fno-inline", "-fno-reorder-blocks-and-partition", *flags)
    f = function(analysis, name)
    assert not f.noreturn
    assert End.NORETURN in ends(f) or (End.TAIL in ends(f) and "last" not in name)
    assert End.RETURN in ends(f)


def test_noreturn_is_inferred_from_callees(compiled: Compile) -> None:
    analysis = compiled(NORETURN, "-O1", "-fno-inline", "-fno-reorder-blocks-and-partition")
    assert function(analysis, "last").noreturn
    assert not function(analysis, "main").noreturn


def test_functions_of_the_program_named_like_noreturn_library_functions_return(compiled: Compile) -> None:
    source = "int errx(int n) { return n + 1; } int main(int n, char **v) { return errx(n) + 1; }"
    analysis = compiled(source, "-O1", "-fno-inline", "-fno-builtin", "-fPIC", "-rdynamic")
    assert ends(function(analysis, "main")) == {End.RETURN}


def test_a_jump_to_a_function_is_a_tail_call_but_a_jump_to_a_cold_part_is_not(compiled: Compile) -> None:
    source = """
        #include <stdio.h>
        #include <stdlib.h>
        __attribute__((cold, noinline)) void rare(int n) { printf("%d", n); }
        __attribute__((noinline)) int other(int n) { return n ^ 5; }
        int tail(int n) { return other(n + 1); }
        int parts(int n) { if (__builtin_expect(n > 100, 0)) { rare(n); rare(n + 1); n = n * 7; } return n + 1; }
        int main(int n, char **v) { return tail(n) + parts(n); }
    """
    analysis = compiled(source, "-O2", "-fno-ipa-ra", "-fno-ipa-icf")
    tail, parts = function(analysis, "tail"), function(analysis, "parts")
    assert [(b.how, b.target) for b in tail.blocks] == [(End.TAIL, function(analysis, "other").start)]
    cold = function(analysis, "parts.cold")
    assert parts.parts == ((cold.start, cold.end),)
    assert End.TAIL not in ends(parts) | ends(cold)
    leaving = [block for block in parts.blocks if block.target]
    assert [block.target for block in leaving] == [cold.start]
    assert all(successor in {b.start for b in parts.blocks} for successor in leaving[0].successors)
    back = {block.target for block in cold.blocks if block.target}
    assert back <= {block.start for block in parts.blocks}


def test_landing_pads_begin_marked_blocks(compiled: Compile) -> None:
    source = """
        void may_throw(int); struct S { int *p; ~S() { *p += 1; } };
        int work(int n) { S s{&n}; try { may_throw(n); } catch (int e) { return e; } return n; }
        void may_throw(int n) { if (n > 1) throw n; }
        int main(int n, char **) { return work(n); }
    """
    analysis = compiled(source, "-O1", "-fno-inline", "-fno-reorder-blocks-and-partition", language="c++")
    work = next(analysis.function(s) for s in analysis.image.spans if s.name.startswith("_Z4work"))
    pads = {pad for frame in analysis.image.frames if frame.start == work.start for pad in frame.landing_pads}
    assert pads
    assert {block.start for block in work.blocks if block.landing_pad} == pads


def test_assembly_may_jump_over_a_lock_prefix(compiled: Compile) -> None:
    source = """
        __asm__(".globl over\\n.type over,@function\\nover:\\n cmpl $0, %esi\\n je 1f\\n lock\\n"
                "1: cmpxchgl %edx, (%rdi)\\n jne over\\n ret\\n.size over, .-over\\n");
        int main(void) { return 0; }
    """
    over = function(compiled(source), "over")
    jump = over.blocks[0]
    assert jump.how is End.BRANCH
    assert over.inner == {jump.end + 1}
    assert jump.target == jump.end + 1
    assert End.RETURN in ends(over)


def test_jump_targets_are_the_same_when_read_from_a_cache(bash: Analysis) -> None:
    again = JumpTargets.from_arrays(bash.jumps.to_arrays())
    span = bash.image.spans[100]
    assert Analysis(bash.image, again).function(span) == bash.function(span)
    with pytest.raises(KeyError):
        JumpTargets.from_arrays({})


def test_functions_that_share_a_tail_are_marked_as_sharing(compiled: Compile) -> None:
    source = """
        __asm__(".globl one\\n.type one,@function\\none:\\n mov %edi, %eax\\n inc %eax\\n"
                "shared: add $3, %eax\\n ret\\n.size one, .-one\\n"
                ".globl two\\n.type two,@function\\ntwo:\\n lea (%rdi,%rdi), %eax\\n jmp shared\\n.size two, .-two\\n");
        int main(void) { return 0; }
    """
    analysis = compiled(source)
    one, two = function(analysis, "one"), function(analysis, "two")
    assert len(one.blocks) == 2
    assert [(b.how, b.target) for b in two.blocks] == [(End.JUMP, one.blocks[1].start)]
