# SPDX-License-Identifier: LGPL-2.1-or-later
"""Accesses by hand-written instructions of all kinds: the values that advice sees, what it can do, and what is
refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gilk.errors import UsageError
from tests.behaviour.test_weave_access import weave

HEAD = """\
#include <stdio.h>
#define NOINLINE __attribute__((noinline, noclone))
int x = 5; long y = 7; double d = 1.5; long (*hook)(long); float quad[4] __attribute__((aligned(16))); void *keep;
NOINLINE long twice(long n) { return 2 * n; }
"""
MAIN = """\
int main(void)
{
	long r;

	hook = twice;
	r = work(3);
	printf("%ld %d %ld %a\\n", r, x, y, d);
	return 0;
}
"""


def build(place: Path, body: str, before: str = "") -> Path:
    source, output = place / "kinds.c", place / "kinds"
    source.write_text(f"{HEAD}{before}NOINLINE long work(long n)\n{{\n{body}\n}}\n{MAIN}")
    subprocess.run(["gcc", "-O1", "-o", output, source], check=True)
    return output


def both(place: Path, body: str, text: str, before: str = "") -> tuple[list[str], list[str], list[str]]:
    """The lines that the program prints alone, those that it prints when woven, and the reports of advice."""
    program = build(place, body, before)
    alone = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    lines, _ = weave(program, text, place)
    reports = [line for line in lines if line.startswith("{")]
    return (
        alone,
        [line for line in lines if not line.startswith("{")],
        [line.split('"text": "')[1][:-3] for line in reports],
    )


#: By name: C, asm operands in order, and the accesses that are reported.
PLAIN = {
    "adc": (
        'unsigned long r = ~0UL; __asm__ volatile("mov %1, %%rax; add $1, %0; adc %%rax, y(%%rip); adc $0, %%rax; '
        'mov %%rax, %1" : "+r"(r), "+r"(n) : : "rax", "cc", "memory"); return n;',
        ["y 7", "y 7 -> 11"],
    ),
    "flags": (
        'unsigned char c; __asm__ volatile("cmpl $9, x(%%rip); setl %0" : "=r"(c) : : "cc", "memory"); return c;',
        ["x 5"],
    ),
    "dec": (
        'unsigned char c; __asm__ volatile("stc; decl x(%%rip); setc %0" : "=r"(c) : : "cc", "memory"); return c;',
        ["x 5", "x 5 -> 4"],
    ),
    "r11": (
        'long r; __asm__ volatile("lea x(%%rip), %%r11; mov $8, %%r10d; addl %%r10d, (%%r11); movslq (%%r11), %0"'
        ' : "=r"(r) : : "r10", "r11", "cc", "memory"); return r;',
        ["x 5", "x 5 -> 13", "x 13"],
    ),
    "red zone": (
        'long r; __asm__ volatile("movq $77, -8(%%rsp); movq $78, -128(%%rsp); movl $3, x(%%rip); movq -8(%%rsp), %0;'
        ' addq -128(%%rsp), %0" : "=r"(r) : : "cc", "memory"); return r;',
        ["x 5 -> 3"],
    ),
    "sse": (
        'double r; __asm__ volatile("movsd d(%%rip), %0; addsd %0, %0; movsd %0, d(%%rip)" : "=x"(r) : : "memory");'
        " return r * 4;",
        ["d 1.5", "d 1.5 -> 3"],
    ),
    "x87": (
        '__asm__ volatile("fldl d(%%rip); fadd %%st(0), %%st(0); fstpl d(%%rip)" : : : "memory"); return 1;',
        ["d 1.5", "d 1.5 -> 3"],
    ),
    "cmov": (
        'long r = 4; __asm__ volatile("cmp %1, %1; cmovne y(%%rip), %0" : "+r"(r) : "r"(n) : "cc", "memory"); return r;',
        ["y 7"],
    ),
    "not": ('__asm__ volatile("notq y(%%rip)" : : : "memory"); return 1;', ["y 7", "y 7 -> -8"]),
    "bts": (
        'unsigned char c; __asm__ volatile("btsl $4, x(%%rip); setc %0" : "=r"(c) : : "cc", "memory"); return c;',
        ["x 5", "x 5 -> 21"],
    ),
}  # fmt: skip
OBSERVED = """\
readGlobal(int x) && value(v) then { report("x %d", v); };
writeGlobal(int x) && value(v) && old(o) then { report("x %d -> %d", o, v); };
readGlobal(long y) && value(v) then { report("y %ld", v); };
writeGlobal(long y) && value(v) && old(o) then { report("y %ld -> %ld", o, v); };
readGlobal(double d) && value(v) then { report("d %g", v); };
writeGlobal(double d) && value(v) && old(o) then { report("d %g -> %g", o, v); };
"""
IN_PLACE = "".join(
    f"readGlobal({type_} {name}) && in(kind_*) then inplace {{ return proceed(); }};\n"
    f"writeGlobal({type_} {name}) && value(v) && in(kind_*) then inplace {{ proceed(v); }};\n"
    for type_, name in (("int", "x"), ("long", "y"), ("double", "d"))
)


def every_kind() -> str:
    """A program with a function for each kind; ``work`` calls them, each time with the variables' initial values."""
    calls = "".join(
        f'\tx = 5; y = 7; d = 1.5; r = kind_{n}(3); printf("%ld %d %ld %a\\n", r, x, y, d);\n'
        for n, _ in enumerate(PLAIN)
    )
    return f"long r;\n{calls}return 0;"


