# SPDX-License-Identifier: LGPL-2.1-or-later
"""Go programs go on while they are instrumented: Go's runtime suspends goroutines at any instruction, starts them
with 2 KiB of stack, and moves them to other stacks. The programs check their results themselves."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from pyarrow import parquet

import gilk
from tests.behaviour.harness import Loop, differences, leftovers, plain, run, run_gilk, wait_for
from tests.programs.build import build_go, newest_go
from tests.seldom import seldom

#: An instrument that needs some kilobytes of stack, which goroutines do not have.
LARGE = """
#include <gilk.h>
void large(const struct gilk_regs *regs, unsigned int iid)
{
	volatile char room[6000];

	for (unsigned i = 0; i < sizeof room; i += 500)
		room[i] = (char)i;
	ilk_log_registers_sample(regs, iid);
}
void small(unsigned int iid)
{
	volatile char room[6000];

	for (unsigned i = 0; i < sizeof room; i += 500)
		room[i] = (char)iid;
}
"""
ENOUGH = 2000
CALLS = 40 * 201  # of deep(): four workers go ten rounds, from level 200 down to 0


@pytest.fixture(scope="module", params=["installed", pytest.param("newest", marks=pytest.mark.stress)])
def go(request: pytest.FixtureRequest) -> str:
    """The command of a Go toolchain: the machine's own or, in `make stress`, the newest; GILK_GO names another one."""
    chosen = os.environ.get("GILK_GO", "go") if request.param == "installed" else newest_go()
    if chosen is None:
        pytest.skip("no newer Go is installed: pip install gilk[go]")
    return chosen


@pytest.fixture(scope="module")
def program(go: str) -> Path:
    return build_go("steady", go=go)


