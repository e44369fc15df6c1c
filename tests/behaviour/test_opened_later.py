# SPDX-License-Identifier: LGPL-2.1-or-later
"""Libraries that a program opens during a session have their instruments before their first instruction runs.

The oracle is arithmetic: in each round, tests/programs/dlopen.c opens its plugin, calls it ten times with known
numbers, and closes it; it prints how many calls it made. opener.py takes one step for each byte of input.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile

import pyarrow.parquet as pq
import pytest

from gilk.api import runs
from gilk.engines.follow.client import ClientFollower
from gilk.engines.follow.scope import TraceScope
from gilk.errors import TargetError
from gilk.session import libraries
from gilk.session.broker.library_watch import LibraryWatch, linked
from gilk.session.libraries import Arrivals
from gilk.targets.base import Code, Loaded
from gilk.targets.process import attach
from gilk.trace.reading import read
from tests.behaviour.harness import ENVIRONMENT, Loop, differences, leftovers, run_gilk, wait_for
from tests.programs.build import build, compile_text
from tests.programs.opener import opener
from tests.seldom import seldom

ROUNDS = 12
CALLS = 10 * ROUNDS
ARGUMENTS = [round_ + call for round_ in range(ROUNDS) for call in range(10)]


def report_of(*words: str | Path, **options: str) -> dict[str, object]:
    done = run_gilk("run", "--json", *words, **options)
    assert done.returncode == 0, done.stderr
    report: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    assert report["restored"] is True, report["notes"]
    return report


def test_counts_in_a_library_opened_later_are_those_of_the_program() -> None:
    """This includes constructors and destructors, however often the library is closed and opened again."""
    report = report_of("-Z", "-i", "plugin*:*:entry=count", "--", build("dlopen"), str(ROUNDS))
    counts = report["counts"]
    assert isinstance(counts, dict)
    assert counts["plugin.so:plugin_hot:entry"] == CALLS
    assert counts["plugin.so:on_load:entry"] == counts["plugin.so:on_unload:entry"] == ROUNDS
    assert report["partial"] is False
    assert "opened later, and instrumented first: plugin.so" in str(report["notes"])


def test_without_z_a_library_that_is_not_open_is_refused() -> None:
    """Negative control: the library is not open when the session begins."""
    done = run_gilk("run", "-i", "plugin:plugin_hot:entry=count", "--", build("dlopen"), "1")
    assert (done.returncode, "(no-such-image)" in done.stderr, "-Z waits" in done.stderr) == (2, True, True)


def test_a_pattern_that_matches_already_waits_for_libraries_without_z() -> None:
    """The pattern matches something already."""
    report = report_of("-i", "*:*plugin*:entry=count", "--", build("dlopen"), str(ROUNDS))
    counts = report["counts"]
    assert isinstance(counts, dict)
    assert {name: count for name, count in counts.items() if count} == {
        "dlopen:use_plugin:entry": ROUNDS, "plugin.so:plugin_hot:entry": CALLS,
    }  # fmt: skip


def test_instruments_of_all_kinds_at_one_function_of_a_library_opened_later(tmp_path: Path) -> None:
    """Records, conditions and stacks come and go with the library."""
    file = tmp_path / "all.parquet"
    report = report_of(
        "-Z", "-o", file, "-i", "plugin:plugin_hot:entry=args", "-i", "plugin:plugin_hot:entry/arg0 >= 12/=count",
        "-i", "plugin:plugin_hot:entry=stack", "--", build("dlopen"), str(ROUNDS),
    )  # fmt: skip
    assert report["counts"] == {
        "plugin.so:plugin_hot:entry": CALLS,
        "plugin.so:plugin_hot:entry/arg0 >= 12/": sum(argument >= 12 for argument in ARGUMENTS),
    }
    assert pq.read_table(file)["arg0"].to_pylist() == ARGUMENTS


#: It catches a fault before it opens its library, and calls a function there a hundred times.
CATCHES = """
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
static void fault(int number, siginfo_t *information, void *context) { (void)number; (void)information; (void)context; }
int main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
	int sum = 0;
	(void)argc;
	sigaction(SIGSEGV, &action, 0);
	void *library = dlopen(argv[1], RTLD_NOW);
	int (*twice)(int) = library ? (int (*)(int))dlsym(library, "twice") : 0;
	for (int n = 0; twice && n < 100; n++) sum += twice(n);
	return printf("%d\\n", sum) < 0;
}
"""


@pytest.mark.parametrize("others", [[], ["-i", "ld-linux*:_dl_debug_state:entry=count"]], ids=["alone", "beside"])
def test_a_library_is_instrumented_though_the_program_catches_faults_before_it_opens_one(
    tmp_path: Path, others: list[str]
) -> None:
    """For such a program, patches save all registers; those at which the thread waits for gilk are left as they are,
    also if they have other instruments."""
    program = compile_text(tmp_path, "catches", CATCHES)
    library = compile_text(tmp_path, "lib.so", "int twice(int n) { return 2 * n; }", "-shared", "-fPIC")
    report = report_of("-Z", "-i", "lib.so:twice:entry=count", *others, "--", program, library)
    assert report["partial"] is False, report["notes"]
    assert isinstance(report["counts"], dict) and report["counts"]["lib.so:twice:entry"] == 100


def test_libraries_that_followed_programs_open_are_instrumented() -> None:
    program = build("dlopen")
    report = report_of(
        "--follow", "-i", "plugin:plugin_hot:entry=count", "--", "sh", "-c", f"{program} 3; {program} 5 | cat"
    )
    assert report["counts"] == {"plugin.so:plugin_hot:entry": 80}
    programs = report["programs"]
    assert isinstance(programs, list)
    assert sorted(sum(one["counts"].values()) for one in programs) == [0, 0, 30, 50][-len(programs) :]


def test_extension_modules_of_python_are_instrumented_when_imported() -> None:
    """A module is initialised once, however often it is imported."""
    program = "import _decimal, _json, importlib; [importlib.import_module('_decimal') for _ in range(5)]"
    words = ("-Z", "-i", "_decimal*:PyInit_*:entry=count", "-i", "_json*:PyInit_*:entry=count")
    report = report_of(*words, "--", os.path.realpath(sys.executable), "-S", "-c", program)
    counts = report["counts"]
    assert isinstance(counts, dict)
    assert sorted((name.split(":")[1], count) for name, count in counts.items()) == [
        ("PyInit__decimal", 1), ("PyInit__json", 1),
    ]  # fmt: skip


def test_a_library_that_is_never_opened_is_named() -> None:
    report = report_of("-Z", "-i", "no_such_library:f:entry=count", "-i", "plugin:plugin_hot:entry=count", "--",
                       build("dlopen"), "1")  # fmt: skip
    assert report["counts"] == {"plugin.so:plugin_hot:entry": 10}
    assert report["partial"] is True
    assert "nothing has come that was waited for: no image matches 'no_such_library'" in str(report["notes"])


# Processes that are running already.


class Opener:
    """A program that for each byte of input opens the library and calls it once, or closes it, and answers when it
    has."""

    def __init__(self, directory: Path, library: Path | None = None) -> None:
        program, plugin = opener(directory)
        words = [program, library or plugin]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    @property
    def pid(self) -> int:
        return self.process.pid

    def turn(self, times: int = 1) -> None:
        assert self.process.stdin and self.process.stdout
        for _ in range(times):
            self.process.stdin.write(b"x")
            assert self.process.stdout.read(1) == b"x", self.process.poll()


@pytest.fixture
def opens(tmp_path: Path) -> Iterator[Opener]:
    made = Opener(tmp_path)
    yield made
    made.process.kill()
    made.process.communicate()


@contextmanager
def going_on(pid: int, *points: str, waits: bool = True, until: int = 0) -> Iterator[list[runs.Result]]:
    """In the block, a run with these instruments is active; its result is there at the end. ``until`` is the number
    of hits to wait for."""
    results: list[runs.Result] = []
    over, hits = threading.Event(), [0]
    running = runs.prepare_run([runs.parse_request(point) for point in points], [pid], (), waits=waits)
    running.begin()
    waiting = threading.Thread(target=running.wait, args=(None, over.is_set, lambda state: hits.append(state.hits)))
    waiting.start()
    try:
        yield results
        assert wait_for(lambda: max(hits) >= until)
    finally:
        over.set()
        waiting.join()
        results.append(running.finish())


def test_a_running_process_opens_a_library(opens: Opener) -> None:
    opens.turn(4)
    with going_on(opens.pid, "plugin:plugin_hot:entry=count", "plugin:on_load:entry=count") as results:
        opens.turn(7)
    (result,) = results
    assert result.counts == {"plugin.so:plugin_hot:entry": 4, "plugin.so:on_load:entry": 4}
    assert result.restored is True
    assert (differences(opens.pid), leftovers(opens.pid)) == ([], [])
    opens.turn(4)


def test_a_running_process_opens_and_closes_a_library_all_the_time() -> None:
    """This holds whenever the session begins, and until everything is out; a round may be under way at both ends."""
    with Loop([build("dlopen")]) as loop, going_on(loop.pid, "plugin:plugin_hot:entry=count", "use_plugin:entry=count",
                                                   until=66) as results:  # fmt: skip
        pass
    hot, rounds = (results[0].counts[name] for name in ("plugin.so:plugin_hot:entry", "dlopen:use_plugin:entry"))
    assert rounds >= 5
    assert abs(hot - 10 * rounds) <= 20, (hot, rounds)
    assert results[0].restored is True


def test_a_library_is_opened_while_the_run_begins(opens: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes after the libraries of the beginning were noted, and before the run has any session. Its instruments
    are on the time line of those that follow."""

    def opened_meanwhile(code: Code, known: Sequence[Loaded]) -> Arrivals:
        assert opens.process.stdin
        opens.process.stdin.write(b"x")
        assert wait_for(lambda: any("plugin" in loaded.path.name for loaded in code.loaded()))
        return Arrivals(code, known)

    monkeypatch.setattr(libraries, "Arrivals", opened_meanwhile)
    with going_on(opens.pid, "plugin:plugin_hot:entry=count", "main:entry=count", until=1) as results:
        monkeypatch.undo()
        assert opens.process.stdout and opens.process.stdout.read(1) == b"x"
        opens.turn(6)
    assert results[0].counts["plugin.so:plugin_hot:entry"] == 4
    assert results[0].restored is True
    assert (differences(opens.pid), leftovers(opens.pid)) == ([], [])


