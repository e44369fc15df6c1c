# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice after calls of functions that the compiler has inlined, or of which it has made copies. The same program,
built so that the functions are neither inlined nor copied, has the same calls, with the same arguments and results."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import gilk
from gilk.errors import UsageError
from tests.behaviour.advised import OPTIONS, aspects, build, rounds
from tests.behaviour.test_weave_copies import CHECK, INLINING, PLAIN, PROGRAM, TYPES
from tests.seldom import seldom

AFTER = f"""
%{{ {TYPES} %}}
call(long second(long n)) then after {{ report("second %ld", n); }};
{CHECK} then after {{ report("left %s %ld %s %ld %d %d", jp.function, n, name, of->right, tag, byte); }};
{CHECK} then {{ report("entered %ld", n); }};
{CHECK} && from(second) && if (n > 1) then after {{ report("from second %ld", n); }};
call(long scaled(long n, long by)) && return(r) then after {{ report("%ld by %ld is %ld", n, by, r); }};
"""
#: Copies in copies, one behind the other, in loops, with several ways out, left by jumps, and under signals.
NESTED = """
#include <setjmp.h>
#include <signal.h>
volatile long sum;
static jmp_buf back;
NOINLINE void leave(long n) { if (n == 13) longjmp(back, 1); sum += n; }
static INLINED long leaf(long n) { n = n * 3 + (sum += n); __asm__ volatile("" : "+r"(n) : : "memory"); return n; }
static INLINED long early(long n)
{
	if (n < 2) return sum;
	if (n & 1) { leave(n); return leaf(n) + 1; }
	leave(n + 1);
	return n;
}
static INLINED long twice(long n) { long r = leaf(n); r += leaf(n + 100); return r + early(n + 1000); }
NOINLINE void handler(int signal) { sum += twice(signal + 50000); }
NOINLINE long jumps(long n) { long r = 0; if (!setjmp(back)) r = early(n); return r; }
NOINLINE long recursive(long n) { long r = twice(n); if (n > 0) r += recursive(n - 1); return r + leaf(n); }
static INLINED long around(long n) { long r = n > 0 ? recursive(n) : 0; return r + 1; }
NOINLINE long work(long n) { long r = twice(n) + early(n); for (long i = 0; i < n; i++) r += early(i); return r + around(n); }
long (*volatile pointers[])(long) = { leaf, early, twice, around };
static void one_round(void)
{
	signal(SIGUSR1, handler);
	long r = work(1) + work(3) + jumps(13) + jumps(4) + jumps(13) + jumps(5);
	raise(SIGUSR1);
	printf("%ld\\n", r + pointers[2](7));
}
"""
EVERY = "".join(
    f'call(long {name}(long n)) then {{ report("{name} %ld", n); }};'
    f'call(long {name}(long n)) then after {{ report("{name} %ld left", n); }};'
    for name in ("leaf", "early", "twice", "around", "work", "recursive", "leave", "jumps")
)


def _reported(program: Path, file: Path) -> tuple[str, list[str], tuple[str, ...]]:
    """The answer of a round, its reports, and the notes at the end."""
    with rounds(program) as running, gilk.attach(running.pid) as target, gilk.weave(file, target) as woven:
        answer = running.ask()
        texts = [one.text for one in woven.reports()]
        assert running.ask() != ""
    (summary,) = woven.summaries()
    assert summary.skipped == 0
    return answer, texts, summary.notes


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("copies"), PROGRAM, *OPTIONS, *INLINING)


def test_advice_after_runs_at_copies_as_at_calls(program: Path, tmp_path: Path) -> None:
    file = aspects(tmp_path, AFTER)
    at_copies = _reported(program, file)
    assert at_copies == _reported(build(tmp_path, PROGRAM, *OPTIONS, *PLAIN), file)
    assert len(at_copies[1]) == 18
    assert at_copies[2] == ()
    assert at_copies[1][:2] == ["entered 1", "left check 1 first 4 -1 1"]


@pytest.mark.parametrize(
    ("compiler", "level"),
    [
        ("gcc", "-Og"), ("clang", "-O1"),
        *(pytest.param("gcc", level, marks=pytest.mark.stress) for level in ("-O1", "-O2", "-O3", "-Os")),
        *(pytest.param("clang", level, marks=pytest.mark.stress) for level in ("-O2", "-O3", "-Os")),
    ],
)  # fmt: skip
def test_copies_begin_and_end_in_the_order_of_calls(compiler: str, level: str, tmp_path: Path) -> None:
    """Where gilk refuses a copy, which it names, its calls are missing; all others are there. clang tells of fewer
    copies where they begin, and of fewer arguments."""
    file = aspects(tmp_path, EVERY.replace("call(", "partial call("))
    options = ("-g", level, "-fno-optimize-sibling-calls")
    answer, texts, notes = _reported(build(tmp_path, NESTED, *options, INLINING[2], compiler=compiler), file)
    plain = _reported(build(tmp_path, NESTED, *options, PLAIN[0], compiler=compiler), file)
    assert (answer, plain[2]) == (plain[0], ())
    left = iter(plain[1])
    assert all(text in left for text in texts), "in the same order"
    assert len(plain[1]) > 150 and len(texts) > len(plain[1]) * (3 if compiler == "gcc" else 2) // 4
    if (compiler, level) == ("gcc", "-Og"):
        assert (texts, notes) == (plain[1], ())
    begun, ended = Counter(texts), Counter(one.removesuffix(" left") for one in texts if one.endswith(" left"))
    assert {one for one in ended if ended[one] != begun[one]} <= {"early 13", "leave 13"}, (
        "two of these are left by jumps"
    )


