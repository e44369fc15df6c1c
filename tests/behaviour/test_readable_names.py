# SPDX-License-Identifier: LGPL-2.1-or-later
"""C++ names as in the source, in all commands: accepted when typed, shown in reports, and shown as the linker has
them on request. The program calls one overload ten times, the other five times."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.harness import run_gilk
from tests.programs.build import build
from tests.seldom import seldom

Environment = dict[str, str]
LINKED = "_ZN2ns6Engine6updateEi"
SHOWN = "ns::Engine::update(int)"


@pytest.fixture(scope="module")
def program() -> str:
    return str(build("names", "O1"))


@pytest.fixture
def gilk(gilk_on_path: Environment, tmp_path: Path) -> Any:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        done = run_gilk(*arguments, env=gilk_on_path, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_run_counts_each_overload(gilk: Any, program: str) -> None:
    done = gilk("run", "-i", "update:entry=count", "--", program)
    rows = [line.split(None, 1) for line in done.stderr.splitlines() if ":entry" in line]
    assert [(count, point.startswith("names:ns::Engine::update(")) for count, point in rows] == [
        ("10", True),
        ("5", True),
    ]
    assert f"names:{SHOWN}:entry" in done.stderr and "_Z" not in done.stderr
    mangled = gilk("run", "--mangled", "-i", "update:entry=count", "--", program)
    assert f"names:{LINKED}:entry" in mangled.stderr and SHOWN not in mangled.stderr


def test_json_has_readable_names_and_linker_names(gilk: Any, program: str) -> None:
    told = json.loads(
        gilk("run", "--json", "-i", "ns::Engine::update(int):entry=count", "--", program).stdout.splitlines()[-1]
    )
    assert told["counts"] == {f"names:{LINKED}:entry": 10}
    assert told["names"] == {LINKED: SHOWN}


def test_a_trace_starts_and_stops_at_readable_names(gilk: Any, program: str) -> None:
    gilk(
        "trace",
        "--start",
        "call:ns::all",
        "--stop",
        "return:ns::all",
        "--scope",
        "names:ns::*",
        "-o",
        "t.parquet",
        "--",
        program,
    )
    tree = gilk("show", "--tree", "t.parquet").stdout
    lines = (line.split(None, 3)[2:] for line in tree.splitlines()[2:])
    rows = {re.sub(r" \(\S+:\d+\)$", "", name.strip()): calls for calls, name in lines}
    assert rows[SHOWN] == "10" and rows["ns::all()"] == "1" and rows["ns::Base::Base(int)"] == "2"
    assert SHOWN in gilk("show", "--table", "t.parquet").stdout
    assert f"ns::all();{SHOWN} " in gilk("export", "t.parquet", "--to", "folded", "-o", "-").stdout
    assert LINKED in gilk("export", "t.parquet", "--to", "csv", "-o", "-").stdout
    assert LINKED in gilk("show", "--mangled", "--tree", "t.parquet").stdout
    told = json.loads(gilk("show", "--tree", "--json", "t.parquet").stdout)
    assert told["names"][LINKED] == SHOWN and LINKED in json.dumps(told["tree"])
    same = gilk("diff", "t.parquet", "t.parquet", "--json").stdout
    assert json.loads(same)["same"]
    assert SHOWN in gilk("show", "t.parquet").stdout


def test_a_skipped_function_is_not_followed(gilk: Any, program: str) -> None:
    gilk("trace", "--scope", "names:ns::*", "--skip", "names:update", "-o", "t.parquet", "--", program)
    tree = gilk("show", "--tree", "t.parquet").stdout
    assert "ns::all()" in tree and "update" not in tree


def test_probefunc_and_stacks_of_d(gilk: Any, program: str) -> None:
    text = "pid$target:a.out:ns::Engine::update:entry { @[probefunc, ustack(2)] = count(); }"
    told = gilk("dtrace", "-q", "-n", text, "-c", program).stdout
    lines = [line.strip() for line in told.splitlines()]
    assert lines.index(f"names`{SHOWN}") == lines.index(SHOWN) + 1
    assert lines[lines.index(f"names`{SHOWN}") + 1].startswith("names`ns::all()+0x") and "10" in lines
    guarded = f'pid$target:a.out:update:entry /probefunc == "{SHOWN}"/ {{ @ = count(); }}'
    assert gilk("dtrace", "-q", "-n", guarded, "-c", program).stdout.split()[-1] == "10"
    plain = gilk(
        "dtrace", "-q", "--mangled", "-n", "pid$target::update:entry { @[probefunc] = count(); }", "-c", program
    )
    assert [LINKED, "10"] in [line.split() for line in plain.stdout.splitlines()]


def test_each_variant_of_a_destructor_is_a_probe(gilk: Any, program: str) -> None:
    """Destructors have two variants, and both are called."""
    listed = gilk("dtrace", "-l", "-n", "pid$target:a.out:ns::Base::?Base:entry", "-c", program).stdout
    assert listed.count("ns::Base::~Base()") == 2


def test_graphs_and_scans_show_readable_names(gilk: Any, program: str) -> None:
    text = gilk("cfg", program, "ns::all").stdout
    assert text.startswith("names:ns::all()  ") and "also called _ZN2ns3allEv" in text and f"; {SHOWN}" in text
    assert "ns::all()" in gilk("cfg", "--dot", program, "ns::all").stdout
    told = json.loads(gilk("cfg", "--json", program, "ns::all").stdout)
    assert told["function"] == "_ZN2ns3allEv" and told["names"]["_ZN2ns3allEv"] == "ns::all()"
    assert SHOWN in gilk("scan", "-v", program, "ns::*").stdout
    rows = json.loads(gilk("scan", "-v", "--json", program, "update").stdout)
    assert LINKED in {row["function"] for row in rows["list"]} and rows["names"][LINKED] == SHOWN


def test_a_scan_says_once_that_a_program_is_stripped(gilk: Any, program: str, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run(["objcopy", "--strip-all", program, bare], check=True)
    said = "bare is stripped: functions are called sub_ADDRESS"
    assert gilk("scan", str(bare)).stdout.count(said) == 1 and said not in gilk("scan", program).stdout
    assert gilk("run", "-i", "*:entry=count", "--", str(bare)).stderr.count(said) == 1
    traced = gilk("trace", "--scope", "bare:", "-o", "t.parquet", "--", str(bare)).stderr
    assert traced.count(said) == 1 and "debuginfod-find" in traced
    told = json.loads(gilk("scan", "--json", str(bare)).stdout)
    assert told["images"][0]["stripped"] is True


def test_debug_files_that_debuginfod_fetched_are_found(
    gilk: Any, program: str, tmp_path: Path, gilk_on_path: Environment
) -> None:
    identified, bare = tmp_path / "identified", tmp_path / "bare"
    subprocess.run(["g++", "-g", "-O1", "-Wl,--build-id=0xabcdef0123", str(Path("tests/programs/bare/names.cpp").resolve()),
                    "-o", identified], check=True)  # fmt: skip
    subprocess.run(["objcopy", "--strip-all", identified, bare], check=True)
    place = tmp_path / "fetched" / "abcdef0123" / "debuginfo"
    place.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", identified, place], check=True)
    gilk_on_path["DEBUGINFOD_CACHE_PATH"] = str(tmp_path / "fetched")
    try:
        assert gilk("run", "-i", f"{SHOWN}:entry=count", "--", str(bare)).stderr.count("   10  bare:ns::Engine") == 1
    finally:
        del gilk_on_path["DEBUGINFOD_CACHE_PATH"]


INLINED = """
#include <cstdio>
namespace ns {
struct Box {
    __attribute__((always_inline)) inline int gone(int by) { asm volatile("" ::: "memory"); return n += by; }
    int n = 0;
};
static inline int often(int by) { asm volatile("" ::: "memory"); return by * 3; }
int (*kept)(int) = often;
__attribute__((noinline)) int one(Box &box) { return box.gone(1) + often(2); }
__attribute__((noinline)) int two(Box &box) { return box.gone(2) + box.gone(3); }
}
int main() { ns::Box box; printf("%d\\n", ns::one(box) + ns::two(box) + ns::kept(4)); }
"""


@pytest.mark.parametrize(
    "names", seldom([(("ns::Box::gone", "gone"),), (("Box::gone", "ns::Box::gone(int)"),)], 1), ids=" ".join
)
def test_inlined_functions_are_reported_by_readable_names(
    gilk_on_path: Environment, tmp_path: Path, names: tuple[str, ...]
) -> None:
    (tmp_path / "boxes.cpp").write_text(INLINED)
    subprocess.run(["g++", "-g", "-O2", "boxes.cpp", "-o", "boxes"], cwd=tmp_path, check=True)
    program = str(tmp_path / "boxes")

    def run(what: str) -> subprocess.CompletedProcess[str]:
        return run_gilk("run", "-v", "-i", what, "--", program, env=gilk_on_path)

    for name in names:
        gone = run(f"{name}:return=stamp")
        assert gone.returncode == 2 and "it is inlined in 3 places (" in gone.stderr, gone.stderr
        assert "ns::one(ns::Box&):+0x" in gone.stderr and "ns::two(ns::Box&):+0x" in gone.stderr
        counted = run(f"{name}:entry=count").stderr
        assert counted.count(f"boxes:{name}:entry (inlined at ns::two(ns::Box&):+0x") == 2, counted
    also = run("ns::often:return=stamp")
    assert also.returncode == 0
    assert "ns::often of boxes is also inlined in 1 place (ns::one(ns::Box&):+0x" in also.stderr
    both = run("ns::often:entry=count").stderr
    assert "boxes:ns::often(int):entry (inlined at ns::one(ns::Box&):+0x" in both, both
