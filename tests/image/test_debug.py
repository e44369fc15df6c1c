# SPDX-License-Identifier: LGPL-2.1-or-later
"""Symbols that are kept in a file apart from the program, and its build id."""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gilk.image import debug
from gilk.image.elf import load
from gilk.image.model import Image


def split(program: Path, folder: Path, *flags: str) -> tuple[Path, Path]:
    """A stripped copy of ``program`` and its debug file, in ``folder``."""
    bare, apart = folder / "bare", folder / "bare.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, apart], check=True)
    subprocess.run(["objcopy", "--strip-all", *flags, program, bare], check=True)
    return bare, apart


def link(bare: Path, apart: Path) -> None:
    subprocess.run(["objcopy", f"--add-gnu-debuglink={apart.name}", bare.name], cwd=bare.parent, check=True)


def sources_of(image: Image, name: str) -> set[str]:
    return {span.source for span in image.spans if span.name == name}


@pytest.fixture
def program(build: Callable[..., Path], sources: dict[str, str]) -> Path:
    return build(sources["small"], "-g", "-Wl,--build-id=sha1")


@pytest.fixture
def unidentified(build: Callable[..., Path], sources: dict[str, str]) -> Path:
    return build(sources["small"], "-g", "-Wl,--build-id=none")


def test_the_build_id_is_readelfs(system_file: Path, oracle: Callable[..., str]) -> None:
    (expected,) = re.findall(r"Build ID: ([0-9a-f]+)", oracle("readelf", "-n", system_file))
    assert load(system_file).build_id == expected


def test_a_program_without_build_id_has_a_digest(unidentified: Path) -> None:
    digest = hashlib.sha256(unidentified.read_bytes()).hexdigest()
    assert load(unidentified).build_id == f"sha256-{digest}"


def test_debug_file_by_build_id(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare, apart = split(program, tmp_path)
    assert not sources_of(load(bare), "twice")
    identity = load(bare).build_id
    place = tmp_path / ".build-id" / identity[:2] / f"{identity[2:]}.debug"
    place.parent.mkdir(parents=True)
    apart.rename(place)
    monkeypatch.setattr(debug, "ROOT", tmp_path)
    assert sources_of(load(bare), "twice") == {"debug"}
    assert {(s.start, s.end, s.name) for s in load(bare).spans} == {
        (s.start, s.end, s.name) for s in load(program).spans
    }


@pytest.mark.parametrize("folder", [".", ".debug"])
def test_debug_file_by_link(folder: str, unidentified: Path, tmp_path: Path) -> None:
    bare, apart = split(unidentified, tmp_path)
    link(bare, apart)
    (tmp_path / folder).mkdir(exist_ok=True)
    moved = apart.rename(tmp_path / folder / apart.name)
    assert sources_of(load(bare), "twice") == {"debug"}
    with moved.open("ab") as file:
        file.write(b"changed")
    assert not sources_of(load(bare), "twice"), "the CRC no longer matches"


def test_debug_file_below_the_root(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare, apart = split(program, tmp_path)
    link(bare, apart)
    root = tmp_path / "root"
    place = root / tmp_path.relative_to("/")
    place.mkdir(parents=True)
    apart.rename(place / apart.name)
    monkeypatch.setattr(debug, "ROOT", root)
    assert sources_of(load(bare), "twice") == {"debug"}


def test_a_debug_file_of_another_build_is_not_used(
    program: Path, build: Callable[..., Path], sources: dict[str, str], tmp_path: Path
) -> None:
    bare, apart = split(program, tmp_path)
    link(bare, apart)
    (tmp_path / "other").mkdir()
    _, other = split(build(sources["small"], "-g", "-O1", "-Wl,--build-id=sha1"), tmp_path / "other")
    other.rename(apart)
    assert not sources_of(load(bare), "twice")


def test_symbols_in_gnu_debugdata(program: Path, tmp_path: Path) -> None:
    bare, apart = split(program, tmp_path)
    (tmp_path / "mini.xz").write_bytes(lzma.compress(apart.read_bytes()))
    apart.unlink()
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={tmp_path / 'mini.xz'}", bare], check=True)
    assert sources_of(load(bare), "twice") == {"debug"}


@pytest.mark.parametrize("content", [b"", b"\xfd7zXZ\0", b"junk" * 10, lzma.compress(b"not an ELF file")])
def test_a_broken_gnu_debugdata_is_left_out(content: bytes, program: Path, tmp_path: Path) -> None:
    bare, _ = split(program, tmp_path)
    (tmp_path / "mini.xz").write_bytes(content)
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={tmp_path / 'mini.xz'}", bare], check=True)
    assert load(bare).spans


def test_a_fifo_in_place_of_a_debug_file_does_not_block(program: Path, tmp_path: Path) -> None:
    bare, apart = split(program, tmp_path)
    link(bare, apart)
    apart.unlink()
    os.mkfifo(apart)
    assert not sources_of(load(bare), "twice")
