# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects about many functions at once: one compilation serves all that are declared alike, and `partial` leaves out
those that cannot be woven."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import gilk
from gilk.errors import UsageError
from gilk.session import advising
from tests.behaviour.advised import TAILS, aspects, build, jumps, rounds
from tests.behaviour.harness import differences, leftovers, run_gilk

MANY = 12
PROGRAM = (
    "#include <errno.h>\nstatic long (*volatile hook)(long);\nstatic long written;\n"
    'NOINLINE long leaf(long n) { __asm__ volatile(""); return n + 1; }\n'
    "NOINLINE long work_jumps(long n) { return hook(n + 1); }\n"
    'NOINLINE void note(long n) { __asm__ volatile("" : : : "memory"); written += n; }\n'
    + "".join(f"NOINLINE long work_{n}(long n) {{ return leaf(n + 1) * {n + 2}; }}\n" for n in range(MANY))
    + "static void one_round(void)\n{\n\tlong n = 0;\n\thook = leaf;\n\tn += work_jumps(0);\n"
    + "".join(f"\tn += work_{n}({n});\n" for n in range(MANY))
    + '\twritten = 0;\n\terrno = 0;\n\tnote(1);\n\tnote(2);\n\tprintf("%ld %ld %d\\n", n, written, errno);\n}\n'
)
SUM = 2 + sum((n + 2) * (n + 2) for n in range(MANY))
EACH = 'call(long work_*(long n)) && return(r) then after { report("%s in %s: %ld", jp.function, jp.image, r); };'


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = build(tmp_path_factory.mktemp("many"), PROGRAM, *TAILS)
    said = subprocess.run(["objdump", "-d", path], capture_output=True, text=True, check=True).stdout
    body = said.partition("<work_jumps>:")[2].partition("\n\n")[0]
    assert re.search(r"\tjmp +\*", body) and not jumps(path, "work_1", "leaf")
    return path


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions of advice that is compiled."""
    found: list[str] = []
    original = advising.kept_advice

    def counted(*given: Any) -> Any:
        found.append(given[2])
        return original(*given)

    monkeypatch.setattr(advising, "kept_advice", counted)
    return found


def test_one_compilation_serves_several_processes(program: Path, tmp_path: Path, compiled: list[str]) -> None:
    path = aspects(tmp_path, "group A; A: call(long leaf(long n)) && return(r) then after { };")
    with rounds(program) as one, rounds(program) as other, gilk.weave(path, A=[one.pid, other.pid]) as weaving:
        assert (one.ask(), other.ask()) == (f"{SUM} 3 0", f"{SUM} 3 0")
        assert weaving.counts()[0].matches == (2 * (MANY + 1),)
    assert len(compiled) == 1


def test_one_compilation_serves_all_functions_with_the_same_declaration(
    program: Path, tmp_path: Path, compiled: list[str]
) -> None:
    """Each function knows its own name. A function that may end anywhere is named, and left out."""
    with rounds(program) as one:
        with gilk.attach(one.pid) as target, gilk.weave(aspects(tmp_path, f"partial {EACH}"), target) as weaving:
            assert one.ask() == f"{SUM} 3 0"
            said = [report.text for report in weaving.reports()]
            assert said == [f"work_{n} in program: {(n + 2) * (n + 2)}" for n in range(MANY)]
            (summary,) = weaving.summaries()
            assert summary.functions == MANY
            (note,) = [note for note in summary.notes if note.startswith("left out")]
            assert "work_jumps" in note and "tail-call" in note
        assert len(compiled) == 1
        assert one.ask() == f"{SUM} 3 0"
        assert (differences(one.pid), leftovers(one.pid)) == ([], [])


def test_one_function_that_cannot_be_woven_refuses_all_without_partial(program: Path, tmp_path: Path) -> None:
    with rounds(program) as one, gilk.attach(one.pid) as target:
        with pytest.raises(UsageError, match="work_jumps") as raised:
            gilk.weave(aspects(tmp_path, EACH), target)
        assert raised.value.slug == "tail-call"
        assert one.ask() == f"{SUM} 3 0"
        assert (differences(one.pid), leftovers(one.pid)) == ([], [])


def test_a_point_that_is_refused_takes_its_function_out(program: Path, tmp_path: Path) -> None:
    """A dry run says beforehand which functions will be left out; the others have the advice."""
    path = aspects(tmp_path, f"partial {EACH}")
    with rounds(program) as one:
        done = run_gilk("weave", path, "-p", str(one.pid), "--dry-run", "--json")
        found = json.loads(done.stdout)["shadows"]
        assert (done.returncode, {each["function"] for each in found}) == (
            0, {f"work_{n}" for n in range(MANY)} | {"work_jumps"},
        )  # fmt: skip
        assert ["work_jumps" in each["left_out"] for each in found if each["left_out"]] == [True]


FLOWS = """
aspect any: controlflowstar(call(long work_1*(long a)), call(long leaf(long n)));
aspect second: controlflowstar(call(long work_10(long a)), call(long leaf(long n))) then { report("%ld", n); };
"""


def test_control_flows_distinguish_functions_compiled_once(program: Path, tmp_path: Path) -> None:
    path = aspects(tmp_path, FLOWS)
    with rounds(program) as one, gilk.attach(one.pid) as target, gilk.weave(path, target) as weaving:
        one.ask()
        assert [each.matches for each in weaving.counts()] == [(3,), (1,)]  # work_1, work_10, work_11
        assert [report.text for report in weaving.reports()] == ["11"]


def test_a_function_without_a_result_is_denied(program: Path, tmp_path: Path) -> None:
    text = "%{ #include <errno.h> %}\ncall(void note(long n)) && if (n > LEAST) then inplace { deny(EPERM); };"
    with rounds(program) as one, gilk.attach(one.pid) as target:
        with gilk.weave(aspects(tmp_path, text), target, defines=["LEAST=1"]):
            assert one.ask() == f"{SUM} 1 1"
        assert one.ask() == f"{SUM} 3 0"


def test_macros_are_defined_on_the_command_line(program: Path, tmp_path: Path) -> None:
    path = aspects(tmp_path, 'call(long leaf(long n)) && if (n == WHICH) then { report("%s", TEXT); };')
    with rounds(program) as one:
        words = ("weave", path, "-p", str(one.pid), "--dry-run")
        assert run_gilk(*words, "-D", "WHICH=3", "-D", 'TEXT="a b"').returncode == 0
        assert "(does-not-compile)" in run_gilk(*words, "-D", "WHICH=3").stderr
        assert "(bad-define)" in run_gilk(*words, "-D", "3=WHICH").stderr
