# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hundreds of fibers of boost's context library, which threads pass on to each other, throw exceptions in, and are
unwound while they wait: their output is the same as undisturbed, and the counts are what the program counts itself."""

from __future__ import annotations

import json
import select
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

import gilk
from gilk.runs.progress import Progress
from gilk.trace.reading import read
from tests.behaviour.harness import differences, leftovers, plain, run, run_gilk
from tests.behaviour.test_kinds import SOURCES, STATUS, attending, poke
from tests.programs.build import BuildError, compile_to

pytestmark = pytest.mark.stress
FIBER, PASSING = "_Z6deeperIN5boost7context5fiberEElRT_li", "_Z6deeperIN5boost7context12continuationEElRT_li"
WORK, ATTEMPT, FAIL = "_Z4workl", "_Z7attemptl", "_Z4faill"
#: The calls of deeper() that wait in fibers between two rounds: four in each of 300.
WAITING = 1200
#: The calls of deeper() in continuations that are unwound: four in each of 20.
UNWOUND = 80


class Said(NamedTuple):
    """The line that the program prints in a round: its own counts of calls, exceptions and frames that it left."""

    sum: int
    work: int
    deeper: int
    fail: int
    caught: int
    unwound: int


def said(line: str | bytes) -> Said:
    text = line if isinstance(line, str) else line.decode()
    return Said(*(int(word, 10 if n else 16) for n, word in enumerate(text.split())))


@pytest.fixture(scope="session")
def fibers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("fibers") / "fibers"
    if not Path("/usr/include/boost/context/fiber.hpp").exists():
        pytest.skip("boost's context library is not installed")
    try:
        return compile_to(output, [SOURCES / "fibers.cpp"], ("-O2", "-Wl,--no-as-needed", "-lboost_context"))
    except BuildError as error:
        pytest.fail(str(error))


INSTRUMENTS = """\
#include <gilk.h>