def test_two_sessions_wait_for_the_same_library(opens: Opener) -> None:
    """Each session takes its probes out of the closed library, and neither disturbs those of the other."""
    with going_on(opens.pid, "plugin:plugin_hot:entry=count") as first:
        opens.turn(3)
        with going_on(opens.pid, "plugin:plugin_hot:entry=stamp", "plugin:on_load:entry=count") as second:
            opens.turn(6)
        opens.turn(4)
    assert first[0].counts == {"plugin.so:plugin_hot:entry": 7}
    assert second[0].counts == {"plugin.so:on_load:entry": 3}
    assert second[0].numbers["records"] == 3
    assert (differences(opens.pid), leftovers(opens.pid)) == ([], [])


def exchanged(tmp_path: Path) -> tuple[Path, Path]:
    """The library, and another one with other code at the same addresses: functions that run whenever it is opened."""
    library = tmp_path / "plugin.so"
    copyfile(build("plugin"), library)
    text = (build("plugin").parent.parent.parent.parent / "tests/programs/plugin.c").read_text()
    many = "".join(
        f"long count{n}; __attribute__((constructor)) static void on{n}(void) {{ count{n}++; }}\n" for n in range(64)
    )
    padded = f"int padding(int x) {{ for (int i = 0; i < x; i++) x += i * x; return x; }}\n{many}{text}"
    return library, compile_text(tmp_path, "other", padded, "-O2", "-shared", "-fPIC", "-w")


