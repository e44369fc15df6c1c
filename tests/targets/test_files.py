# SPDX-License-Identifier: LGPL-2.1-or-later
"""The mapped files of a process can be named, and read, whatever has become of them."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

import gilk.targets.files
from gilk.image.elf import load
from gilk.targets.files import Files
from gilk.targets.maps import read_maps
from tests.behaviour.harness import mortal
from tests.programs.build import build


def test_facts_of_mapped_files_agree_with_whole_images() -> None:
    with mortal([build("hot8")]) as program:
        pid = program.pid
        files = Files(pid)
        for loaded in files.loaded(read_maps(pid)):
            segments = files.image(loaded.path).segments
            assert loaded.start == min(s.address for s in segments) + loaded.bias
            assert loaded.end == max(s.address + s.size for s in segments) + loaded.bias
            assert files.image(loaded.path).spans == load(loaded.path).spans
        files.close()


def test_a_mapped_file_can_be_read_after_it_was_removed(tmp_path: Path) -> None:
    copy = tmp_path / "program"
    shutil.copy(build("hot8"), copy)
    with mortal([copy]) as program:
        files = Files(program.pid)
        main = files.loaded(read_maps(program.pid))[0]
    copy.unlink()
    assert is_open(copy)
    assert files.image(main.path).spans == load(build("hot8")).spans
    files.close()
    assert not is_open(copy)


def test_a_process_that_is_about_to_end_has_no_images() -> None:
    """The kernel forgets its program before its mappings are gone, which may have been read before."""
    with mortal([build("hot8")]) as program:
        files, maps = Files(program.pid), read_maps(program.pid)
        assert files.loaded(maps)
        program.kill()
        os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
        assert files.loaded(maps) == ()
        files.close()


def is_open(path: Path) -> bool:
    """Whether this process has the file open; no other test uses that name."""
    links = []
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the directory itself
            links.append(os.readlink(fd))
    return any(link.startswith(f"{path}") for link in links)


def test_the_number_of_open_files_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gilk.targets.files, "_MOST_OPEN", 1)
    with mortal([build("hot8")]) as program:
        pid = program.pid
        files = Files(pid)
        assert len(files.loaded(read_maps(pid))) > 2
        assert len(files.descriptors) == 1
        files.close()
