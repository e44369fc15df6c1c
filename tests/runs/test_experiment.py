# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files of experiments: those that are accepted, and errors with their places; workloads; instruments that come and
go."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

import gilk
from gilk.errors import GilkError, UsageError
from gilk.runs.experiment.file import Experiment, load
from gilk.runs.experiment.run import Staged
from gilk.runs.experiment.targets import prepare
from gilk.runs.experiment.workload import split
from gilk.runs.strategy import Chosen
from gilk.session.request import CFunction, Request
from tests.behaviour.harness import Loop, differences
from tests.programs.build import build

SMALL = """
[workload]
command = "true"
[[instrument]]
points = "main:entry"
instrument = "count"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "a.toml"
    path.write_text(text)
    return path


def test_an_experiment_with_every_key_is_loaded(tmp_path: Path) -> None:
    text = """
name = "all"
targets = ["workload", "pid:7", "name:s*"]
duration = "1.5m"
repetitions = 3
output = "x/out.parquet"
[workload]
command = "a 'b c' | d"
directory = "/"
stdin = "in"
stdout = "null"
environment = { LC_ALL = "C" }
[[instrument]]
points = "libc:read:entry"
instrument = "x.c:go"
start = "250ms"
stop = 2
targets = ["a"]
[[instrument]]
functions = "parse_*"
strategy = "path"
instrument = "count"
"""
    found = load(written(tmp_path, text))
    assert (found.name, found.duration, found.repetitions) == ("all", 90.0, 3)
    assert found.targets == ("workload", "pid:7", "name:s*")
    assert found.output_of(2) == Path("x/out-2.parquet")
    assert found.workload is not None
    assert (found.workload.stdin, found.workload.stdout) == ("in", "/dev/null")
    first, second = found.items
    assert (first.start, first.stop, first.only) == (0.25, 2.0, ("a",))
    assert isinstance(first.wanted, Request)
    assert first.wanted.instrument == CFunction(tmp_path / "x.c", "go")
    assert isinstance(second.wanted, Chosen)
    assert (second.name, second.start, second.stop) == ("parse_*=@path:count", 0.0, None)


def test_points_in_the_kernel_make_the_kernel_a_target(tmp_path: Path) -> None:
    text = '[workload]\ncommand = "true | cat"\n[[instrument]]\npoints = "kernel:pipe_write:@4:pre"\ninstrument="stamp"'
    found = load(written(tmp_path, f'mode = "flight"\n{text}'))
    assert (found.targets, found.mode) == (("kernel",), "flight")
    assert found.items[0].of_kernel


#: The wrong text, the place that the message names, and the slug.
WRONG = [
    ("x = 1" + SMALL, "line 1, x", "bad-experiment"),
    ("duration = 1\nduration = 2" + SMALL, "(at line 2", "bad-experiment"),
    ('duration = "long"' + SMALL, "line 1, duration", "bad-experiment"),
    ("duration = -1" + SMALL, "line 1, duration", "bad-experiment"),
    ("duration = true" + SMALL, "line 1, duration", "bad-experiment"),
    ("repetitions = 0" + SMALL, "line 1, repetitions", "bad-experiment"),
    ("output = 3" + SMALL, "line 1, output", "bad-experiment"),
    ('targets = ["moon"]' + SMALL, "line 1, targets", "bad-experiment"),
    ("targets = [1]" + SMALL, "line 1, targets", "bad-experiment"),
    ('mode = "fly"' + SMALL, "line 1, mode", "bad-experiment"),
    ('mode = "flight"' + SMALL, "line 1, mode", "bad-experiment"),
    ("targets = []" + SMALL, "line 1, targets", "bad-experiment"),
    (SMALL.replace("command", "comand"), "line 3, workload.comand", "bad-experiment"),
    (SMALL.replace('"true"', '""'), "line 3, workload.command", "bad-experiment"),
    (SMALL.replace('instrument = "count"', ""), "line 4, instrument[1]", "bad-experiment"),
    (SMALL.replace("main:entry", "main"), "line 5, instrument[1].points", "bad-point"),
    (SMALL.replace("count", "counts"), "line 5, instrument[1].points", "bad-instrument"),
    (SMALL + 'stop = "1"\nstart = 2', "line 7, instrument[1].stop", "bad-experiment"),
    (SMALL + '[[instrument]]\nfunctions = "f"\nstrategy = "no"', "line 9, instrument[2].strategy", "no-such-strategy"),
    (SMALL + '[[instrument]]\nfunctions = "f"\nstart = "x"\nstrategy = "path"', "line 9, instrument[2].start",
     "bad-experiment"),
    (SMALL + "[[instrument]]\npoints = 1", "line 8, instrument[2].points", "bad-experiment"),
    ("[workload]\ncommand = 'true'", "instrument: there is none", "bad-experiment"),
    ("workload = 1\n[[instrument]]\npoints='a:entry'\ninstrument='count'", "line 1, workload", "bad-experiment"),
    ("instrument = [1]\n[workload]\ncommand = 'true'", "instrument[1]", "bad-experiment"),
    ("not toml", "not TOML", "bad-experiment"),
    ("", "instrument: there is none", "bad-experiment"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "slug"), WRONG)
def test_a_mistake_is_reported_with_its_place(tmp_path: Path, text: str, place: str, slug: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(written(tmp_path, text))
    assert caught.value.slug == slug
    assert place in str(caught.value)


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir(), lambda path: path.write_bytes(b"\xff")])
def test_an_unreadable_experiment_is_an_error(tmp_path: Path, make: object) -> None:
    make(tmp_path / "a.toml")  # type: ignore[operator]
    with pytest.raises(UsageError) as caught:
        load(tmp_path / "a.toml")
    assert caught.value.slug == "bad-experiment"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a", [["a"]]),
        ("a 'b | c' | d\\|e|f", [["a", "b | c"], ["d|e"], ["f"]]),
        ("s 's/\\(.\\)/x/' -", [["s", "s/\\(.\\)/x/", "-"]]),
        ("a -x=$HOME ~", [["a", "-x=$HOME", "~"]]),
    ],
)
def test_a_pipeline_is_split_as_a_shell_would(line: str, words: list[list[str]]) -> None:
    assert split(line) == words


@pytest.mark.parametrize("line", ["a |", "| a", "a && b", "a; b", "a > f", "a 'b", "(a)", "a || b", "a & b"])
def test_shell_syntax_beyond_pipelines_is_refused(line: str) -> None:
    with pytest.raises(UsageError) as caught:
        split(line)
    assert caught.value.slug == "bad-command"


# Runs.


@contextlib.contextmanager
def begun(tmp_path: Path, text: str) -> Iterator[tuple[Experiment, Staged]]:
    found = load(written(tmp_path, text))
    running = prepare(found)
    try:
        running.begin()
        yield found, running
    finally:
        running.abort()
        for process in running.processes:
            process.keeper.leave()


def test_every_program_of_a_pipeline_is_instrumented_from_its_start(tmp_path: Path) -> None:
    """Every program of the pipeline is held until the instruments are in: each main() is seen, and the output is
    right."""
    (tmp_path / "in").write_text("b\na\nc\n" * 1000)
    text = f"""