def test_points_are_looked_up_in_the_new_file_when_a_library_is_replaced(tmp_path: Path) -> None:
    """If the library is replaced while it is closed, points are looked up in the new file, however often that is
    opened, and nothing is put at the old addresses."""
    library, other = exchanged(tmp_path)
    opens = Opener(tmp_path, library)
    with going_on(opens.pid, "plugin:plugin_hot:entry=count", "plugin:padding:entry=stamp") as results:
        opens.turn(4)
        os.replace(other, library)
        opens.turn(8)
    opens.process.kill()
    opens.process.communicate()
    assert results[0].counts == {"plugin.so:plugin_hot:entry": 6}
    assert sum(results[0].tactics.values()) == 3


def test_probes_of_d_are_looked_up_in_the_new_file_when_a_library_is_replaced(tmp_path: Path) -> None:
    library, other = exchanged(tmp_path)
    opens = Opener(tmp_path, library)
    program = 'BEGIN { printf("ready\\n"); } pid$target:plugin*:plugin_hot:entry { @ = count(); } END { printa("%@d\\n", @); }'
    words = [sys.executable, "-m", "gilk", "dtrace", "-Zqn", program, "-p", str(opens.pid)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT}) as tracer:
        assert tracer.stdout and tracer.stdout.readline() == "ready\n"
        opens.turn(4)
        os.replace(other, library)
        opens.turn(8)
        tracer.send_signal(signal.SIGINT)
        assert tracer.stdout.read().split() == ["6"]
    opens.process.kill()
    opens.process.communicate()


