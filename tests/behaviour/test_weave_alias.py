# SPDX-License-Identifier: LGPL-2.1-or-later
"""Accesses by address: woven aspects see each access that valgrind's lackey sees in blocks of memory, once; and
stores that reach past a block are found, also in a program that was not written for that."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from gilk.errors import UsageError
from tests.behaviour.harness import run_gilk
from tests.behaviour.test_weave_access import weave
from tests.seldom import seldom

OVERFLOW = Path("examples/aspects/overflow.aspect").resolve()
BLOCKS = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define NOINLINE __attribute__((noinline, noclone))
struct node { struct node *next; int key; char name[20]; double weight; };
NOINLINE void *block(size_t n) { void *p = malloc(n); fprintf(stderr, "%p %zu\\n", p, n); return p; }
NOINLINE struct node *grown(struct node *list, int key)
{
	struct node *one = block(sizeof *one);
	int n;

	one->next = list; one->key = key; one->weight = key / 3.0;
	for (n = 0; n < 20; n++) one->name[n] = (char)(key + n);
	return one;
}
NOINLINE double total(const struct node *list)
{
	double r = 0;

	for (; list; list = list->next) r += list->weight * list->key + list->name[list->key % 20];
	return r;
}
NOINLINE void sieve(unsigned char *marks, unsigned n)
{
	unsigned i, j;

	for (i = 0; i < n; i++) marks[i] = 1;
	for (i = 2; i < n; i++) if (marks[i]) for (j = 2 * i; j < n; j += i) marks[j] &= 6;
}
NOINLINE void scale(float *v, int n) { int i; for (i = 0; i < n; i++) v[i] = v[i] * 2 + 1; }
NOINLINE long sum(const int *v, int n) { long r = 0; int i; for (i = 0; i < n; i++) r += v[i]; return r; }
int main(void)
{
	struct node *list = 0;
	unsigned char *marks = block(300);
	float *v = block(64 * sizeof *v);
	int *w = block(50 * sizeof *w), i;

	for (i = 0; i < 9; i++) list = grown(list, i);
	sieve(marks, 300);
	for (i = 0; i < 64; i++) v[i] = (float)i;
	for (i = 0; i < 50; i++) w[i] = i * i;
	scale(v, 64);
	printf("%g %ld %d %g\\n", total(list), sum(w, 50), marks[97] + marks[98], v[63]);
	return 0;
}
"""
SEEN = """\
table stores key(unsigned long, unsigned long, long) count;
table loads key(unsigned long, unsigned long, long) count;
seq(call(void *block(unsigned long n)) && return(b);
  write(b, n) && size(s) && offset(o) && in(a.out) then after { add(stores, n, s, o, 1); } *;
  call(void never(void *b)));
seq(call(void *block(unsigned long n)) && return(b);
  read(b, n) && size(s) && offset(o) && in(a.out) then { add(loads, n, s, o, 1); } *;
  call(void never(void *b)));
"""
NEVER = 'NOINLINE void never(void *p) { __asm__ volatile("nop;nop;nop;nop" : : "r"(p)); }\n'  # room for a jump
Seen = dict[str, Counter[tuple[int, int, int]]]


def build(place: Path, text: str, *options: str) -> Path:
    source, output = place / "blocks.c", place / "blocks"
    source.write_text(text)
    subprocess.run(["gcc", "-w", *options, "-o", output, source], check=True)
    return output


