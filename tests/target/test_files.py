# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a process has mapped can be told, and read, whatever has become of its files."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gilk.target.files
from gilk.image.elf import load
from gilk.target.files import Files
from gilk.target.maps import read_maps


@contextmanager
def running(program: Path) -> Iterator[int]:
    process = subprocess.Popen([program], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    try:
        while str(program) not in {mapping.path for mapping in read_maps(process.pid)}:
            assert process.poll() is None
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def test_it_says_what_whole_images_say() -> None:
    with running(Path(shutil.which("cat") or "")) as pid:
        files = Files(pid)
        for loaded in files.loaded(read_maps(pid)):
            segments = files.image(loaded.path).segments
            assert loaded.start == min(s.address for s in segments) + loaded.bias
            assert loaded.end == max(s.address + s.size for s in segments) + loaded.bias
            assert files.image(loaded.path).spans == load(loaded.path).spans
        files.close()


def test_what_is_removed_after_it_was_seen_can_be_read_still(tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy(shutil.which("cat") or "", program)
    before = len(os.listdir("/proc/self/fd"))
    with running(program) as pid:
        files = Files(pid)
        main = files.loaded(read_maps(pid))[0]
    program.unlink()
    assert files.image(main.path).spans == load(Path(shutil.which("cat") or "")).spans
    files.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_more_are_open_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gilk.target.files, "_MOST_OPEN", 1)
    with running(Path(shutil.which("cat") or "")) as pid:
        files = Files(pid)
        assert len(files.loaded(read_maps(pid))) > 2
        assert len(files.descriptors) == 1
        files.close()
