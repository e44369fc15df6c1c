# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions by the names that people type agree with gdb; near names are suggested for those that do not exist."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gilk.errors import UsageError
from gilk.image import demangle
from gilk.image.elf import load
from gilk.image.lookup import SourceName, goes_by, matching, spans
from gilk.image.model import FunctionSpan, Image
from tests.programs.build import build


@cache
def image() -> Image:
    return load(build("names", "O1"))


@cache
def told_by_gdb() -> dict[int, str]:
    """Address and name of each function."""
    program = str(build("names", "O1"))
    done = subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    starts = {int(row[0], 16) for row in rows if row[1] in "tTwW"}
    asked = [word for start in sorted(starts) for word in ("-ex", f"info symbol {start:#x}")]
    told = subprocess.run(["gdb", "-batch", "-nx", *asked, program], capture_output=True, text=True).stdout
    names = [line.rpartition(" in section ")[0] for line in told.splitlines()]
    return dict(zip(sorted(starts), names, strict=True))


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("ns::Engine::update", r"ns::Engine::update\(.*"),
        ("update", r"ns::Engine::update\(.*"),
        ("Engine::update", r"ns::Engine::update\(.*"),
        ("ns::Engine::update(int)", r"ns::Engine::update\(int\)"),
        ("ns::*date", r"ns::Engine::update\(.*"),
        ("ns::twice", r".* ns::twice<.*"),
        ("twice<long>", r".* ns::twice<long>.*"),
        ("ns::Engine::operator==", r"ns::Engine::operator==.*"),
        ("hidden", r".*::hidden\(int\)"),
        ("Engine::~Engine", r"ns::Engine::~Engine\(\)"),
        ("ns::Base::*", r"ns::Base::.*"),
    ],
)
def test_functions_of_a_name_are_those_of_gdb(typed: str, name: str) -> None:
    expected = {start for start, called in told_by_gdb().items() if re.fullmatch(name, called)}
    assert expected and {span.start for span in spans(image(), typed)} == expected


def forms(linked: str) -> list[str]:
    whole, plain = demangle.demangled((linked,))[0], demangle.without_parameters((linked,))[0]
    name = SourceName(whole, plain)
    return [*name.forms, *name.ends] if whole != linked else []


def test_a_function_goes_by_each_of_the_forms_of_its_name() -> None:
    """Names that lack a word of what was typed are not demangled: the words of all forms are in the mangled names of
    the standard library, except where a code of the ABI stands for them."""
    library = load(Path("/usr/lib/x86_64-linux-gnu/libstdc++.so.6"))
    mangled = [name for span in library.spans[::7] for name in (span.name, *span.aliases) if demangle.is_mangled(name)]
    typed = {(name, form) for name in mangled for form in forms(name)}
    assert len(typed) > 1000
    assert not [(name, form) for name, form in typed if not goes_by(name, form)]


def test_a_linker_name_names_one_function_alone() -> None:
    (span,) = spans(image(), "_ZN2ns6Engine6updateEi")
    assert demangle.readable(span.name) == "ns::Engine::update(int)"
    assert [span.name for span in spans(image(), "main")] == ["main"]


@pytest.mark.parametrize("typed", ["ns::Engine::updat", "updaet", "Engine::updte"])
def test_an_unknown_name_suggests_similar_names(typed: str) -> None:
    with pytest.raises(UsageError) as caught:
        spans(image(), typed)
    assert caught.value.slug == "no-such-function" and "ns::Engine::update" in caught.value.hint
    assert not matching(image(), typed)


@pytest.mark.parametrize(
    ("plain", "ends"),
    [
        ("ns::f", {"f"}),
        ("a::b<c::d>::operator<", {"b<c::d>::operator<", "operator<", "b::operator<"}),
        ("ns::(anonymous namespace)::f[abi:cxx11]", {"(anonymous namespace)::f", "f"}),
        ("<a::T as b::Trait>::fmt", {"T::fmt", "fmt"}),
        ("<a::V<b::T>>::push", {"V::push", "push", "V<b::T>::push"}),
        ("non-virtual thunk to ns::f", set()),
    ],
)
def test_names_are_split_into_their_parts(plain: str, ends: set[str]) -> None:
    found = set(SourceName(f"{plain}()", plain).ends)
    assert ends <= found if ends else not found
    assert not any(end.startswith(("d>", ":")) for end in found)


def test_a_rust_method_is_also_found_by_its_type() -> None:
    assert "a::T::fmt" in SourceName("x", "<a::T as b::Trait>::fmt").forms
    assert "a::V::push" in SourceName("x", "<a::V<b::T>>::push").forms


def test_suggested_names_of_rust_have_their_types() -> None:
    span = FunctionSpan("_RNvMs1_NtCs1_4core3fmtNtB5_9Formatter3pad", 16, 32, (), "symtab")
    assert demangle.readable(span.name) == "<core::fmt::Formatter>::pad"
    with pytest.raises(UsageError) as caught:
        spans(replace(image(), spans=(span,)), "core::fmt::Formatter::pat")
    assert "core::fmt::Formatter::pad" in caught.value.hint


def test_a_function_is_found_by_any_of_its_names() -> None:
    first = FunctionSpan("__memcpy", 16, 32, ("memcpy",), "symtab")
    both = replace(image(), spans=(first, FunctionSpan("strlen", 32, 48, (), "symtab")))
    assert matching(both, "mem*") == matching(both, "memcpy") == [first]
    assert matching(both, "*") == list(both.spans) and not matching(both, "str")


def test_a_cold_part_is_not_found_by_the_functions_name() -> None:
    whole, cold = (FunctionSpan(name, at, at + 8, (), "symtab") for at, name in enumerate(("_Z1fi", "_Z1fi.cold")))
    both = replace(image(), spans=(whole, cold))
    assert matching(both, "f") == matching(both, "f(int)") == [whole]
    assert matching(both, "f.cold") == [cold] and matching(both, "f*") == [whole, cold]


def test_an_image_without_any_function_is_said_to_be_stripped() -> None:
    with pytest.raises(UsageError) as caught:
        spans(replace(image(), spans=()), "*")
    assert "is stripped, and has no unwind tables" in caught.value.hint
