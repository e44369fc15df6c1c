# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names as in the source: they agree with c++filt and LLVM, in any number, and hostile files do no harm."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.image import demangle

LIBRARY = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"
#: Names of Rust, old and new, and their meanings by rustc's reference manual.
RUST = {
    "_RNvC6_123foo3bar": "123foo::bar",
    "_RNvNtCs1234_7mycrate3foo3bar": "mycrate::foo::bar",
    "_RINvNtC3std3mem8align_ofjdE": "std::mem::align_of::<usize, f64>",
    "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE": "core::fmt::Formatter::pad",
    "_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE":
        "<alloc::string::String as core::fmt::Display>::fmt",
}  # fmt: skip
#: A template of two arguments, each of which is the one before it, forty times over: a gigabyte of letters.
BOMB = "_Z1f1AIiiE" + "".join(f"S_IS{n}_S{n}_E" for n in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")


@pytest.fixture(scope="module")
def mangled() -> list[str]:
    done = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True)
    found = {line.split()[-1].partition("@")[0] for line in done.stdout.splitlines()}
    return sorted(name for name in found if name.startswith("_Z"))


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    yield
    demangle.show_mangled(False)


def test_each_name_of_a_library_is_demangled_as_cxxfilt_does(mangled: list[str]) -> None:
    assert len(mangled) > 4000
    told = [subprocess.run(["c++filt", "-i", *mangled[n : n + 500]], capture_output=True, text=True, check=True).stdout
            for n in range(0, len(mangled), 500)]  # fmt: skip
    assert demangle.demangled(mangled) == "".join(told).splitlines()


def test_names_without_parameters_are_demangled_as_cxxfilt_does(mangled: list[str]) -> None:
    some = mangled[:500]
    told = subprocess.run(["c++filt", "-i", "-p", *some], capture_output=True, text=True, check=True).stdout
    assert demangle.without_parameters(some) == told.splitlines()


@pytest.mark.parametrize("name", RUST)
def test_names_of_rust_are_demangled(name: str) -> None:
    assert demangle.readable(name) == RUST[name]


def test_names_that_are_not_mangled_stay_unchanged() -> None:
    for name in ("main", "_Z", "_Zzz", "__Z1fv", "sub_4010", "_R", "", "_Z1fv\n_Z1gv", "_Z1f v", "µ_Z1fv"):
        assert demangle.readable(name) == name


def test_names_within_a_text_are_demangled() -> None:
    assert demangle.readable_in("a.so:_ZN2ns1fEi.cold:@3:pre, x_Z1fv") == "a.so:ns::f(int) [clone .cold]:@3:pre, x_Z1fv"
    assert demangle.readable_names(["_Z1fv of a", "_Z1gi+0x10", "main", "_Zno"]) == {"_Z1fv": "f()", "_Z1gi": "g(int)"}


def test_linker_names_are_kept_on_request() -> None:
    demangle.show_mangled(True)
    assert demangle.readable("_Z1fv") == "_Z1fv" and demangle.readable_in("_Z1fv:entry") == "_Z1fv:entry"
    assert demangle.readable_names(["_Z1fv"]) == {"_Z1fv": "f()"}


def test_a_name_whose_demangling_is_a_gigabyte_stays_mangled_and_others_do_not() -> None:
    names = demangle._Names("-i")
    assert names.of(["_Z1av", BOMB, "_Z1bv"]) == ["a()", BOMB, "b()"]
    assert names.of(["_Z1cv"]) == ["c()"]


def test_many_names_of_huge_demangling_are_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The author of such names gains only some seconds."""
    started = tmp_path / "started"
    slow = tmp_path / "c++filt"
    slow.write_text(f"#!/bin/sh\necho >> {started}\nexit 1\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    names = demangle._Names("-i")
    wanted = [f"_Z1{letter}v" for letter in "abcdefghij"]
    assert names.of(wanted) == wanted
    assert len(started.read_text().splitlines()) == demangle._MOST_FAILURES


def test_without_cxxfilt_names_stay_mangled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not demangle.available()
    assert demangle._Names("-i").of(["_Z1fv"]) == ["_Z1fv"]


def test_a_forked_child_starts_its_own_cxxfilt() -> None:
    """Two processes that share one c++filt would get answers to each other's questions."""
    names = demangle._Names("-i")
    assert names.of(["_Z1av"]) == ["a()"]
    child = os.fork()
    if child == 0:
        os._exit(0 if names.of([f"_Z{len(n)}{n}v" for n in ("b", "bb")]) == ["b()", "bb()"] else 1)
    assert names.of([f"_Z{len(n)}{n}v" for n in ("c", "cc")]) == ["c()", "cc()"]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
