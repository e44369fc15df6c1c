# SPDX-License-Identifier: LGPL-2.1-or-later
"""Jumps to other images that advice follows or does not follow, and advice on all functions of a library at once."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from gilk.errors import GilkError
from gilk.session.advised_session import AdvisedSession
from gilk.session.advising import advice
from gilk.session.places import Place, functions
from gilk.targets import tails
from gilk.targets.process import attach
from tests.behaviour.advised import COMPILERS, TAILS, after, build, inplace, rounds, session
from tests.behaviour.harness import differences, leftovers
from tests.seldom import seldom

LIBRARY = """
#define NOINLINE __attribute__((noinline))
NOINLINE long farther(long n) { __asm__ volatile(""); return n * 3; }
long far(long n) { __asm__ volatile(""); return farther(n + 1); }
"""
IMPORTS = """
long far(long n);
NOINLINE long near(long n) { __asm__ volatile(""); return far(n * 10); }
static void one_round(void) { static long n; printf("%ld\\n", n++ ? near(n) : 0); }
"""


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("option", seldom(["-Wl,-z,lazy", "-fno-plt", "-Wl,-z,now"], 2))
def test_advice_follows_jumps_to_another_image(tmp_path: Path, option: str, compiler: str) -> None:
    """The library is out of reach of the program, in which the advice is."""
    source, library = tmp_path / "library.c", tmp_path / "library.so"
    source.write_text(LIBRARY)
    subprocess.run([compiler, *TAILS, "-fPIC", "-shared", "-o", library, source], check=True)
    options = (*TAILS, option, "-Wl,--no-as-needed", str(library))
    program = build(tmp_path, IMPORTS, *options, compiler=compiler)
    with rounds(program) as running:
        assert running.ask() == "0"
        with session(running.pid) as one:
            if option == "-Wl,-z,lazy":
                with pytest.raises(GilkError, match="not yet") as caught:
                    after(one, "near", "return r + 1000;")
                assert caught.value.slug == "tail-call"
            assert running.ask() == "63"
            after(one, "near", "return r + 1000;")
            assert running.ask() == "1093"
            after(one, "library.so:farther", "return -r;")
            assert running.ask() == str(1000 - 123)
            inplace(one, "library.so:far", "return proceed() + proceed(n + 1);")
            assert running.ask() == str(1000 - 153 - 156)
        assert one.restored
        assert running.ask() == "183"
        assert not differences(running.pid) and not leftovers(running.pid)


MANY = "\n".join(
    ["#define HIDDEN __asm__ volatile(\"\")", "NOINLINE long f0(long n) { HIDDEN; return n; }",
     *(f"NOINLINE long f{n}(long n) {{ HIDDEN; return f{n - 1}(n + 1); }}" for n in range(1, 70)),
     "static void one_round(void) { printf(\"%ld\\n\", f69(0)); }"]
)  # fmt: skip


def test_a_chain_of_64_functions_is_followed_and_a_longer_chain_is_refused(tmp_path: Path) -> None:
    with rounds(build(tmp_path, MANY, *TAILS)) as program, session(program.pid) as one:
        with pytest.raises(GilkError, match="more than 64 functions") as caught:
            after(one, "f64", "return -r;")
        assert caught.value.slug == "tail-call"
        assert not differences(program.pid)
        made = after(one, "f63", "return -r;")
        assert len({probe.row.function for probe in made}) == 64
        assert program.ask() == "-69"


NOT_TO_BE_HAD = """
#define HIDDEN __asm__ volatile("")
static long plus(long n) { return n + 1; }
static long (*volatile table[2])(long) = {plus, plus};
NOINLINE long anywhere(long n) { HIDDEN; return table[n & 1](n); }
NOINLINE long leads(long n) { HIDDEN; return anywhere(n); }
/* Its return lies in what the kernel may abort: a restartable sequence. */
__asm__(".pushsection __rseq_cs, \\"aw\\"; .balign 32; .long 0, 0; .quad 3f, 4f - 3f, 5f; .popsection;"
	".pushsection .text; .globl restarts; .type restarts, @function; restarts: cmp $4, %rdi; ja 6f; 3: lea 1(%rdi), %rax;"
	" ret; 4: ud2; .byte 0x0f, 0xb9, 0x3d; .long 0x53053053; 5: ud2; 6: mov $1, %eax; ret;"
	".size restarts, . - restarts; .popsection");