[workload]
command = "cat | sort | tail -n 1 | cat"
directory = "{tmp_path}"
stdin = "in"
stdout = "out"
[[instrument]]
points = "libc:exit:entry"
instrument = "stamp"
"""
    with begun(tmp_path, text) as (_, running):
        running.wait(60, lambda: False, lambda _: None)
        result = running.finish()
    assert (tmp_path / "out").read_text() == "c\n"
    assert running.workload is not None
    assert list(running.workload.statuses.values()) == [0, 0, 0, 0]
    assert result.numbers["records"] == 4
    assert result.restored


def test_instruments_come_and_go_at_their_times(tmp_path: Path) -> None:
    """The permanent count has more calls than the samples of the instrument that comes and goes."""
    program = tmp_path / "calls.py"
    program.write_text("import os, time\nwhile True:\n    os.getppid()\n    time.sleep(0.0005)\n")
    output = tmp_path / "out.parquet"
    text = f"""
duration = 1.6
output = "{output}"
[workload]
command = '''{shlex.join([sys.executable, str(program)])}'''
[[instrument]]
points = "libc:getppid:entry"
instrument = "count"
[[instrument]]
points = "libc:getppid:entry"
instrument = "args"
start = 0.5
stop = "1000ms"
"""
    with begun(tmp_path, text) as (found, running):
        running.wait(found.duration, lambda: False, lambda _: None)
        result = running.finish()
    always, between = running.happened()["instruments"]
    trace = gilk.read(output)
    assert trace.tally.report["experiment"] == running.happened()
    began = trace.tally.report["experiment"]["began"]
    times = np.asarray(trace.samples.filter(pc.equal(trace.samples["kind"].cast("string"), "args"))["time"])
    assert between["in"][0] <= times.min() <= times.max() <= between["out"][1]
    assert 0.5e9 <= between["in"][0] - began < between["out"][0] - began
    assert 1.0e9 <= between["out"][0] - began < 60e9
    assert always["out"][1] - always["in"][1] > 1.6e9
    assert len(trace.about.probes) == 2
    assert result.counts[trace.about.probes[0].point] > len(times) > 0


def test_a_workload_starts_when_the_targets_are_instrumented(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    with Loop([build("hot8")]) as loop:
        text = f"""
