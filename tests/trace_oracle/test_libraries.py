# SPDX-License-Identifier: LGPL-2.1-or-later
"""Libraries that are opened while a trace is on are in it from their first instruction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs.build import compile_to
from tests.trace_oracle.paced import Paced, alpha, observe

LIBRARY = """
static volatile int ready;
static __attribute__((noinline)) void prepare(int n) { ready += n; }
static __attribute__((constructor)) void begin(void) { prepare(40); prepare(2); }
static __attribute__((destructor)) void end(void) { prepare(-42); }
int plugged(void) { return ready; }
"""
OPENED = ["begin", "prepare", "prepare"]
CLOSED = ["end", "prepare"]
OURS = ("begin", "prepare", "plugged", "end", *set(alpha(1)), "repeat")
SCOPE = ("paced:", "plug*:")


@pytest.fixture
def paced() -> Iterator[Paced]:
    with Paced() as program:
        yield program


@pytest.fixture(autouse=True)
def cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache."""
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))


def library(path: Path, *flags: str) -> Path:
    source = path.with_suffix(".c")
    source.write_text(LIBRARY)
    return compile_to(path, [source], ("-O0", "-falign-functions=16", "-shared", "-fPIC", *flags))


def calls(paced: Paced, commands: list[str], start: str = "now", stop: str = "call:left") -> list[str]:
    """The calls of the library's functions and of alpha's, in order; ``j`` ends the trace."""
    found = observe(paced, start, stop, [*commands, "j"], scope=SCOPE)
    assert found.states["cut"] == 0
    return [name for name in found.functions if name in OURS]


@pytest.mark.parametrize("how", ["o", "z"])
def test_constructors_of_a_library_are_in_the_trace(paced: Paced, tmp_path: Path, how: str) -> None:
    """The library is opened with RTLD_NOW and with RTLD_LAZY."""
    path = library(tmp_path / "plug.so")
    assert calls(paced, [f"{how} {path}", "p", "a 1"]) == [*OPENED, "plugged", "repeat", *alpha(1)]


def test_a_library_that_is_opened_before_the_trace_begins(paced: Paced, tmp_path: Path) -> None:
    path = library(tmp_path / "plug.so")
    assert calls(paced, [f"o {path}", "a 1", "p"], start="call:alpha") == [*alpha(1), "plugged"]


def test_a_library_is_closed_and_opened_again_during_a_trace(paced: Paced, tmp_path: Path) -> None:
    path = library(tmp_path / "plug.so")
    once = [*OPENED, "plugged", *CLOSED]
    assert calls(paced, [f"o {path}", "p", "c"] * 3) == once * 3


def test_another_library_takes_the_place_of_a_closed_one(paced: Paced, tmp_path: Path) -> None:
    """The library at the same place has other code; nothing written into the first is looked for in the second."""
    first, second = library(tmp_path / "plug-a.so"), library(tmp_path / "plug-b.so", "-O2")
    commands = [f"o {first}", "p", "c", f"o {second}", "p", "c", f"o {first}", "p"]
    found = calls(paced, commands)
    assert [name for name in found if name in ("begin", "plugged", "end")] == [
        *("begin", "plugged", "end"), *("begin", "plugged", "end"), *("begin", "plugged"),
    ]  # fmt: skip


def test_a_library_is_closed_after_the_end_of_the_trace(paced: Paced, tmp_path: Path) -> None:
    path = library(tmp_path / "plug.so")
    assert calls(paced, [f"o {path}"]) == OPENED
    paced.do("p")
    paced.do("c")


def test_many_libraries_are_opened_one_after_the_other(paced: Paced, tmp_path: Path) -> None:
    paths = [library(tmp_path / f"plug{n}.so", f"-Wl,-soname,plug{n}.so") for n in range(8)]
    commands = [command for path in paths for command in (f"o {path}", "p")]
    assert calls(paced, commands) == [*OPENED, "plugged"] * 8


def test_a_static_program_is_traced() -> None:
    with Paced("-static") as paced:
        assert calls(paced, ["a 2"], start="call:alpha:2") == alpha(1)


def test_libraries_out_of_scope_are_not_followed(paced: Paced, tmp_path: Path) -> None:
    path = library(tmp_path / "other.so")
    assert calls(paced, [f"o {path}", "p", "a 1"]) == ["repeat", *alpha(1)]
