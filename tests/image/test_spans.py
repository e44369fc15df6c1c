# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions: disjoint, complete, and well named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gilk.image.elf import load
from gilk.image.extents import Extents
from gilk.image.model import ElfSymbol, FrameDescription, FunctionSpan, SymbolKind
from gilk.image.spans import Named, spans

TEXT = Extents(((0x1000, 0x2000),))


def symbol(
    name: str, start: int, size: int = 0, kind: str = "func", exported: bool = False, local: bool = False
) -> Named:
    return ElfSymbol(name, start, size, SymbolKind(kind), exported, local), "dynsym" if exported else "symtab"


def frame(start: int, end: int, signal: bool = False) -> FrameDescription:
    return FrameDescription(start, end, (), signal)


def extents(
    named: list[Named], frames: list[FrameDescription], resolvers: tuple[int, ...] = (), code: Extents = TEXT
) -> list[object]:
    return [(span.name, span.start, span.end) for span in spans(named, frames, resolvers, code)]


def test_spans_are_sorted_disjoint_and_executable(system_file: Path) -> None:
    image = load(system_file)
    assert image.spans
    for span, following in zip(image.spans, image.spans[1:], strict=False):
        assert span.start < span.end <= following.start
    code = [(s.address, s.address + s.size) for s in image.sections if s.executable]
    assert all(any(low <= span.start and span.end <= high for low, high in code) for span in image.spans)


def test_every_function_symbol_and_every_frame_is_in_a_span(system_file: Path) -> None:
    image = load(system_file)
    plt = [(s.address, s.address + s.size) for s in image.sections if s.name in (".plt", ".plt.got", ".plt.sec")]
    names: dict[int, set[str]] = {span.start: {span.name, *span.aliases} for span in image.spans}
    for s in image.symbols:
        if s.kind in (SymbolKind.FUNC, SymbolKind.IFUNC):
            assert s.name in names[s.address], s
    for f in image.frames:
        if not any(low <= f.start < high for low, high in plt):
            assert image.span_at(f.end - 1), f"{f.start:#x}"


@pytest.mark.parametrize("flags", [(), ("-static",), ("-no-pie",)])
def test_stripping_keeps_the_extents(
    flags: tuple[str, ...], build: Callable[..., Path], sources: dict[str, str]
) -> None:
    whole, bare = load(build(sources["small"], *flags)), load(build(sources["small"], "-s", *flags))
    known = {(span.start, span.end) for span in whole.spans}
    framed = {(f.start, f.end) for f in bare.frames} & known
    assert framed
    assert framed <= {(span.start, span.end) for span in bare.spans}
    (twice,) = [span for span in whole.spans if span.name == "twice"]
    nameless = bare.span_at(twice.start)
    assert nameless == FunctionSpan(f"sub_{twice.start:x}", twice.start, twice.end, (), "eh_frame", local=True)


def test_spans_have_aliases_and_flags(build: Callable[..., Path], sources: dict[str, str]) -> None:
    image = load(build(sources["small"], "-rdynamic"))
    by_name = {span.name: span for span in image.spans}
    assert by_name["visible"].aliases == ("other_name",)
    assert by_name["visible"].exported and not by_name["visible"].local
    assert by_name["twice"].local and not by_name["twice"].exported
    assert {by_name["_start"].start, image.entry} == {image.entry}
    assert by_name["deregister_tm_clones"].end > by_name["deregister_tm_clones"].start  # of size 0, without an FDE


def test_the_best_name_is_the_exported_and_plain_one() -> None:
    group = [
        symbol("impl", 0x1000, 16, local=True),
        symbol("__read", 0x1000, 16, exported=True),
        symbol("read@@V1", 0x1000, 16),
        symbol("read", 0x1000, 16, exported=True),
    ]
    (span,) = spans(group, [], (), TEXT)
    assert (span.name, span.aliases) == ("read", ("__read", "read@@V1", "impl"))


def test_an_overlap_is_cut_at_the_next_start() -> None:
    named = [symbol("a", 0x1000, 0x30), symbol("b", 0x1020, 0x20)]
    assert extents(named, []) == [("a", 0x1000, 0x1020), ("b", 0x1020, 0x1040)]


def test_a_function_inside_another_needs_an_fde_of_its_own() -> None:
    named = [symbol("outer", 0x1000, 0x40), symbol("inner", 0x1010, 0x10)]
    assert extents(named, [frame(0x1000, 0x1040)]) == [("outer", 0x1000, 0x1040)]
    frames = [frame(0x1000, 0x1010), frame(0x1010, 0x1020)]
    assert extents(named, frames) == [("outer", 0x1000, 0x1010), ("inner", 0x1010, 0x1020)]
    sizeless = [symbol("outer", 0x1000, 0x40), symbol("inner", 0x1010)]
    assert extents(sizeless, frames) == [("outer", 0x1000, 0x1010), ("inner", 0x1010, 0x1020)]


def test_a_label_inside_a_function_is_no_function() -> None:
    named = [symbol("f", 0x1000, 0x40), symbol("label", 0x1010, 0, "notype")]
    assert extents(named, [frame(0x1000, 0x1040)]) == [("f", 0x1000, 0x1040)]
    assert extents(named, [frame(0x1000, 0x1010), frame(0x1010, 0x1040)]) == [("f", 0x1000, 0x1040)]


def test_a_label_that_an_fde_confirms_is_a_function() -> None:
    named = [symbol("start", 0x1000, 0, "notype"), symbol("other", 0x1100, 0, "notype")]
    assert extents(named, [frame(0x1000, 0x1018)]) == [("start", 0x1000, 0x1018)]


def test_a_function_without_size_reaches_to_the_next_or_to_the_end() -> None:
    named = [symbol("a", 0x1000), symbol("b", 0x1100)]
    assert extents(named, [frame(0x1180, 0x1200)]) == [
        ("a", 0x1000, 0x1100),
        ("b", 0x1100, 0x1180),
        ("sub_1180", 0x1180, 0x1200),
    ]
    assert extents(named[:1], []) == [("a", 0x1000, 0x2000)]


def test_padding_before_a_function_is_no_function() -> None:
    assert extents([symbol("f", 0x1010, 0x20)], [frame(0x1005, 0x1030)]) == [("f", 0x1010, 0x1030)]


def test_a_signal_trampoline_begins_after_the_byte_for_unwinders() -> None:
    assert extents([], [frame(0x103F, 0x1049, signal=True)]) == [("sub_1040", 0x1040, 0x1049)]


def test_an_unnamed_resolver_is_an_ifunc() -> None:
    (span,) = spans([], [frame(0x1000, 0x1010)], (0x1000,), TEXT)
    assert span.ifunc
    assert extents([], [frame(0x1000, 0x1010)], (0x1020,)) == [
        ("sub_1000", 0x1000, 0x1010),
        ("sub_1020", 0x1020, 0x2000),
    ]


def test_symbols_outside_of_code_are_left_out() -> None:
    named = [symbol("far", 1 << 63, 16), symbol("long", 0x1FF0, 1 << 62)]
    assert extents(named, [frame(0x0FF0, 0x1010), frame(0x2000, 0x2010)]) == [("long", 0x1FF0, 0x2000)]