targets = ["pid:{loop.pid}"]
[workload]
command = '''touch {shlex.quote(str(marker))} && echo shell works | cat > {shlex.quote(str(tmp_path))}/out; exit 3'''
[[instrument]]
points = "hot:entry"
instrument = "count"
"""
        running = prepare(load(written(tmp_path, text)))
        assert not marker.exists()
        running.begin()
        running.wait(60, lambda: False, lambda _: None)
        result = running.finish()
        for process in running.processes:
            process.keeper.leave()
    assert (tmp_path / "out").read_text() == "shell works\n"
    assert running.workload is not None
    assert running.workload.status == 3
    assert sum(result.counts.values()) > 0
    assert not result.partial


def test_a_workload_that_does_not_end_is_killed(tmp_path: Path) -> None:
    text = SMALL.replace('"true"', '"sleep 100 | sleep 101"').replace("main:entry", "libc:nanosleep:entry")
    with begun(tmp_path, f"duration = 0.2\n{text}") as (found, running):
        running.wait(found.duration, lambda: False, lambda _: None)
        running.finish()
        deadline = time.monotonic() + 60
        while any(process.wait() is None for process in running.processes):
            assert time.monotonic() < deadline
        assert [end.code for end in (p.wait() for p in running.processes) if end] == [143, 143]


def test_an_instrument_whose_time_never_comes_is_reported(tmp_path: Path) -> None:
    with begun(tmp_path, SMALL.replace("main:entry", "libc:exit:entry") + "start = 100") as (_, running):
        running.wait(60, lambda: False, lambda _: None)
        result = running.finish()
    (only,) = running.happened()["instruments"]
    assert (only["in"], only["out"], only["failure"]) == (None, None, "it was over before its time came")
    assert result.counts == {}


def test_only_the_chosen_programs_of_a_pipeline_are_instrumented(tmp_path: Path) -> None:
    text = SMALL.replace('"true"', '"true | cat"').replace("main:entry", "libc:exit:entry") + 'targets = ["c?t"]'
    with begun(tmp_path, text) as (_, running):
        running.wait(60, lambda: False, lambda _: None)
        running.finish()
    assert [each["target"] for each in running.happened()["instruments"]] == ["cat"]


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        (SMALL.replace('"true"', '"true | no-such-program-anywhere"'), "cannot-launch"),
        (SMALL.replace("[workload]", '[workload]\nstdin = "/no/such/file"'), "cannot-launch"),
        (SMALL.replace("main:entry", "no_such_function:entry"), "no-such-function"),
        (SMALL.replace("main:entry", "nolib:f:entry"), "no-such-image"),
        (f'targets = ["name:no-such-*"]\n{SMALL}', "no-such-process"),
        (f'targets = ["pid:{2**22 + 5}"]\n{SMALL}', "no-such-process"),
    ],
)
def test_an_experiment_that_fails_to_begin_leaves_no_process(tmp_path: Path, text: str, slug: str) -> None:
    before = children()
    with pytest.raises(GilkError) as caught, begun(tmp_path, text):
        pass
    assert caught.value.slug == slug
    deadline = time.monotonic() + 60
    while children() - before:
        assert time.monotonic() < deadline, children() - before


def children() -> set[int]:
    """The living children of this process."""
    text = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "pid=,stat=,comm="], capture_output=True, text=True)
    rows = [line.split() for line in text.stdout.splitlines()]
    return {int(row[0]) for row in rows if row[1][0] != "Z" and row[2] != "ps"}


def test_coverage_removes_points_that_were_hit() -> None:
    """A block of a hot function is not counted any more once it was seen."""
    with Loop([build("hot8")]) as loop:
        running = gilk.prepare_run([gilk.parse_request("hot=@coverage")], [loop.pid], [])
        assert isinstance(running, Staged)
        running.begin()
        running.wait(60, lambda: not any(p.present for p in running.placed), lambda _: None)
        first = running.sessions[0].counts()
        assert any(first.values())
        deadline = time.monotonic() + 0.3
        running.wait(None, lambda: time.monotonic() > deadline, lambda _: None)
        assert running.sessions[0].counts() == first
        result = running.finish()
        assert differences(loop.pid) == []
        for process in running.processes:
            process.keeper.leave()
    assert result.numbers["spliced"] == len(running.placed[0].wanted)


def test_ctrl_c_keeps_the_samples_recorded_so_far(tmp_path: Path, gilk_on_path: dict[str, str]) -> None:
    output = tmp_path / "out.parquet"
    text = SMALL.replace('"true"', '"cat /dev/zero | cat"').replace("main:entry", "libc:read:entry")
    path = written(
        tmp_path, f'output = "{output}"\n' + text.replace('"count"', '"stamp"').replace('cat"', 'cat"\nstdout = "null"')
    )
    command = [sys.executable, "-m", "gilk", "experiment", "run", str(path), "--json"]
    running = subprocess.Popen(command, env=gilk_on_path, stdout=subprocess.PIPE, start_new_session=True, text=True)
    deadline = time.monotonic() + 60
    partial = output.with_name("out.parquet.partial")
    while not (partial.exists() and partial.stat().st_size > 20_000):
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)  # to the whole foreground group, as a terminal does
    out, _ = running.communicate(timeout=250)
    assert running.returncode == 130
    assert '"partial": true' in out
    trace = gilk.read(output)
    assert trace.tally.partial
    assert trace.samples.num_rows > 100