void first(const struct gilk_regs *regs, unsigned int iid)
{
	ilk_log_integer_sample(regs->rdi, iid);
}
"""


def test_fibers_under_every_instrument_behave_the_same(fibers: Path, tmp_path: Path) -> None:
    (tmp_path / "first.c").write_text(INSTRUMENTS)
    expected, out = plain([fibers]), tmp_path / "samples.parquet"
    words = ["fibers:*:blocks=count", "libboost_context*:*:blocks=count", "libgcc_s*:*:blocks=count"]
    words += ["fibers:work:entry=args", f"fibers:fail:entry={tmp_path / 'first.c'}:first"]
    words += ["fibers:deeper:entry=time", "fibers:attempt:entry=time", "libc:malloc:entry=time"]
    ran, own = run(words, [fibers]), said(expected.stdout)
    assert (expected.status, ran.visible) == (STATUS, expected.visible)
    assert counted(ran.report["counts"]) == own[1:5]
    timed = {name: each["count"] for name, each in ran.report["latency"].items()}
    assert (timed[FIBER] + timed[PASSING], timed[ATTEMPT]) == (own.work, own.fail)
    assert (ran.report["restored"], ran.report["partial"], ran.report["drops"]) == (True, False, 0)
    assert run_gilk("run", "-q", *(f"-i{word}" for word in words), "-o", out, "--", fibers).returncode == STATUS
    arguments = {name: values(out, name) for name in (WORK, FAIL)}
    assert (len(arguments[WORK]), len(arguments[FAIL])) == (own.work, own.fail)
    assert sum(value & 4 != 0 for value in arguments[FAIL]) == own.caught


def counted(counts: dict[str, int]) -> tuple[int, int, int, int]:
    """The calls of work(), deeper() and fail(), and the exceptions that were caught, from the counts of their blocks
    at entries."""
    work, fiber, passing, fail, caught = (
        counts[f"fibers:{name}:@0:pre"] for name in (WORK, FIBER, PASSING, FAIL, f"{ATTEMPT}.cold")
    )
    return work, fiber + passing, fail, caught


def values(samples: Path, function: str) -> list[int]:
    """The first arguments that the samples of `args` and of the instrument in C have of a function."""
    question = (
        f"select coalesce(arg0, value) from samples where function = '{function}' and kind in ('args', 'integer')"
    )
    done = run_gilk("query", "--json", samples, question)
    return [int(value) for (value,) in json.loads(done.stdout)["rows"]]


CLAUSES = """
pid$target:fibers:work:entry { @n["work"] = count(); @[ustack(12)] = count(); }
pid$target:fibers:deeper*:entry { @n["deeper"] = count(); }
pid$target:fibers:deeper*:return { @n["returned"] = count(); }
pid$target:fibers:fail:entry { @n["fail"] = count(); @caught = sum((arg0 >> 2) & 1); }
END { printa("%s %@d\\n", @n); printa("caught %@d\\n", @caught); }
"""


def test_clauses_in_fibers_count_what_the_program_counts(fibers: Path) -> None:
    expected = plain([fibers])
    own, line = said(expected.stdout), expected.stdout.decode().strip()
    done = run_gilk("dtrace", "-q", "-n", CLAUSES, "-c", fibers)
    assert (done.returncode, done.stderr) == (0, "")
    assert line in done.stdout.splitlines()
    figures = {"work": own.work, "deeper": own.deeper, "returned": own.work, "fail": own.fail, "caught": own.caught}
    assert {f"{name} {figure}" for name, figure in figures.items()} <= set(done.stdout.splitlines())


def test_a_trace_has_all_calls_of_fibers(fibers: Path, tmp_path: Path) -> None:
    expected, out = plain([fibers]), tmp_path / "trace.parquet"
    own = said(expected.stdout)
    done = run_gilk("trace", "-q", "--all", "-o", out, "--", fibers)
    assert (done.returncode, done.stdout) == (STATUS, expected.stdout.decode())
    found = states(out)
    assert (found[WORK], found[ATTEMPT]) == ({"whole": own.work}, {"whole": own.fail})
    assert found[FAIL] == {"whole": own.fail - own.caught, "left": own.caught}
    assert sum((found[FIBER] + found[PASSING]).values()) == own.deeper
    assert found[FIBER]["whole"] == own.work - sum(found[PASSING].values()) + UNWOUND


def states(trace: Path) -> dict[str, Counter[str]]:
    """How many calls of each function are in which state."""
    found: dict[str, Counter[str]] = {}
    for row in read(trace).flow.table.to_pylist():
        found.setdefault(row["function"], Counter())[row["state"]] += 1
    return found


def traced(process: subprocess.Popen[str], output: Path, scope: str, request: str) -> str:
    """Trace the program from a request on its standard input to its answer. Returns the line that it prints."""
    assert process.stdin and process.stdout
    pipe, answer = process.stdin, process.stdout
    asked: list[int] = []
    tracing = gilk.prepare_trace([process.pid], output=output, scope=[scope], everything=True)

    def show(progress: Progress) -> None:
        if progress.what == "following" and not asked:
            asked.append(pipe.write(request))
            pipe.flush()

    tracing.begin()
    tracing.wait(None, lambda: bool(asked and select.select([answer], [], [], 0)[0]), show)
    tracing.finish()
    return answer.readline()


def test_instruments_come_and_go_while_fibers_wait_in_the_middle_of_calls(fibers: Path, tmp_path: Path) -> None:
    rounds = 3
    with attending(fibers) as process:
        undisturbed = [poke(process) for _ in range(3 * rounds)]
    with attending(fibers) as process:
        lines = []
        for turn in range(rounds):
            with gilk.attach(process.pid) as target, target.session() as session:
                for points in ("fibers:*:blocks", "libboost_context*:*:blocks", "libgcc_s*:*:blocks"):
                    session.insert(points, gilk.count)
                session.insert("fibers:deeper:entry", gilk.time)
                lines.append(poke(process))
                assert counted(session.counts()) == said(lines[-1])[1:5]
            assert session.restored
            assert (differences(process.pid), leftovers(process.pid)) == ([], [])
            lines.append(traced(process, tmp_path / f"{turn}", "fibers:", "."))
            own, found = said(lines[-1]), states(tmp_path / f"{turn}")
            assert (found[WORK], found[ATTEMPT]) == ({"whole": own.work}, {"whole": own.fail})
            assert found[FIBER]["before"] == WAITING
            assert (differences(process.pid), leftovers(process.pid)) == ([], [])
            lines.append(poke(process))
        assert lines == undisturbed