def test_the_result_of_an_inlined_copy_is_in_no_known_place(program: Path, tmp_path: Path) -> None:
    text = f'%{{ {TYPES} %}} partial {CHECK} && return(r) then after {{ report("%ld", r); }};'
    with rounds(program) as running, gilk.attach(running.pid) as target:
        with pytest.raises(UsageError, match=r"inlined at first:\+0x[0-9a-f]+\): result-lost") as error:
            gilk.weave(aspects(tmp_path, text.replace("partial ", "")), target)
        assert error.value.slug == "inlined"
    _, texts, notes = _reported(program, aspects(tmp_path, text))
    assert len(texts) == 1, "by_pointer() calls the function itself"
    assert [one.count("result-lost") for one in notes] == [3]


def test_calls_that_end_while_an_aspect_is_off_end_without_its_advice(program: Path, tmp_path: Path) -> None:
    """The first call of the copy in `second` switches `seen` off, before it is left; `third` switches it on."""
    text = f"""%{{ {TYPES} %}}
    aspect seen: {CHECK} then after {{ report("%s", name); }};
    {CHECK} && from(second) && if (n == 0) then {{ aspect_off(seen); }};
    call(long third(long n)) then {{ aspect_on(seen); }};"""
    plain = build(tmp_path, PROGRAM, *OPTIONS, *PLAIN)
    at_copies = _reported(program, aspects(tmp_path, text))
    assert at_copies == _reported(plain, aspects(tmp_path, text))
    assert "first" in at_copies[1] and "third" in at_copies[1]


SECTION = """
volatile long sum;
#define RSEQ "771: nop; nop; nop; nop; nop; nop; 772:\\n" \
	".pushsection __rseq_failure, \\"ax\\"; .long 0x53053053; 773: ud2; .popsection\\n" \
	".pushsection __rseq_cs, \\"aw\\"; .balign 32; .long 0, 0; .quad 771b, 772b - 771b, 773b; .popsection"
static inline __attribute__((always_inline)) void gone(long n)
{
	__asm__ volatile("addq %1, %0" : "+m"(sum) : "r"(n) : "memory");
	__asm__ volatile("addq %1, %0" : "+m"(sum) : "r"(n) : "memory");
}
NOINLINE void plain(long n) { gone(n); __asm__ volatile("nop; nop; nop; nop; nop; nop"); }
NOINLINE void section(long n) { gone(n); __asm__ volatile(RSEQ); }
static void one_round(void) { plain(1); section(2); plain(3); printf("%ld\\n", sum); }
"""


def test_a_partial_aspect_does_without_a_copy_whose_end_cannot_be_spliced(tmp_path: Path) -> None:
    """A restartable sequence of the kernel's begins where a call is left. The call's beginning has no advice then."""
    program = build(tmp_path, SECTION, *OPTIONS)
    text = 'partial call(void gone(long n)) then { report("%ld", n); }; partial call(void gone(long n)) then after { };'
    answer, texts, notes = _reported(program, aspects(tmp_path, text))
    assert (answer, texts) == ("12", ["1", "3"])
    (note,) = notes
    assert re.fullmatch(r"left out: program:gone:return \(inlined at section:\+0x\w+\): rseq", note), note
    with rounds(program) as running, gilk.attach(running.pid) as target:
        with pytest.raises(UsageError, match=r"inlined at section:\+0x\w+\): rseq") as error:
            gilk.weave(aspects(tmp_path, text.replace("partial ", "")), target)
        assert error.value.slug == "advice-refused"
        assert running.ask() != ""


FLOWS = """
volatile long sum;
static INLINED long leaf(long n) { sum += n; __asm__ volatile("" : : : "memory"); return sum; }
static INLINED long between(long n) { sum -= n; __asm__ volatile("" : : : "memory"); return leaf(n + 10) + n; }
long (*volatile pointers[])(long) = { leaf, between };
NOINLINE long other(long n) { sum ^= n; return DEEPER(n) + 1; }
NOINLINE long outer(long n) { sum += 2 * n; return leaf(n) + other(n + 100) + 1; }
static void one_round(void) { printf("%ld\\n", outer(1) + other(2) + pointers[0](3) + outer(4)); }
"""


@pytest.mark.parametrize("flow", seldom(["controlflowstar", "controlflow"], 1))
def test_control_flows_end_at_copies(flow: str, tmp_path: Path) -> None:
    """With `leaf` in `other`; where it is in another copy there, a strict flow does not know its caller."""
    text = "".join(
        f'{flow}(call(long outer(long a)), call(long leaf(long n))) then {when}{{ report("%ld in %ld{when}", n, a); }};'
        for when in ("", "after ")
    )
    file = aspects(tmp_path, text)
    at_copies = _reported(build(tmp_path, FLOWS, *OPTIONS, INLINING[2], "-DDEEPER=leaf"), file)
    assert at_copies == _reported(build(tmp_path, FLOWS, *OPTIONS, PLAIN[0], "-DDEEPER=leaf"), file)
    found = ["1 in 1", "101 in 1", "4 in 4", "104 in 4"][:: 2 if flow == "controlflow" else 1]
    assert at_copies[1] == [each for one in found for each in (one, one + "after ")]
    deeper = build(tmp_path, FLOWS, *OPTIONS, INLINING[2], "-DDEEPER=between")
    with rounds(deeper) as running, gilk.attach(running.pid) as target:
        if flow == "controlflowstar":
            with gilk.weave(file, target) as woven:
                running.ask()
                assert [one.text for one in woven.reports()][::2] == ["1 in 1", "111 in 1", "4 in 4", "114 in 4"]
            return
        with pytest.raises(UsageError, match=r"inlined at other:\+0x[0-9a-f]+\): inlined-within") as error:
            gilk.weave(file, target)
        assert error.value.slug == "inlined"
