# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clauses change no register and no flag of the program, nor what it keeps below its stack pointer: on the processor
itself, also where a clause does for the first time on a processor what it does seldom."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.behaviour.harness import run_gilk
from tests.programs.build import compile_text
from tests.seldom import seldom

#: Calls hot(), which writes down all there is when it begins, and goes on into inside(), which writes it down again;
#: ROUNDS times on each of two processors, with other values each time. Says what has changed.
PROGRAM = r"""
#include <sched.h>
#include <stdint.h>
#include <stdio.h>

enum { REGISTERS = 15, ZONE = 16, ROUNDS = 200 };

uint64_t given[REGISTERS + 1], seen[REGISTERS + 1], later[REGISTERS + 1], zone[ZONE], ours[7];
void call(void);

__asm__(".macro each what, to\n"
	".set n, 0\n"
	".irp reg, rax,rbx,rcx,rdx,rsi,rdi,rbp,r8,r9,r10,r11,r12,r13,r14,r15\n"
	".ifc \\what, load\n mov \\to+8*n(%rip), %\\reg\n.else\n mov %\\reg, \\to+8*n(%rip)\n.endif\n"
	".set n, n+1\n.endr\n.endm\n"
	".macro flags to\n seto \\to(%rip)\n setc \\to+1(%rip)\n setz \\to+2(%rip)\n sets \\to+3(%rip)\n"
	"setp \\to+4(%rip)\n.endm\n"
	".text\n.globl hot\n.type hot,@function\nhot:\n"
	"each store, seen\n"
	"flags seen+120\n"
	".set i, 1\n.rept 16\n mov %rbx, -8*i(%rsp)\n .set i, i+1\n.endr\n"
	"each load, given\n"
	".globl inside\n.type inside,@function\ninside: lea 8(%rax), %rax\n lea -8(%rax), %rax\n"
	"each store, later\n"
	".set i, 1\n.rept 16\n mov -8*i(%rsp), %rax\n mov %rax, zone+8*(i-1)(%rip)\n .set i, i+1\n.endr\n"
	"ret\n.size inside, .-inside\n.size hot, inside-hot\n"
	".globl call\n.type call,@function\ncall:\n"
	"mov %rbx, ours(%rip)\n mov %rbp, ours+8(%rip)\n mov %r12, ours+16(%rip)\n"
	"mov %r13, ours+24(%rip)\n mov %r14, ours+32(%rip)\n mov %r15, ours+40(%rip)\n"
	"each load, given\n stc\n flags ours+48\n"
	"call hot\n"
	"mov ours(%rip), %rbx\n mov ours+8(%rip), %rbp\n mov ours+16(%rip), %r12\n"
	"mov ours+24(%rip), %r13\n mov ours+32(%rip), %r14\n mov ours+40(%rip), %r15\n ret\n.size call, .-call\n");

static const char *const names[REGISTERS] = {
	"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
};
static int wrong;

static void same(const char *where, const char *what, uint64_t is, uint64_t was)
{
	if (is != was && wrong++ < 20)
		printf("%s: %s is %#lx and was %#lx\n", where, what, is, was);
}

static void once(uint64_t *seed)
{
	for (int n = 0; n < REGISTERS; n++)
		given[n] = *seed = *seed * 6364136223846793005UL + 1442695040888963407UL;
	call();
	for (int n = 0; n < REGISTERS; n++) {
		same("at the entry", names[n], seen[n], given[n]);
		same("behind the inside", names[n], later[n], given[n]);
	}
	same("at the entry", "the carry", seen[REGISTERS] >> 8 & 1, 1);
	same("at the entry", "a flag", seen[REGISTERS], ours[6]);
	for (int n = 0; n < ZONE; n++)
		same("below the stack pointer", "a word", zone[n], given[1]);
}

int main(void)
{
	uint64_t seed = 1;

	for (int cpu = 0; cpu < 2; cpu++) {
		cpu_set_t only;
		CPU_ZERO(&only);
		CPU_SET(cpu, &only);
		sched_setaffinity(0, sizeof only, &only);
		for (int n = 0; n < ROUNDS; n++)
			once(&seed);
	}
	printf("%d wrong\n", wrong);
	return 0;
}
"""
CLAUSES = {
    "of-arguments": ["@a = sum(arg0); @b = quantize(arg1); @c = lquantize(arg2, 0, 100, 10);"],
    "keyed": ["@[arg0 % 5, probename] = avg(arg1); self->n++; total[arg1 % 3] = self->n;"],
    "faults": ["@[copyinstr(arg0)] = count();"],
    "count": ["@ = count();"],
    "records": ['printf("%d %s", arg5, execname); ustack(3);'],
    "speculation": ["self->s = speculation();", "speculate(self->s); trace(arg0);", "commit(self->s);"],
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("registers"), "registers", PROGRAM, "-O1")


@pytest.mark.parametrize("clause", seldom(CLAUSES, 3))
def test_clauses_preserve_all_registers(program: Path, clause: str) -> None:
    where = "pid$target:a.out:hot:entry, pid$target:a.out:inside:entry"
    text = " ".join(f"{where} {{ {body} }}" for body in CLAUSES[clause]) + ' END { printf("the end"); }'
    done = run_gilk("dtrace", "-q", "-n", text, "-c", shlex.quote(str(program)), timeout=250)
    assert done.returncode == 0, done.stderr
    told = re.findall(r"\d+ wrong$", done.stdout, re.MULTILINE)  # the program may print it amid a line of the clauses
    assert told == ["0 wrong"], done.stdout[-3000:]
