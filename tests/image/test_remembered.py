# SPDX-License-Identifier: LGPL-2.1-or-later
"""The remembered facts of a file are those that reading it again would find, and are dropped if the file changes."""

from __future__ import annotations

import mmap
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gilk.cache.place import cache_dir
from gilk.digest import state_of
from gilk.image import elf, remembered, source
from gilk.image.elf import load
from gilk.image.model import Image

LIBRARIES = ("libc.so.6", "libstdc++.so.6", "libm.so.6", "libcrypto.so.3")


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own; files may be as new and as small as a test's."""
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(source, "_TICK", -1)
    monkeypatch.setattr(remembered, "_WORTH", 0)


def afresh(path: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    with monkeypatch.context() as once:
        once.setattr(remembered, "recall", lambda key: None)
        once.setattr(remembered, "keep", lambda key, found: None)
        return load(path)


def recalled(path: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    """The image of the file, which must come from the cache; otherwise this fails."""
    with monkeypatch.context() as once:
        once.delattr(elf, "_contents")
        return load(path)


def libraries() -> list[Path]:
    folder = Path("/lib/x86_64-linux-gnu")
    return [Path(sys.executable).resolve(), *(folder / name for name in LIBRARIES if (folder / name).exists())]


@pytest.mark.parametrize("path", libraries(), ids=lambda path: path.name)
def test_a_remembered_image_equals_the_read_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(path)
    again = recalled(path, monkeypatch)
    assert again == first == afresh(path, monkeypatch)
    for one, other in zip(again.symbols, first.symbols, strict=True):
        assert (type(one), type(one.kind)) == (type(other), type(other.kind))


def test_a_changed_file_is_read_again(
    build: Callable[..., Path], sources: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other file has the same size, and the same time."""
    path = tmp_path / "program"
    shutil.copy2(build(sources["small"], "-g"), path)
    before, state = load(path), path.stat()
    name = next(span.name for span in before.spans if span.name == "main")
    content = path.read_bytes()
    assert name.encode() + b"\0" in content
    with path.open("r+b") as file:
        file.write(content.replace(b"\0main\0", b"\0niam\0"))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    after = load(path)
    assert {span.name for span in before.spans} - {span.name for span in after.spans} == {"main"}
    assert after == afresh(path, monkeypatch)


def test_a_file_changed_through_a_mapping_is_read_again(
    build: Callable[..., Path], sources: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On tmpfs stat(2) does not show it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder, "program")
        shutil.copy2(build(sources["small"], "-g"), path)
        load(path)
        state = state_of(path.stat())
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[:] = mapped[:].replace(b"\0main\0", b"\0niam\0")
        assert state_of(path.stat()) == state, "it does: this tests nothing"
        assert "main" not in {span.name for span in load(path).spans}


def test_a_file_exchanged_while_it_is_read_is_not_remembered_as_the_old_one(
    build: Callable[..., Path], sources: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner exchanges the file between the readings for the digest and for the names."""
    path = tmp_path / "program"
    shutil.copy2(build(sources["small"], "-g"), path)
    content, content_of = path.read_bytes(), remembered.content_of

    def exchanged(*given: Any) -> bytes:
        found = content_of(*given)
        path.write_bytes(content.replace(b"\0main\0", b"\0niam\0"))
        return found

    with monkeypatch.context() as once:
        once.setattr(remembered, "content_of", exchanged)
        assert "main" in {span.name for span in load(path).spans}
    after = {span.name for span in load(path).spans}
    assert "niam" in after and "main" not in after


def test_a_debug_file_that_others_can_write_to_is_not_remembered(
    build: Callable[..., Path], sources: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, bare, debug = build(sources["small"], "-g"), tmp_path / "bare", tmp_path / "bare.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program, bare], check=True)
    debug.chmod(0o666)
    assert "main" in {span.name for span in load(bare).spans}
    assert not (cache_dir() / "images").exists()
    debug.chmod(0o644)
    load(bare)
    assert "main" in {span.name for span in recalled(bare, monkeypatch).spans}


def test_the_digest_is_that_of_the_bytes_read(monkeypatch: pytest.MonkeyPatch) -> None:
    path = libraries()[0]
    load(path)
    again = recalled(path, monkeypatch)
    assert again.digest and again.content == replace(again, digest=b"").content


def test_a_debug_file_that_comes_later_is_read(
    build: Callable[..., Path], sources: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, bare, debug = build(sources["small"], "-g"), tmp_path / "bare", tmp_path / "bare.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program, bare], check=True)
    debug.rename(tmp_path / "elsewhere")
    assert "main" not in {span.name for span in load(bare).spans}
    (tmp_path / "elsewhere").rename(debug)
    assert "main" in {span.name for span in load(bare).spans}
    debug.unlink()
    assert "main" not in {span.name for span in recalled(bare, monkeypatch).spans}


def test_a_damaged_memory_of_a_file_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path("/lib/x86_64-linux-gnu/libc.so.6")
    whole = load(path)
    (kept,) = (cache_dir() / "images").iterdir()
    content = kept.read_bytes()
    chance = random.Random(1)
    for at in [*range(0, 40, 8), *(chance.randrange(len(content)) for _ in range(5))]:
        kept.write_bytes(content[:at] + bytes((content[at] ^ 0x40,)) + content[at + 1 :])
        assert load(path) == whole
    kept.write_bytes(content[: len(content) // 2])
    assert load(path) == whole


def test_a_file_that_may_change_within_a_tick_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(source, "_TICK", 2_000_000_000)
    path = tmp_path / "new"
    shutil.copy("/bin/true", path)
    load(path)
    assert not (cache_dir() / "images").exists()