def seen_by_lackey(program: Path, place: Path) -> Seen:
    """How often code of the program itself read and wrote so many bytes, by the block's size and the offset in it.
    Blocks of one size count together."""
    log = place / "lackey.log"
    done = subprocess.run(
        ["valgrind", "--tool=lackey", "--vex-iropt-level=0", "--trace-mem=yes", f"--log-file={log}", program],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    blocks = [(int(at, 16), int(size)) for at, size in re.findall(r"0x([0-9a-f]+) (\d+)", done.stderr)]
    found: Seen = {"stores": Counter(), "loads": Counter()}
    for kind, where, size in re.findall(r"^ ([LSM]) ([0-9a-f]+),(\d+)$", log.read_text(), re.MULTILINE):
        at, count = int(where, 16), int(size)
        for start, length in blocks:
            if start - count < at < start + length:
                for way in {"L": ["loads"], "S": ["stores"], "M": ["loads", "stores"]}[kind]:
                    found[way][length, count, at - start] += 1
    return found


def seen_woven(program: Path, place: Path) -> tuple[list[str], Seen]:
    file = place / "seen.aspect"
    file.write_text(SEEN)
    done = run_gilk("weave", file, "--json", "-c", program, timeout=300)
    assert not done.returncode, (done.stdout[-2000:], done.stderr[-2000:])
    _, *lines, last = done.stdout.splitlines()
    summary = json.loads(last)
    assert all(one["restored"] is not False for one in summary["processes"])
    tables = {
        name: Counter({tuple(map(int, row["key"].split(", "))): row["value"] for row in table["rows"]})
        for name, table in summary["tables"].items()
    }
    return lines, tables  # type: ignore[return-value]


@pytest.mark.parametrize(
    "options",
    [pytest.param(("-O0",), marks=pytest.mark.stress), pytest.param(("-O2",), marks=pytest.mark.stress),
     ("-O3", "-mavx2")],
    ids=" ".join,
)  # fmt: skip
def test_advice_sees_every_access_in_a_block_that_lackey_sees(options: tuple[str, ...], tmp_path: Path) -> None:
    program = build(
        tmp_path, BLOCKS.replace("int main", NEVER + "int main"), *options, "-fno-tree-loop-distribute-patterns"
    )
    alone = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    expected = seen_by_lackey(program, tmp_path)
    lines, found = seen_woven(program, tmp_path)
    assert lines == alone
    for way in ("stores", "loads"):
        assert sum(expected[way].values()) > 500
        assert found[way] == expected[way], way


PLANTED = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) void fill(char *p, int n) { for (int i = 0; i < n; i++) { p[i] = 'x'; __asm__ volatile(""); } }
__attribute__((noinline)) void last(long *p, int n) { p[n] = 7; }
int main(void)
{
	char *a = malloc(100), *b = malloc(200);
	long *c = malloc(8 * 13), *d = malloc(30);

	fill(a, 100); fill(b, 200); fill((char *)d, 30); last(c, 12);
	puts("sound");
	fill(a, 102); last(c, 13);
	printf("%d %ld\\n", a[99], c[12]);
	free(a); free(b); a = malloc(80); fill(a, 80); free(a); free(d); free(c);
	return 0;
}
"""


def overflows(program: list[str], file: Path = OVERFLOW, stdin: str = "") -> tuple[str, list[str]]:
    """The output of the woven program, and its reports."""
    done = run_gilk("weave", file, "-q", "--", *program, timeout=300, input=stdin.encode())
    assert not done.returncode, done.stderr
    return done.stdout, [line.split("] ")[1] for line in done.stderr.splitlines() if line.startswith("[")]


def test_stores_past_a_block_are_reported_and_suppressed(tmp_path: Path) -> None:
    """The last word would overwrite a note of malloc's: without the aspect, free() of the next block ends the
    program."""
    program = build(tmp_path, PLANTED, "-O1")
    assert subprocess.run([program], capture_output=True).returncode
    output, reports = overflows([str(program)])
    assert output == "sound\n120 7\n"
    assert reports == ["1 at 100 of 100", "1 at 101 of 100", "8 at 104 of 104"]


COPIED = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
	size_t n = (size_t)atol(argv[1]);
	char *from = calloc(1, 400), *to = malloc(200), *behind = malloc(200);

	memset(behind, 'b', 200);
	memcpy(to, from, n);
	printf("%c\\n", behind[0]);
	return 0;
}
"""