def guards(pid: int) -> int:
    """The number of guard pages in the process: there is one below each side stack."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    bounds = [line.split()[0].split("-") for line in lines if " ---p " in line]
    return sum(int(end, 16) - int(start, 16) == 4096 for start, end in bounds)


@pytest.mark.parametrize(
    ("points", "instrument"),
    seldom([
        ("steady:main.*:blocks", "count"), ("steady:main.*:entry", "time"), ("steady:main.*:blocks", "large"),
        ("steady:runtime.*:entry", "regs"), ("steady:main.*:blocks", "small"), ("steady:main.*:blocks", "stamp"),
        ("steady:runtime.*:entry", "count"), ("steady:main.hot:blocks", "args"),
    ], 2),
)  # fmt: skip
def test_a_go_program_goes_on_with_instruments_in_it(
    program: Path, tmp_path: Path, points: str, instrument: str
) -> None:
    (tmp_path / "large.c").write_text(LARGE)
    chosen = f"{tmp_path / 'large.c'}:{instrument}" if instrument in ("large", "small") else instrument
    with Loop([program], gives_way=False) as loop:
        before = guards(loop.pid)
        with gilk.attach(loop.pid) as target, target.session() as session:
            probes = session.insert(points, chosen)
            assert sum(probe.tactic is not None for probe in probes) > 0.6 * len(probes)
            if instrument == "count":
                assert wait_for(lambda: sum(session.counts().values()) > ENOUGH)
            elif instrument != "small":
                samples = 0
                while samples < ENOUGH:
                    samples += session.poll().num_rows
            session.close()
            assert session.restored is True
            # Only handlers of Go's runtime may come while the side stack is in use.
            assert session.drain.nested() == 0 or "runtime" in points
        assert differences(loop.pid) == []
        # A goroutine that was suspended in a patch has to leave it first.
        assert wait_for(lambda: (leftovers(loop.pid), guards(loop.pid)) == ([], before))


@pytest.mark.parametrize("times", seldom([3, 10], 1))
def test_probes_come_and_go_in_a_go_program(program: Path, times: int) -> None:
    """Goroutines that were suspended at an instruction return to it, whatever is there by then."""
    with Loop([program], gives_way=False) as loop, gilk.attach(loop.pid) as target:
        for _ in range(times):
            with target.session() as session:
                session.insert("steady:main.*:blocks", "count")
                assert wait_for(lambda session=session: sum(session.counts().values()) > ENOUGH)
            assert session.restored is True


def test_counts_in_a_go_program_are_exact(program: Path) -> None:
    """There are 4 workers of 10 rounds, and one that computes the expected results. A function whose stack has no
    room is entered again on a larger one; the code after that test runs once for each call."""
    points = ["main.hot:entry", "main.deep:blocks", "main.deep:entry", "main.faulty:entry"]
    ran = run([f"steady:{each}=count" for each in points], [program])
    assert ran.visible == plain([program]).visible
    counts = {name.removeprefix("steady:"): hits for name, hits in ran.report["counts"].items()}
    assert (counts["main.hot:entry"], counts["main.deep:entry"], counts["main.faulty:entry"]) == (41, CALLS, 40)
    again = next(hits for name, hits in counts.items() if hits == counts["main.deep:@0:pre"] - CALLS)
    assert again > 0, "no stack had to grow, so this shows nothing"


def test_entries_of_calls_are_recorded_once_in_go(program: Path, tmp_path: Path) -> None:
    """A stack grows some times in a round, and the function whose stack it was begins again."""
    clause = "pid$target:steady:main.deep:entry, pid$target:steady:main.deep:return { @[probename] = count(); }"
    done = run_gilk("dtrace", "-q", "-n", clause, "-c", str(program))
    assert re.findall(r"^ +(entry|return) +(\d+)$", done.stdout, re.MULTILINE) == [
        ("entry", str(CALLS)), ("return", str(CALLS)),
    ], done.stderr  # fmt: skip
    for instrument, kind in (("time", "time-entry"), ("args", "args")):
        file = tmp_path / f"{instrument}.parquet"
        done = run_gilk("run", "-q", "-i", f"steady:main.deep:entry={instrument}", "-o", str(file), "--", str(program))
        assert done.returncode == 0, done.stderr
        found = Counter(row["kind"] for row in parquet.read_table(file).to_pylist())
        assert found[kind] == CALLS, found


def test_a_go_function_without_its_package_is_suggested_with_it(program: Path) -> None:
    done = run_gilk("run", "-i", "hot:entry=count", "--", str(program))
    assert (done.returncode, "near names: main.hot" in done.stderr) == (2, True), done.stderr


def rows(program: Path, point: str, file: Path) -> list[tuple[int, ...]]:
    """The arguments that were recorded at a point of the program, a tuple for each hit."""
    done = run_gilk("run", "-q", "-i", f"{point}=args", "-o", str(file), "--", str(program))
    assert done.returncode == 0, done.stderr
    return [tuple(row[f"arg{n}"] for n in range(6)) for row in parquet.read_table(file).to_pylist()]


def test_arguments_of_a_go_function_are_those_of_its_source(program: Path, tmp_path: Path) -> None:
    """hot(steps, 1, 2) is called 41 times, and deep() with each level in each of 40 rounds."""
    calls = rows(program, "steady:main.hot:entry", tmp_path / "hot.parquet")
    assert [call[:3] for call in calls] == [(200_000, 1, 2)] * 41
    levels = Counter(call[0] for call in rows(program, "steady:main.deep:entry", tmp_path / "deep.parquet"))
    assert levels == dict.fromkeys(range(201), 40)


def test_arguments_of_a_go_function_in_assembly_are_those_of_its_system_call(program: Path, tmp_path: Path) -> None:
    """runtime.rt_sigaction(sig, new, old, size) makes that system call, of which strace shows the arguments."""
    calls = rows(program, "steady:runtime.rt_sigaction.abi0:entry", tmp_path / "calls.parquet")
    log = tmp_path / "log"
    subprocess.run(["strace", "-f", "-e", "rt_sigaction", "-e", "raw=all", "-o", log, program], check=True)
    shown = re.findall(r"rt_sigaction\((0x[0-9a-f]+|0), .*, (0x[0-9a-f]+)[)\s]", log.read_text())
    expected = Counter((int(signal, 16), int(size, 16)) for signal, size in shown)
    assert Counter((call[0], call[3]) for call in calls) == expected
    assert len(calls) > 64


@pytest.mark.parametrize(
    "clause",
    seldom([
        "pid$target:steady:main.*:entry { this->s = copyinstr(uregs[R_SP]); @[this->s, probefunc] = count(); }",
        "pid$target:steady:runtime.mallocgc:entry, pid$target:steady:runtime.casgstatus:entry { @[ustack(20)] = count(); }",
        "pid$target:steady:main.hot:entry { @ = quantize(vtimestamp); }",
        "pid$target:steady:main.deep:entry { @[ustack(20)] = count(); }",
    ], 1),
)  # fmt: skip
def test_d_clauses_run_on_a_stack_of_their_own(program: Path, clause: str) -> None:
    with Loop([program], gives_way=False) as loop:
        enough = "pid$target:steady:main.hot:entry /hits++ > 99/ { exit(0); }"
        done = run_gilk("dtrace", "-q", "-n", f"{clause} {enough}", "-p", str(loop.pid), errors="replace")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.strip()
        assert (differences(loop.pid), leftovers(loop.pid)) == ([], [])


@pytest.mark.stress
def test_a_trace_follows_a_go_program(program: Path, tmp_path: Path) -> None:
    with Loop([program], gives_way=False) as loop:
        file = tmp_path / "steady.parquet"
        words = ["trace", "--start", "call:main.deep", "--stop", "for:200ms", "-p", str(loop.pid), "-o", str(file)]
        assert (done := run_gilk(*words)).returncode == 0, done.stderr
        assert "main.deep" in run_gilk("show", "--tree", str(file)).stdout
        assert differences(loop.pid) == []


@pytest.mark.parametrize(
    "points", ["steady:runtime.m*:blocks", pytest.param("steady:*:blocks", marks=pytest.mark.stress)]
)
def test_a_splice_where_go_could_suspend_a_goroutine_is_refused(program: Path, points: str) -> None:
    """In such code a splice covers one instruction only; a point where that has no room is refused by name."""
    with Loop([program], gives_way=False) as loop, gilk.attach(loop.pid) as target, target.session() as session:
        probes = session.insert(points, "count")
        refused = {str(probe.refusal) for probe in probes if probe.refusal}
        assert "preempted" in refused
        assert "no-room" not in refused


@pytest.mark.parametrize("flag", seldom(["-buildmode=pie", "-ldflags=-w"], 1))
def test_stripped_and_position_independent_go_programs_are_counted(go: str, flag: str) -> None:
    ran = run(["steady*:main.hot:blocks=count"], [build_go("steady", flag, go=go)])
    assert (ran.status, ran.stdout) == (0, b"ok steady\n")
    assert max(ran.report["counts"].values()) > ENOUGH


def test_go_signal_handlers_are_instrumented_before_go_installs_them(program: Path) -> None:
    """A goroutine may be suspended before gilk looks at handlers, and the address of a bounce's jump would end the
    program."""
    lines = [line.split() for line in subprocess.check_output(["nm", program], text=True).splitlines()]
    places = [
        int(line[0], 16)
        for line in lines
        if re.fullmatch(r"runtime\.sig(tramp|return(__sigaction)?)(\.abi0)?", line[-1])
    ]
    assert len(places) == 2
    with gilk.launch([str(program)]) as target, target.session() as session:

        def code() -> list[bytes]:
            return [os.pread(memory.fileno(), 5, place) for place in places]

        with open(f"/proc/{target.pid}/mem", "rb", 0) as memory:
            before = code()
            session.insert("steady:main.hot:blocks", "count")
            assert all(now != then for now, then in zip(code(), before, strict=True))
