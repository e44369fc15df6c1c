# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice on functions that end in jumps to others: what the program's results are, worked out by plain arithmetic."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gilk.errors import GilkError
from gilk.session.advised_session import AdvisedSession
from gilk.session.advising import advice
from tests.behaviour.advised import build, rounds, session
from tests.behaviour.harness import differences, leftovers

COMPILERS = [each for each in ("gcc", "clang") if shutil.which(each)]
TAILS = ("-O2", "-g", "-pthread", "-fno-inline", "-foptimize-sibling-calls")

#: Opaque to compilers, so that every jump stays; `one` and `two` share `shared`, which may also be called.
CHAIN = """
#define HIDDEN __asm__ volatile("")
NOINLINE long last(long n) { HIDDEN; return n + 1; }
NOINLINE long middle(long n) { HIDDEN; return last(n * 2); }
NOINLINE long first(long n) { HIDDEN; return n < 0 ? -1 : middle(n + 3); }
NOINLINE long shared(long n) { HIDDEN; return n + 1; }
NOINLINE long one(long n) { HIDDEN; return shared(n * 10); }
NOINLINE long two(long n) { HIDDEN; if (n > 100) return n; return shared(n * 100); }
NOINLINE long both(long n) { HIDDEN; if (n % 2) return one(n); return two(n); }
static long (*volatile table[])(long) = {first, one, two, shared, both};
static void one_round(void)
{
	long called = shared(5);
	printf("%ld %ld %ld %ld %ld %ld %ld\\n", first(4), one(7), two(7), two(200), both(3), both(4), called);
	(void)table;
}
"""
PLAIN = "15 71 701 200 31 401 6"


def jumps(program: Path, function: str, target: str) -> bool:
    """Whether there is one, as objdump has it."""
    said = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True, check=True)
    body = re.search(rf"<{function}>:\n(.*?)\n\n", said.stdout + "\n\n", re.DOTALL)
    return body is not None and re.search(rf"\tj\w+ .*<{re.escape(target)}>", body[1]) is not None


def after(one: AdvisedSession, function: str, body: str, parameters: str = "long n") -> tuple[object, ...]:
    text = f"long f(long r, {parameters}) {{ {body} }}"
    return one.advise(f"{function}:entry", advice(text, "f", f"long {function}({parameters})", "after"))


def inplace(one: AdvisedSession, function: str, body: str) -> tuple[object, ...]:
    text = f"long f(long n) {{ {body} }}"
    return one.advise(f"{function}:entry", advice(text, "f", f"long {function}(long n)"))


@pytest.fixture(scope="module", params=COMPILERS)
def chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = build(tmp_path_factory.mktemp("chain"), CHAIN, *TAILS, compiler=request.param)
    for function, target in (("first", "middle"), ("middle", "last"), ("one", "shared"), ("two", "shared")):
        assert jumps(program, function, target)
    assert jumps(program, "both", "one") and jumps(program, "both", "two")
    return program


ADVICE = [
    ((("first", "after", "return r + n * 1000;"),), "4015 71 701 200 31 401 6"),
    ((("middle", "after", "return r + 1000;"),), "1015 71 701 200 31 401 6"),
    ((("first", "inplace", "return proceed(n + 1) * 100 + proceed();"),), "1715 71 701 200 31 401 6"),
    ((("first", "after", "return r + 1000;"), ("last", "after", "return -r;")), "985 71 701 200 31 401 6"),
    ((("last", "after", "return -r;"), ("first", "after", "return r + 1000;")), "985 71 701 200 31 401 6"),
    ((("first", "after", "return r * 10;"), ("middle", "after", "return r * 2 + 1;"), ("last", "after", "return r + n;")),
     "590 71 701 200 31 401 6"),
    ((("first", "after", "return r + 1000;"), ("last", "inplace", "return 7;")), "1007 71 701 200 31 401 6"),
    ((("last", "inplace", "return 7;"), ("first", "after", "return r + 1000;")), "1007 71 701 200 31 401 6"),
    ((("first", "after", "return r + 1000;"), ("last", "inplace", "pass();")), "1015 71 701 200 31 401 6"),
    ((("first", "after", "return r + 1000;"), ("last", "inplace", "return proceed() + proceed(1);")),
     "1017 71 701 200 31 401 6"),
    ((("first", "inplace", "return n;"), ("middle", "after", "return 1;")), "4 71 701 200 31 401 6"),
    ((("one", "after", "return r + n * 1000;"), ("two", "after", "return r + n * 10000;")),
     "15 7071 70701 2000200 3031 40401 6"),
    ((("both", "after", "return -r;"), ("one", "after", "return r + 1000;"), ("shared", "after", "return r * 2;")),
     "15 1142 1402 200 -1062 -802 12"),
    ((("shared", "after", "return r * 2;"), ("one", "after", "return r + 1000;"), ("both", "inplace", "return -proceed();")),
     "15 1142 1402 200 -1062 -802 12"),
    ((("both", "after", "return r + n;"), ("shared", "inplace", "return n == 5 ? -5 : n == 30 ? 1 : proceed();")),
     "15 71 701 200 4 405 -5"),
]  # fmt: skip


def put_in(one: AdvisedSession, function: str, when: str, body: str) -> tuple[object, ...]:
    return after(one, function, body) if when == "after" else inplace(one, function, body)


@pytest.mark.parametrize("case", ADVICE, ids=range(len(ADVICE)))
def test_results_are_those_of_the_calls(chain: Path, case: tuple[tuple[tuple[str, str, str], ...], str]) -> None:
    pieces, expected = case
    with rounds(chain) as program:
        assert program.ask() == PLAIN
        with session(program.pid) as one:
            for piece in pieces:
                put_in(one, *piece)
            assert program.ask() == expected
            assert program.ask() == expected
        assert one.restored
        assert program.ask() == PLAIN
        assert not differences(program.pid) and not leftovers(program.pid)


def test_advice_goes_in_any_order_and_the_rest_stays(chain: Path) -> None:
    with rounds(chain) as program, session(program.pid) as one:
        first = after(one, "both", "return -r;")
        second = after(one, "one", "return r + 1000;")
        third = after(one, "shared", "return r * 2;")
        assert program.ask() == "15 1142 1402 200 -1062 -802 12"
        one.remove(second)  # type: ignore[arg-type]
        assert program.ask() == "15 142 1402 200 -62 -802 12"
        one.remove(first)  # type: ignore[arg-type]
        assert program.ask() == "15 142 1402 200 62 802 12"
        after(one, "both", "return -r;")
        one.remove(third)  # type: ignore[arg-type]
        assert program.ask() == "15 71 701 200 -31 -401 6"


def test_probes_name_the_functions_that_got_a_comparison(chain: Path) -> None:
    with rounds(chain) as program, session(program.pid) as one:
        made = one.advise("first:entry", advice("long f(long r, long n) { return r; }", "f", "long first(long n)", "after"))
        assert {probe.row.function for probe in made} == {"first", "middle", "last"}
        assert all(probe.refusal is None for probe in made)
