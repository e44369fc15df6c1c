# SPDX-License-Identifier: LGPL-2.1-or-later
"""FDEs and landing pads, against readelf, the compiler's own assembly, and objdump."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gilk.image.elf import load, load_bytes

FDE = re.compile(r"FDE cie=[0-9a-f]+ pc=([0-9a-f]+)\.\.([0-9a-f]+)")


def extents(oracle: Callable[..., str], path: Path) -> list[tuple[int, int]]:
    text = oracle("readelf", "-W", "--debug-dump=frames,no-follow-links", path)
    return sorted((int(start, 16), int(end, 16)) for start, end in FDE.findall(text) if start != end)


def test_every_fde_is_found(system_file: Path, oracle: Callable[..., str]) -> None:
    ours = [(frame.start, frame.end) for frame in load(system_file).frames]
    assert ours
    assert ours == extents(oracle, system_file)


@pytest.mark.parametrize(
    "flags",
    [
        ("-static",), pytest.param(("-no-pie", "-s"), marks=pytest.mark.stress),
        pytest.param(("-static-pie",), marks=pytest.mark.stress), ("-fuse-ld=gold",),
    ],
)  # fmt: skip
def test_every_fde_of_small_programs_is_found(
    flags: tuple[str, ...], build: Callable[..., Path], sources: dict[str, str], oracle: Callable[..., str]
) -> None:
    path = build(sources["throws"], *flags, language="c++")
    assert [(frame.start, frame.end) for frame in load(path).frames] == extents(oracle, path)


def test_frames_are_found_by_program_header_alone(
    build: Callable[..., Path], sources: dict[str, str], strip_sections: Callable[[bytes], bytes]
) -> None:
    path = build(sources["throws"], "-s", language="c++")
    assert load_bytes(strip_sections(path.read_bytes()), path).frames == load(path).frames


def pads_by_assembly(source: str, tmp_path: Path, *flags: str) -> tuple[Path, set[int]]:
    """Build a program. Returns it, and its landing pads by the labels of the assembly that it is made of.

    Call sites are groups of four .uleb128 after the label .LLSDACSB of a function; the third is a label relative to the
    function's, or 0. The local labels are kept in the symbol table, so that they can be looked up.
    """
    assembly, program = tmp_path / "t.s", tmp_path / "t"
    subprocess.run(["g++", "-O2", "-x", "c++", "-", "-S", "-o", assembly, *flags], input=source, text=True, check=True)
    subprocess.run(["g++", *flags, assembly, "-o", program, "-Wa,-L", "-Wl,--discard-none"], check=True)
    labels = []
    for table in re.findall(r"^\.LLSDACSB\w+:\n((?:\t\.uleb128 .*\n)+)", assembly.read_text(), re.MULTILINE):
        labels += [value.split("-")[0] for value in re.findall(r"\.uleb128 (\S+)", table)[2::4] if value != "0"]
    listing = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    places = {name: int(value, 16) for value, name in re.findall(r"^([0-9a-f]+) \w (\S+)$", listing, re.MULTILINE)}
    return program, {places[label] for label in labels}


@pytest.mark.parametrize(
    "flags",
    [
        (), pytest.param(("-no-pie", "-fno-pie"), marks=pytest.mark.stress),
        pytest.param(("-fno-reorder-blocks-and-partition",), marks=pytest.mark.stress), ("-mcmodel=large",),
    ],
)  # fmt: skip
def test_landing_pads_are_the_compilers(flags: tuple[str, ...], tmp_path: Path, sources: dict[str, str]) -> None:
    program, expected = pads_by_assembly(sources["throws"], tmp_path, *flags)
    ours = {pad for frame in load(program).frames for pad in frame.landing_pads}
    assert len(expected) >= 4
    assert ours == expected


def test_landing_pads_are_instructions(oracle: Callable[..., str]) -> None:
    path = Path("/usr/lib/x86_64-linux-gnu/libstdc++.so.6")
    pads = {pad for frame in load(path).frames for pad in frame.landing_pads}
    heads = {
        int(head, 16) for head in re.findall(r"^ *([0-9a-f]+):\t", oracle("objdump", "-d", "-w", path), re.MULTILINE)
    }
    assert len(pads) > 1000
    assert pads <= heads


def test_signal_trampolines_are_marked() -> None:
    image = load(Path("/lib/x86_64-linux-gnu/libc.so.6"))
    signals = [frame for frame in image.frames if frame.signal]
    assert signals
    for frame in signals:
        # mov $15, %rax; syscall: rt_sigreturn
        assert image.read(frame.start + 1, 9) == b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"
        assert (span := image.span_at(frame.start + 1)) is not None and span.start == frame.start + 1
