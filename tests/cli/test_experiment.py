# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk experiment run``, from the command line; and the examples, each run with the command in its comment."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import tomllib
from pathlib import Path

import pytest

from gilk.trace.reading import read
from tests.behaviour.harness import run_gilk

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "experiments"
TWICE = """
repetitions = 2
output = "out.parquet"
[workload]
command = "echo hello | cat"
stdout = "null"
[[instrument]]
points = "libc:write:entry"
instrument = "count"
[[instrument]]
functions = "libc:exit"
strategy = "path"
"""


def gilk(environment: dict[str, str], where: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return run_gilk(*map(str, words), cwd=where, env=environment, timeout=250)


def test_repetitions_have_their_own_files(tmp_path: Path, gilk_on_path: dict[str, str]) -> None:
    (tmp_path / "twice.toml").write_text(TWICE)
    done = gilk(gilk_on_path, tmp_path, "experiment", "run", "twice.toml", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["experiment"] == "twice"
    for number, run in enumerate(report["runs"], 1):
        assert run["file"] == f"out-{number}.parquet"
        assert run["counts"] == {"libc.so.6:write:entry": 2}
        assert (run["restored"], run["workload_status"], run["partial"]) == (True, 0, False)
        assert [(i["instrument"], i["target"]) for i in run["instruments"]] == [
            ("libc:write:entry=count", "echo"), ("libc:exit=@path", "echo"),
            ("libc:write:entry=count", "cat"), ("libc:exit=@path", "cat"),
        ]  # fmt: skip
        trace = read(tmp_path / run["file"])
        assert set(trace.samples["thread"].to_pylist()) == {"echo", "cat"}
        assert trace.tally.report["experiment"]["instruments"] == run["instruments"]


@pytest.mark.stress
def test_the_report_is_for_people(tmp_path: Path, gilk_on_path: dict[str, str]) -> None:
    (tmp_path / "once.toml").write_text(TWICE.replace("repetitions = 2", ""))
    done = gilk(gilk_on_path, tmp_path, "experiment", "run", "once.toml", "-o", "other.parquet")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^libc:write:entry=count +cat +0\.000 s +\d+\.\d+ s +1 +0$", done.stdout, re.MULTILINE)
    assert (tmp_path / "other.parquet").exists()
    assert gilk(gilk_on_path, tmp_path, "experiment", "run", "once.toml", "-q").stdout == ""


def test_a_mistake_in_an_experiment_exits_with_2(tmp_path: Path, gilk_on_path: dict[str, str]) -> None:
    (tmp_path / "bad.toml").write_text(TWICE.replace("libc:exit", "libc:no_such"))
    done = gilk(gilk_on_path, tmp_path, "experiment", "run", "bad.toml", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["slug"] == "no-such-function"
    assert not (tmp_path / "out-1.parquet").exists()


# The examples.


def ran(environment: dict[str, str], where: Path, name: str) -> Path:
    done = gilk(environment, where, "experiment", "run", EXAMPLES / f"{name}.toml")
    assert done.returncode == 0, done.stderr
    return where / f"{name}.parquet"


def drawn(environment: dict[str, str], where: Path, name: str) -> list[str]:
    """Run every `gilk plot` command that an example's comment shows."""
    text = (EXAMPLES / f"{name}.toml").read_text()
    comment = "\n".join(line.removeprefix("#") for line in text.splitlines() if line.startswith("#"))
    commands = re.findall(r'^ +(gilk plot [^"\n]*?(?: "[^"]*"|(?=  |\n)))', comment, re.MULTILINE)
    assert commands
    made = []
    for command in commands:
        done = subprocess.run(["bash", "-c", command], cwd=where, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stderr)
        made.append(done.stdout.strip())
        assert (where / made[-1]).stat().st_size > 5000
    return made


@pytest.mark.stress
def test_pulsar(tmp_path: Path, gilk_on_path: dict[str, str]) -> None:
    """There are 96 forks in three bursts, as in the program."""
    times = read(ran(gilk_on_path, tmp_path, "pulsar")).samples["time"].to_numpy()
    assert len(times) == 96
    gaps = times[1:] - times[:-1]
    assert [n + 1 for n, gap in enumerate(gaps) if gap > 0.9e9] == [32, 64]
    assert len(drawn(gilk_on_path, tmp_path, "pulsar")) == 3


def test_pipe(tmp_path: Path, gilk_on_path: dict[str, str]) -> None:
    """cat fills the pipe at once and waits in nearly every write; behind sed, the bottleneck, there is always room."""
    found: dict[tuple[str, str], list[int]] = {}
    for call in read(ran(gilk_on_path, tmp_path, "pipe")).calls.table.to_pylist():
        found.setdefault((call["function"], call["thread"]), []).append(call["duration"])
    medians = {who: statistics.median(durations) for who, durations in found.items()}
    assert medians["write", "cat"] > 10 * max(medians["write", "sed"], medians["write", "grep"])
    assert {thread for function, thread in found if function == "read"} == {"cat", "sed", "grep", "sort"}
    assert drawn(gilk_on_path, tmp_path, "pipe") == ["write.png", "read.png"]


@pytest.mark.stress
def test_overhead(tmp_path: Path, gilk_on_path: dict[str, str]) -> None:
    """Blocks were recorded only during the second second, and the shortest calls took longer then."""
    trace = read(ran(gilk_on_path, tmp_path, "overhead"))
    _, path = trace.tally.report["experiment"]["instruments"]
    stamps = trace.samples.filter(trace.samples["kind"].cast("string").to_numpy() == "stamp")["time"].to_numpy()
    assert path["in"][0] <= stamps.min() and stamps.max() <= path["out"][1]
    calls = trace.calls.table
    start, duration = calls["start"].to_numpy(), calls["duration"].to_numpy()
    active = (start > path["in"][1]) & (start < path["out"][0])
    assert sorted(duration[active])[active.sum() // 10] > sorted(duration[~active])[(~active).sum() // 10]
    assert len(drawn(gilk_on_path, tmp_path, "overhead")) == 1


def test_loops(gilk_on_path: dict[str, str], tmp_path: Path) -> None:
    done = gilk(gilk_on_path, tmp_path, "run", "-i", f"libc:*sort*=@{EXAMPLES}/loops.py:loops", "--", "ls", "/")
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d +libc\S+sort\S+:pre", done.stderr)


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.toml")), ids=lambda file: file.stem)
def test_every_example_has_a_test_and_says_what_the_kernel_has_instead(file: Path) -> None:
    assert f"test_{file.stem}" in globals()
    assert tomllib.loads(file.read_text())["output"] == f"{file.stem}.parquet"
    assert "kernel:" in file.read_text()
