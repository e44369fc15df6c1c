# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice before calls of functions that the compiler has inlined, or of which it has made copies. The same program,
built so that the functions are neither inlined nor copied, has the same calls, with the same arguments."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import gilk
from gilk.errors import UsageError
from tests.behaviour.advised import OPTIONS, aspects, build, rounds
from tests.behaviour.harness import run_gilk

TYPES = "struct pair { long left, right; };"
PROGRAM = (
    TYPES
    + """
volatile long seen;
const char *volatile names[3] = { "first", "second", "third" };
static struct pair pairs[2] = { { 3, 4 }, { 5, 6 } };
static INLINED long check(long n, const char *name, const struct pair *of, int tag, unsigned char byte)
{
	seen += n + tag;
	return seen > of->left ? name[0] : n + byte;
}
long (*volatile by_pointer)(long, const char *, const struct pair *, int, unsigned char) = check;
static COPIED long scaled(long n, long by) { seen += by; __asm__ volatile(""); return n * by + seen % by; }
long (*volatile scaled_pointer)(long, long) = scaled;
NOINLINE long first(long n) { return check(n, names[0], pairs, -1, n) + 1; }
NOINLINE long second(long n)
{
	long sum = 0, i;
	for (i = 0; i < n; i++) {
		seen -= i;
		sum += check(sum + i, names[1], pairs + 1, (int)sum, 200);
	}
	return sum;
}
NOINLINE long third(long n)
{
	struct pair own = { n, 7 };
	__asm__ volatile("" : : "r"(&own) : "memory");
	return n > 2 ? check(own.right, names[2], &own, 300, n + 255) : n;
}
static void one_round(void)
{
	long sum = first(1);
	sum += second(3);
	sum += third(4);
	sum += by_pointer(9, names[1], pairs, 5, 6);
	sum += scaled(sum, 7);
	sum += scaled(3, 7);
	sum += scaled_pointer(sum, 8);
	printf("%ld\\n", sum);
}
"""
)
CHECK = "call(long check(long n, const char *name, const struct pair *of, int tag, unsigned char byte))"
REPORTED = f"""
%{{ {TYPES} %}}
call(long first(long n)) then {{ report("first %ld", n); }};
{CHECK} then {{ report("%s %s %ld %s %ld %d %d", jp.image, jp.function, n, name, of->right, tag, byte); }};
{CHECK} && from(second) && if (n > 1) then {{ report("from second %ld", n); }};
call(long scaled(long n, long by)) then {{ report("%s %ld by %ld", jp.function, n, by); }};
"""
INLINING = (
    "-fipa-cp-clone",
    "--param=ipa-cp-eval-threshold=1",
    "-DINLINED=inline __attribute__((always_inline))",
    "-DCOPIED=__attribute__((noinline))",
)
PLAIN = ("-DINLINED=NOINLINE", "-DCOPIED=NOINLINE")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("copies"), PROGRAM, *OPTIONS, *INLINING)


def _reported(program: Path, file: Path) -> tuple[str, list[str]]:
    """The answer of a round, and its reports."""
    with rounds(program) as running, gilk.attach(running.pid) as target, gilk.weave(file, target) as woven:
        answer = running.ask()
        texts = [one.text for one in woven.reports()]
        assert running.ask() != ""
    return answer, texts


def test_advice_before_runs_at_copies_as_at_calls(program: Path, tmp_path: Path) -> None:
    file = aspects(tmp_path, REPORTED)
    at_copies = _reported(program, file)
    assert at_copies == _reported(build(tmp_path, PROGRAM, *OPTIONS, *PLAIN), file)
    assert len(at_copies[1]) == 12
    assert at_copies[1][:2] == ["first 1", "program check 1 first 4 -1 1"]


def test_a_copy_at_an_entry_is_not_reached_if_advice_stands_in_place(program: Path, tmp_path: Path) -> None:
    text = f'%{{ {TYPES} %}} {CHECK} then {{ report("%s", name); }}; call(long first(long n)) then inplace {{ return 0; }};'
    _, texts = _reported(program, aspects(tmp_path, text))
    assert texts == ["second"] * 3 + ["third", "second"]


def test_a_sequence_goes_on_at_copies(program: Path, tmp_path: Path) -> None:
    text = f'%{{ {TYPES} %}} seq(call(long first(long k)); {CHECK} then {{ report("%s", name); }} *; call(long third(long last)));'
    _, texts = _reported(program, aspects(tmp_path, text))
    assert texts == ["first"] + ["second"] * 3


def test_a_dry_run_names_the_copies_that_have_advice(program: Path, tmp_path: Path) -> None:
    """nm has the copies under other names."""
    file = aspects(tmp_path, REPORTED)
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    with rounds(program) as running:
        words = ("weave", file, "-p", str(running.pid), "--dry-run")
        said, text = run_gilk(*words, "--json"), run_gilk(*words).stdout
    found = {one["function"]: one for one in json.loads(said.stdout)["shadows"]}
    inlined = {f"inlined copy in {name}" for name in ("first", "second", "third")}
    assert set(found["check"]["advised_copies"]) == inlined and found["check"]["points"] == 4
    copied = {f"copy {name}" for name in re.findall(r"scaled\.constprop\.\d+", symbols)}
    assert set(found["scaled"]["advised_copies"]) == copied and copied
    assert all(one in text for one in inlined) and said.returncode == 0


REFUSED = f'%{{ {TYPES} %}} {CHECK} then {{ report("%s %d", name, tag); }};'


def test_a_copy_without_an_argument_is_refused(tmp_path: Path) -> None:
    """For a literal that the copy does not need in a register, gcc says only what it points to."""
    lost = PROGRAM.replace("check(n, names[0]", 'check(n, "literal"')
    program = build(tmp_path, lost, *OPTIONS, *INLINING)
    with rounds(program) as running, gilk.attach(running.pid) as target:
        with pytest.raises(UsageError, match=r"inlined at first:\+0x[0-9a-f]+\): argument-lost \(name\)") as error:
            gilk.weave(aspects(tmp_path, REFUSED), target)
        assert error.value.slug == "inlined"
        with gilk.weave(aspects(tmp_path, REFUSED.replace("call(", "partial call(")), target) as woven:
            running.ask()
            texts = [one.text for one in woven.reports()]
    (summary,) = woven.summaries()
    assert [one.split()[0] for one in texts] == ["second"] * 3 + ["third", "second"]
    assert [one.count("argument-lost") for one in summary.notes] == [1]


@pytest.mark.parametrize("advice", ["&& return(r) && if (r) then after { };", "then inplace { return proceed(); };"])
def test_other_advice_is_refused_at_copies(program: Path, tmp_path: Path, advice: str) -> None:
    with rounds(program) as running, gilk.attach(running.pid) as target:
        with pytest.raises(UsageError, match="check is inlined in") as error:
            gilk.weave(aspects(tmp_path, f"%{{ {TYPES} %}} {CHECK} {advice}"), target)
    assert error.value.slug == "inlined"
