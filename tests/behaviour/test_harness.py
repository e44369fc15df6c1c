# SPDX-License-Identifier: LGPL-2.1-or-later
"""The helpers with which other tests look at a process see gilk's memory and files, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.behaviour.harness import ENVIRONMENT, Loop, leftovers, mortal, wait_for
from tests.behaviour.ready import ReadyGilk
from tests.programs.build import build

MAKES = "import mmap, os, sys; fd = os.memfd_create(sys.argv[1]); os.ftruncate(fd, 4096); "
WAITS = "print(fd, flush=True); sys.stdin.read()"


@contextmanager
def process(code: str, argument: str) -> Iterator[tuple[int, int]]:
    """Start a new process, as the tests' own may have memory of past sessions. Yields its number, and the number of
    a descriptor that it has open."""
    words = [sys.executable, "-c", code + WAITS, argument]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as made:
        assert made.stdin and made.stdout
        with made.stdin:
            yield made.pid, int(made.stdout.readline())


@pytest.mark.parametrize("name", ["gilk-code-1-ab", "gilk-data-1-ab", "gilk-memory-1-ab", "gilk-raised-1-ab"])
def test_left_over_memory_of_gilk_is_detected(name: str) -> None:
    with process(MAKES, name) as (pid, fd):
        assert leftovers(pid) == [f"{fd} -> /memfd:{name} (deleted)"]
    with process(MAKES + "kept = mmap.mmap(fd, 4096); os.close(fd);", name) as (pid, _):
        mapping, own_descriptor = leftovers(pid)
        assert mapping.endswith(f" /memfd:{name} (deleted)") and own_descriptor.endswith(f" -> /memfd:{name} (deleted)")
    with process(MAKES + "os.close(fd);", name) as (pid, _):
        assert leftovers(pid) == []


def test_a_left_over_mapping_of_a_cache_file_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path))
    opens = "import os, sys; fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR); "
    with process(opens, str(tmp_path / "blob")) as (pid, fd):
        assert leftovers(pid) == [f"{fd} -> {tmp_path}/blob"]


def test_a_file_below_a_directory_called_gilk_is_not_left_over(tmp_path: Path) -> None:
    path = tmp_path / "gilk" / "memfd:gilk-code-1"
    path.parent.mkdir()
    path.write_bytes(bytes(4096))
    maps = "import mmap, os, sys; fd = os.open(sys.argv[1], os.O_RDONLY); kept = mmap.mmap(fd, 4096, prot=mmap.PROT_READ); "
    with process(maps, os.fspath(path)) as (pid, _):
        assert "gilk" in Path(f"/proc/{pid}/maps").read_text()
        assert leftovers(pid) == []


def test_a_failed_wait_says_what_it_waited_for_and_how_programs_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"]) as asked, mortal([build("hot8")]) as program:
        asked.wait()
        program.send_signal(signal.SIGSEGV)
        program.wait()
        with pytest.raises(AssertionError) as error:
            wait_for(lambda: asked.poll() is None, 0)
    assert "wait_for(lambda: asked.poll() is None, 0)" in str(error.value)
    assert "\nasked = <Popen: returncode: 7" in str(error.value)
    assert f"process {asked.pid} has ended with status 7" in str(error.value)
    assert f"process {program.pid} was ended by SIGSEGV" in str(error.value)


def test_a_failure_beside_a_looping_program_says_what_state_that_is_in() -> None:
    with pytest.raises(AssertionError) as error, Loop([build("hot8")]) as loop:
        raise AssertionError
    assert f"process {loop.pid} runs" in error.value.__notes__[0]
    assert not loop.alive()


def test_a_looping_program_has_low_priority() -> None:
    with Loop([build("hot8")]) as loop:
        nice = {os.getpriority(os.PRIO_PROCESS, int(tid)) for tid in os.listdir(f"/proc/{loop.pid}/task")}
    assert min(nice) > os.getpriority(os.PRIO_PROCESS, 0) or nice == {19}


@pytest.fixture(scope="module")
def ready() -> Iterator[ReadyGilk]:
    made = ReadyGilk({**os.environ, **ENVIRONMENT})
    yield made
    made.close()


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (["--version"], b""),
        pytest.param(["run", "--nonesuch"], b"", marks=pytest.mark.stress),
        pytest.param(["run", "-i", "libc:read:entry=nonesuch", "--", "cat"], b"text", marks=pytest.mark.stress),
        (["run", "-q", "-i", "libc:read:entry=count", "--", "cat"], b"text \xff"),
        (["run", "-q", "-i", "libc:exit:entry=count", "--", "sh", "-c", "pwd; echo $NAMED >&2; exit 7"], b""),
        pytest.param(
            ["run", "-q", "-i", "libc:exit:entry=count", "--", "sh", "-c", "kill -9 $$"], b"", marks=pytest.mark.stress
        ),
    ],
    ids=["output", "usage", "error", "input", "status", "signal"],
)
def test_a_forked_command_ends_like_a_started_one(
    ready: ReadyGilk, tmp_path: Path, words: list[str], data: bytes
) -> None:
    env = {**os.environ, **ENVIRONMENT, "NAMED": "by us"}
    assert ready.takes(words, env)
    started = subprocess.run(
        [sys.executable, "-m", "gilk", *words], input=data, capture_output=True, env=env, cwd=tmp_path, timeout=250
    )
    assert ready.run(words, data, env, str(tmp_path), 250) == (started.returncode, started.stdout, started.stderr)


def test_a_forked_command_that_does_not_end_is_killed(tmp_path: Path) -> None:
    ready = ReadyGilk({**os.environ, **ENVIRONMENT})
    with pytest.raises(subprocess.TimeoutExpired):
        ready.run(["dtrace", "-q", "-n", "tick-1s {}"], b"", {**os.environ, **ENVIRONMENT}, "/", 0.5)
    assert not ready.there
    assert not ready.takes(["--version"], {**os.environ, **ENVIRONMENT})


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "LC_ALL", "LD_PRELOAD"])
def test_a_command_that_would_start_differently_is_not_forked(ready: ReadyGilk, name: str) -> None:
    assert not ready.takes(["--version"], {**os.environ, **ENVIRONMENT, name: "0"})