KINDS = "".join(f"NOINLINE long kind_{n}(long n)\n{{\n{body}\n}}\n" for n, (body, _) in enumerate(PLAIN.values()))


def test_advice_sees_the_values_read_and_written(tmp_path: Path) -> None:
    text = OBSERVED.replace(") &&", ") && in(kind_*) &&")
    alone, woven, reports = both(tmp_path, every_kind(), text, KINDS)
    assert (woven, reports) == (alone, [one for _, expected in PLAIN.values() for one in expected])


@pytest.mark.stress
def test_instructions_do_the_same_around_advice_in_place(tmp_path: Path) -> None:
    alone, woven, _ = both(tmp_path, every_kind(), IN_PLACE, KINDS)
    assert woven == alone


def test_advice_in_place_decides_the_values_read_and_written(tmp_path: Path) -> None:
    body = "x += n; y = x; d = d * 2; return x * 100 + y;"
    text = (
        "writeGlobal(int x) && value(v) && in(work) then inplace { proceed(v + 10); };\n"
        "readGlobal(int x) && in(work) then inplace { return proceed() + 1; };\n"
        "writeGlobal(long y) && in(work) then inplace { };\n"
        "writeGlobal(double d) && value(v) && in(work) then inplace { proceed(v / 2); };\n"
    )
    alone, woven, _ = both(tmp_path, '__asm__ volatile("addl %k0, x(%%rip); movslq x(%%rip), %%rax; mov %%rax, y(%%rip); '
                           'movsd d(%%rip), %%xmm0; addsd %%xmm0, %%xmm0; movsd %%xmm0, d(%%rip)" : : "r"(n) : "rax", "xmm0",'
                           ' "memory", "cc"); return 1;', text)  # fmt: skip
    assert alone == ["1 8 8 0x1.8p+1"]
    assert woven == ["1 19 7 0x1.8p+0"], body


def test_advice_before_a_read_may_change_the_variable(tmp_path: Path) -> None:
    text = '%{ extern int x; %}\nreadGlobal(int x) && in(work) && value(v) then { report("%d", v); x = v + 1; };\n'
    _, woven, reports = both(tmp_path, "return x;", text)
    assert (woven[0].split()[0], reports) == ("6", ["5"])


ATOMIC = (
    'int r = 3; __asm__ volatile("lock addl $2, x(%%rip); xchg %0, x(%%rip)" : "+r"(r) : : "memory", "cc"); return r;'
)


def test_atomic_instructions_are_observed(tmp_path: Path) -> None:
    text = (
        'writeGlobal(int x) && old(o) && in(work) then { report("before %d", o); };\n'
        'writeGlobal(int x) && old(o) && value(v) && in(work) then after { report("%d -> %d", o, v); };\n'
        'readGlobal(int x) && value(v) && in(work) then { report("read %d", v); };\n'
    )
    alone, woven, reports = both(tmp_path, ATOMIC, text)
    assert woven == alone == ["7 3 7 0x1.8p+0"]
    assert reports == ["read 5", "before 5", "5 -> 7", "read 7", "before 7", "7 -> 3"]


def test_a_call_through_a_variable_is_a_read(tmp_path: Path) -> None:
    alone, woven, reports = both(
        tmp_path, "return hook(n) + 1;", 'readGlobal(void *hook) && in(work) then { report("%s", jp.function); };'
    )
    assert (woven, reports) == (alone, ["work"])


REFUSED = [
    ("escapes", "keep = &x; return x;",
     "readGlobal(int x) then { report(\"x\"); };"),
    ("atomic-access", ATOMIC, "writeGlobal(int x) && value(v) then inplace { proceed(v); };"),
    ("atomic-access", ATOMIC, "writeGlobal(int x) && value(v) then { report(\"%d\", v); };"),
    ("split-access", "return *(volatile char *)&x;", "readGlobal(int x) then inplace { return 1; };"),
    ("split-access", "__asm__ volatile(\"movups %%xmm0, quad(%%rip)\" : : : \"memory\"); return quad[1];",
     "writeGlobal(struct four quad) then inplace { };"),
    ("strange-access", "__asm__ volatile(\"bts %0, y(%%rip)\" : : \"r\"(n) : \"memory\", \"cc\"); return y;",
     "writeGlobal(long y) then { report(\"y\"); };"),
    ("no-such-variable", "return x;", "readGlobal(int nothing) then { report(\"x\"); };"),
    ("cannot-weave", "return x;", "readGlobal(long x) then { report(\"x\"); };"),
]  # fmt: skip


@pytest.mark.parametrize(("slug", "body", "text"), REFUSED, ids=[f"{n}-{one[0]}" for n, one in enumerate(REFUSED)])
def test_accesses_that_cannot_be_woven_are_refused_by_name(slug: str, body: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        weave(build(tmp_path, body), text, tmp_path)
    assert error.value.slug == slug


def test_partial_aspects_leave_out_accesses_that_cannot_be_woven(tmp_path: Path) -> None:
    lines, _ = weave(build(tmp_path, ATOMIC), "partial writeGlobal(int x) then inplace { };", tmp_path)
    assert lines == ["7 3 7 0x1.8p+0"]