@pytest.mark.parametrize(("size", "past"), seldom([(300, True), (200, False)], 1))
def test_stores_made_by_library_functions_are_seen(size: int, past: bool, tmp_path: Path) -> None:
    """The program calls the memcpy that the loader has chosen for this processor."""
    program = build(tmp_path, COPIED, "-O1", "-fno-builtin")
    _, reports = overflows([str(program), str(size)])
    ends = [sum(int(word) for word in report.split(" of ")[0].split(" at ")) for report in reports]
    assert bool(reports) is past and all(end > 200 for end in ends)


def test_a_correct_program_gets_no_reports_and_prints_the_same() -> None:
    """All stores of a stock program are compared, and its output is the same."""
    script = "x=0; for i in 1 2 3 4 5 6 7 8 9; do x=$((x + i)); y=$y$i; done; echo $x ${y%89}"
    output, reports = overflows(["bash", "-c", script], file=OVERFLOW)
    assert (output, reports) == ("45 1234567\n", [])


STRANGE = {
    "atomic": ("__atomic_fetch_add((long *)p, 1, 5);", "write(b, 8) then inplace { }", "atomic-access"),
    "long double": ("*(volatile long double *)p = 1;", "write(b, 64) then { }", "strange-access"),
    "string, read": (
        '{ char to[9]; void *d = to, *s = p; long n = 9; '
        '__asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory"); }',
        "read(b, 64) then { }", "strange-access",
    ),
    "string, value": (
        '{ void *d = p; long n = 9; __asm__ volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(0) : "memory"); }',
        "write(b, 64) && value(v) then { }", "strange-access",
    ),
    "wide": (
        '__asm__ volatile("movups %%xmm0, (%0)" : : "r"(p) : "memory");',
        "write(b, 64) && value(v) then inplace { proceed(v); }", "split-access",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", seldom(STRANGE, 1))
def test_accesses_by_address_that_cannot_be_woven_are_refused_by_name(name: str, tmp_path: Path) -> None:
    """Where the aspect permits that, the function is left out and named instead."""
    body, element, slug = STRANGE[name]
    text = (
        "#include <stdlib.h>\n__attribute__((noinline)) void use(void *p) { " + body + " }\n"
        "int main(void) { void *p = malloc(64); use(p); free(p); return 0; }\n"
    )
    program = build(tmp_path, text, "-O1")
    aspect = (
        f"seq(call(void *libc:malloc(unsigned long n)) && return(b); {element.replace(' then', ' && in(use) then')} *;"
        " call(void libc:free(void *b)));"
    )
    with pytest.raises(UsageError) as error:
        weave(program, aspect, tmp_path)
    assert error.value.slug == slug
    file = tmp_path / "partial.aspect"
    file.write_text("partial " + aspect)
    done = run_gilk("weave", file, "-c", program, timeout=250)
    assert done.returncode == 0
    assert f"{file.name}, line 1: " in done.stderr and f"({slug})" in done.stderr
    dry = run_gilk("weave", file, "--dry-run", "-c", program, timeout=250)
    assert (dry.returncode, dry.stdout.count("left out: ")) == (0, 1) and f"({slug})" in dry.stdout


@pytest.mark.parametrize(
    ("aspect", "why"),
    [
        ("var(long n = 8) seq(call(void *libc:malloc(unsigned long m)) && return(b); write(b, n) && in(main) *; "
         "call(void libc:free(void *b)));", "advice may change n"),
        ("seq(call(void *libc:malloc(unsigned long m)) && return(b); write(b, pid()) && in(main) *; "
         "call(void libc:free(void *b)));", "does not compile"),
    ],
)  # fmt: skip
def test_memory_whose_length_may_change_is_refused(aspect: str, why: str, tmp_path: Path) -> None:
    program = build(tmp_path, "#include <stdlib.h>\nint main(void) { free(malloc(9)); return 0; }\n")
    with pytest.raises(UsageError) as error:
        weave(program, aspect, tmp_path)
    assert error.value.slug == ("does-not-compile" if "compile" in why else "cannot-weave")
    assert why in error.value.message or "names and constants alone" in error.value.message