def test_a_report_says_that_first_hits_may_be_missing_if_no_thread_can_be_held(
    opens: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This stands for a process whose dynamic linker cannot be watched."""

    def refuse(*_: object) -> None:
        raise TargetError("cannot-watch", "for a test")

    monkeypatch.setattr(LibraryWatch, "put_gate", refuse)
    with going_on(opens.pid, "plugin:plugin_hot:entry=count") as results:
        opens.turn(5)
    assert results[0].counts == {}
    assert results[0].partial
    assert "1 library was opened later, and has no instruments: plugin.so" in results[0].notes
    unseen = "libraries that were opened later have no instruments, also those that nobody saw: "
    assert any(note.startswith(unseen) and "for a test" in note for note in results[0].notes)


@pytest.mark.stress
def test_strategies_name_the_libraries_that_they_leave_out(opens: Opener) -> None:
    """A strategy only handles the libraries that are there."""
    with going_on(opens.pid, "*:*u*=@coverage", waits=False) as results:
        opens.turn(3)
        assert wait_for(lambda: "plugin.so" in Path(f"/proc/{opens.pid}/maps").read_text())
    assert results[0].partial
    assert "1 library was opened later, and has no instruments: plugin.so" in results[0].notes


KILLED = """
import sys, time
from gilk.api import runs
from gilk.engines.follow.client import ClientFollower
from gilk.engines.follow.scope import TraceScope
running = runs.prepare_run([runs.parse_request("plugin:plugin_hot:entry=count")], [int(sys.argv[1])], (), waits=True)
running.begin()
print("begun", flush=True)
running.wait(None, lambda: False, lambda _: None)
"""


@pytest.mark.parametrize("turns", seldom([1, 2, 0, 3], 2))
def test_a_killed_client_leaves_the_process_and_its_library_clean(turns: int, opens: Opener) -> None:
    """After the kill nobody waits at a gate, and the code is what it was, whether the library is open or not."""
    words = [sys.executable, "-c", KILLED, str(opens.pid)]
    with subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None and client.stdout.readline() == b"begun\n"
        opens.turn(turns)
        client.send_signal(signal.SIGKILL)
    assert wait_for(lambda: not leftovers(opens.pid) and not differences(opens.pid))
    opens.turn(4)


def test_libraries_linked_at_start_are_those_of_ldd(tmp_path: Path) -> None:
    """The libraries to watch are those that ldd does not list."""
    import gilk

    program, plugin = opener(tmp_path)
    ldd = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    opens = Opener(tmp_path)
    opens.turn()
    with gilk.attach(opens.pid) as target:
        present = target.process.loaded()
        names = {one.name for one in linked(target.process, present) if not one.main}
        assert {one.name for one in present} - names == {program.name, plugin.name}
    opens.process.kill()
    opens.process.communicate()
    assert names == {line.split()[0].rpartition("/")[2] for line in ldd.splitlines() if "vdso" not in line}


# D programs.


# Traces.


def test_calls_of_a_library_opened_later_are_in_the_trace(tmp_path: Path) -> None:
    """The program opens and closes its library all the time, at the same address: each call in the trace has the
    right one."""
    words = ("--scope", "*plugin*", "--start", "call:use_plugin:2", "--stop", "return:use_plugin:4")
    done = run_gilk("trace", "-q", *words, "-o", tmp_path / "t.parquet", "--", build("dlopen"), str(ROUNDS))
    assert done.returncode == 0, done.stderr
    rows = read(tmp_path / "t.parquet").flow.table.to_pylist()
    calls = Counter(row["function"] for row in rows)
    assert calls["use_plugin"] >= 3, calls
    assert calls["plugin_hot"] == 10 * calls["use_plugin"], calls


def test_a_library_closed_before_it_is_ready_does_not_harm_a_trace(opens: Opener) -> None:
    """The trace is not harmed, and treats the library as one that has not been opened yet."""
    opens.turn()
    with attach(opens.pid) as process, ClientFollower(process) as follower:
        images = process.loaded()
        opens.turn()
        _, trouble = follower.prepare(images, TraceScope.parse(["opens:", "*plugin*:"]))
        assert trouble == []
        assert {loaded.name for loaded in follower.gone} == {"plugin.so"}
        assert "main" in {name for _, names in follower.names for name in names}
        opens.turn()
        again, trouble = follower.prepare([one for one in process.loaded() if one.name == "plugin.so"], TraceScope())
        assert again and trouble == []
    assert (differences(opens.pid), leftovers(opens.pid)) == ([], [])
