# SPDX-License-Identifier: LGPL-2.1-or-later
"""The calls of a trace, in order and with their callers, are those of a run that is watched at every instruction."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.behaviour.harness import Command
from tests.programs.build import build
from tests.seldom import seldom
from tests.trace_oracle import Traced, difference, stepped, trace

TEXT = "/etc/passwd"
#: Command line, input, and the most instructions for the oracle: a single step takes some microseconds.
REAL: dict[str, tuple[Command, bytes, int]] = {
    "true": (["true"], b"", 0),
    "ls": (["ls", "-l", "/"], b"", 3_000_000),
    "cat": (["cat", TEXT], b"", 0),
    "sort": (["sort", TEXT], b"", 3_000_000),
    # grep is left out: it looks for its stack in /proc/self/maps, which is longer while gilk has memory there.
    "sed": (["sed", "-n", "s/bash/hsab/p", TEXT], b"", 3_000_000),
    "gzip": (["gzip", "-nc", TEXT], b"", 3_000_000),
    "date": (["date", "-u", "-d", "2020-01-01"], b"", 0),
    "find": (["find", "/usr/share/common-licenses"], b"", 0),
    "mawk": (["mawk", "{n += NF} END {print n}", TEXT], b"", 0),
    "xz": (["xz", "-T1", "-c", TEXT], b"", 3_000_000),
    "bc": (["bc", "-l"], b"2^100; scale=30; s(1)\n", 3_000_000),
    "bash": (["bash", "-c", "for i in 1 2 3; do echo $((i * i)); done"], b"", 0),
    "perl": (["perl", "-e", 'print join(",", map { $_ * 2 } 1..9), "\\n"'], b"", 5_000_000),
    "sqlite3": (["sqlite3", ":memory:"], b"create table t(a); insert into t values(1), (2); select sum(a) from t;", 0),
    "openssl": (["openssl", "dgst", "-sha256", TEXT], b"", 9_000_000),
    "python3": (["/usr/bin/python3", "-I", "-S", "-c", "print(sum(range(10)))"], b"", 9_000_000),
}
QUICK = ("true",)


@pytest.fixture(autouse=True)
def no_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn off the salting of hashes, for both runs."""
    for name in ("PERL_HASH_SEED", "PERL_PERTURB_KEYS", "PYTHONHASHSEED"):
        monkeypatch.setenv(name, "0")


def check(command: Command, stdin: bytes = b"", steps: int = 0) -> Traced:
    """Compare the first thread; the caller compares the others."""
    traced = trace(command, stdin)
    assert (traced.report["drops"], traced.report["lost"], traced.report["corrupt"]) == (0, 0, 0)
    assert traced.report["restored"] is True
    expected = stepped(command, traced, stdin, steps)
    first, found = next(iter(expected.calls.values())), next(iter(traced.calls.values()))
    assert len(first) > 10
    assert difference(first, found, not expected.whole) == ""
    assert set(traced.before) <= set(expected.under_way)
    return traced


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.stress) for n in REAL])
def test_calls_of_a_stock_program_are_those_of_the_oracle(name: str) -> None:
    command, stdin, steps = REAL[name]
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"no {command[0]}")
    check(command, stdin, steps)


#: Programs of one thread, on one stack, without timers. The static ones have far less code, and no linker.
PROGRAMS = ["exceptions", "setjmp", "tailcall", "ifunc", "recursion", "jumptable"]


@pytest.mark.stress
@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_of_test_programs_are_those_of_the_oracle(name: str) -> None:
    check([build(name), "1"], steps=3_000_000)


@pytest.mark.stress
@pytest.mark.parametrize("name", seldom(("tailcall", "setjmp"), 1))
def test_calls_of_a_static_program_are_those_of_the_oracle(name: str) -> None:
    check([build(name, "static"), "1"], steps=400_000)


def test_negative_control_a_missing_call_is_found(tmp_path: Path) -> None:
    traced = trace([build("tailcall", "static"), "1"])
    calls = next(iter(traced.calls.values()))
    assert difference(calls, calls, prefix=False) == ""
    assert "call 3" in difference(calls, [*calls[:3], *calls[4:]], prefix=True)
    assert difference(calls[:9], calls, prefix=True) == ""
    assert difference(calls[:9], calls, prefix=False) != ""