long restarts(long n);
NOINLINE long before(long n) { HIDDEN; return restarts(n); }
static void one_round(void) { printf("%ld %ld\\n", leads(1), before(1)); }
"""


@pytest.mark.parametrize(
    ("function", "slug", "says"),
    [("anywhere", "tail-call", r"anywhere ends in a jump to wherever a pointer leads, at \+0x"),
     ("leads", "tail-call", r"anywhere ends in a jump to wherever a pointer leads, at \+0x"),
     ("before", "advice-refused", "program:restarts:.*: rseq")],
)  # fmt: skip
def test_tail_calls_that_cannot_be_followed_are_refused_by_name(
    tmp_path: Path, function: str, slug: str, says: str
) -> None:
    with rounds(build(tmp_path, NOT_TO_BE_HAD, *TAILS)) as program, session(program.pid) as one:
        with pytest.raises(GilkError, match=says) as caught:
            after(one, function, "return -r;")
        assert caught.value.slug == slug
        assert not one.probes and not differences(program.pid)
        inplace(one, function, "return n + 5;")
        assert program.ask() == ("2 6" if function == "before" else "6 2")


SQL = """
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
insert into t select i, printf('%05d', i * 7919 % 3001), i * 0.5 from n;
create index tb on t(b);
select count(*), sum(a), max(b), total(c) from t;
select b, a, c from t where b like '%7%' order by b limit 40;
select json_group_array(a) from (select a from t where a % 500 = 0);
update t set c = c * 2 where a % 3 = 0;
delete from t where a % 11 = 0;
select avg(c), group_concat(substr(b, 1, 2)) from (select * from t order by b limit 50);
select * from nosuch;
select quote(b), typeof(c), length(b) from t limit 5;
select strftime('%Y', 0), abs(-4), round(3.7), instr('abc', 'c'), upper('advised');
pragma integrity_check;
"""
UPPER = """
#include <string.h>
const unsigned char *f(const unsigned char *r, void *value)
{
	return r && !strcmp((const char *)r, "advised") ? (const unsigned char *)"changed" : r;
}"""


def followed(one: AdvisedSession) -> Iterator[Place]:
    """The entries of the library's interface functions whose returns can be found."""
    for view in functions(one.process, "sqlite3_*", "libsqlite3*"):
        with contextlib.suppress(GilkError):
            tails.closure(one.process, view.loaded, view.function, one.process.keeper.peek)
            if not view.function.loops and view.name != "sqlite3_value_text":
                yield view.entry


@contextlib.contextmanager
def amid(command: list[str], first: str) -> Iterator[tuple[AdvisedSession, Callable[[str], tuple[str, str, int]]]]:
    """Start a program, and open a session in it once it has answered its ``first`` line by 1. Yields the session,
    and a function that sends the remaining input and returns the remaining output, the errors and the exit status."""
    program = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def ended(rest: str) -> tuple[str, str, int]:
        out, err = program.communicate(rest, timeout=300)
        return out, err, program.returncode

    try:
        assert program.stdin and program.stdout
        program.stdin.write(f"{first}\n")
        program.stdin.flush()
        assert program.stdout.readline() == "1\n"
        with attach(program.pid) as process, AdvisedSession(process, points=1 << 15, threads=16) as one:
            yield one, ended
    finally:
        program.kill()
        program.communicate()


def test_all_functions_of_a_stock_library_have_advice_and_work() -> None:
    """With advice the program prints the same, except for the one text that the advice replaces."""
    plain = subprocess.run(["sqlite3"], input=f"select 1;\n{SQL}", capture_output=True, text=True, check=False)
    assert "ADVISED" in plain.stdout and "integrity" not in plain.stderr
    with amid(["sqlite3"], "select 1;") as (one, ended):
        places = list(followed(one))
        assert len(places) > 150
        one.advise(places, advice("long f(long r) { return r; }", "f", "long any(void)", "after"))
        signature = "const unsigned char *sqlite3_value_text(void *value)"
        one.advise("libsqlite3*:sqlite3_value_text:entry", advice(UPPER, "f", signature, "after"))
        out, err, _ = ended(SQL)
    assert f"1\n{out}" == plain.stdout.replace("ADVISED", "CHANGED")
    assert err == plain.stderr


SCRIPT = r"""
f() { local i=$1; if ((i > 0)); then f $((i - 1)); else return 3; fi; }
f 20; echo $?
for ((i = 0; i < 300; i++)); do a[i]=$((i * i % 97)); done; echo "${a[@]:5:10}" "${#a[@]}"
s=abcdefg; echo ${s^^} ${s:2:3} ${s/cd/XY} ${s%fg}
x=$(echo sub; exit 4); echo $x $?
( cd /tmp; pwd; exit 5 ); echo $?
echo a b c | while read p q r; do echo $r $q $p; done
trap 'echo trapped' USR1; kill -USR1 $$
unset nope; ( echo ${nope?missing} ) 2>/dev/null; echo $?
declare -A m; m[k]=v; m[j]=w; echo ${m[k]} ${#m[@]}
[[ abc =~ ^a(.)c$ ]] && echo ${BASH_REMATCH[1]}
eval 'echo $((1 + 2))'; type f | head -2; let y=5*6; echo $y
exit 7
"""


def jumping(one: AdvisedSession) -> Iterator[Place]:
    """The entries of the program's functions that end in jumps to other functions."""
    for view in functions(one.process):
        if view.function.blocks and not view.function.whole and not view.function.loops:
            with contextlib.suppress(GilkError):
                if len(tails.closure(one.process, view.loaded, view.function, one.process.keeper.peek)) > 1:
                    yield view.entry


def test_a_shell_works_with_advice_on_functions_that_jump_to_each_other() -> None:
    """The shell leaves many of them by longjmp, and forks inside others."""
    command = ["bash", "--norc"]
    plain = subprocess.run(command, input=f"echo 1\n{SCRIPT}", capture_output=True, text=True, check=False)
    assert plain.returncode == 7 and "trapped" in plain.stdout
    with amid(command, "echo 1") as (one, ended):
        places = list(islice(jumping(one), 300))
        assert len(places) == 300
        one.advise(places, advice("long f(long r) { return r; }", "f", "long any(void)", "after"))
        out, err, status = ended(SCRIPT)
    assert (f"1\n{out}", err, status) == (plain.stdout, plain.stderr, 7)
