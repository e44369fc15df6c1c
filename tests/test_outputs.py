# SPDX-License-Identifier: LGPL-2.1-or-later
"""Output to things other than plain files, and to files that exist already, does what users expect."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from gilk.errors import StoreError
from gilk.outputs import replaceable
from gilk.render import output
from gilk.trace.about import About
from gilk.trace.clock import Clock
from gilk.trace.samples import schema
from gilk.trace.store import Writer


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """A reader that has the old file open goes on reading it."""
    path = tmp_path / "out"
    path.write_text("old")
    with path.open() as old:
        output.write(path, ["new"])
        assert (old.read(), path.read_text()) == ("old", "new")
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_replaced_by_the_file(tmp_path: Path, there: bool) -> None:
    """The file that the link led to stays as it was; if there was none, none is created."""
    other, path = tmp_path / "other", tmp_path / "out"
    if there:
        other.write_text("kept")
    path.symlink_to(other)
    output.write(path, ["new"])
    assert not path.is_symlink() and path.read_text() == "new"
    assert other.exists() == there and (not there or other.read_text() == "kept")


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    assert output.write(path, ["to whom ", "it concerns"]) == 19
    reader.join(60)
    assert got == [b"to whom it concerns"]
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_device_is_written_to() -> None:
    assert output.write(Path("/dev/null"), ["nothing"]) == 7
    assert not Path("/dev/null").is_file()


def test_standard_output_named_by_its_path_is_written_to(tmp_path: Path) -> None:
    """This also holds if standard output is a file, which the output does not replace."""
    target = tmp_path / "redirected"
    with target.open("wb") as file:
        name = Path(f"/proc/self/fd/{file.fileno()}")
        assert name.is_file() and not replaceable(name)
        output.write(name, ["by name"])
    assert target.read_text() == "by name"
    assert not replaceable(Path("/dev/stdout"))


@pytest.mark.parametrize("path", ["/dev/null", "/dev/stdout", "/dev/fd/1"])
def test_samples_do_not_take_the_place_of_a_device(path: str) -> None:
    with pytest.raises(StoreError) as caught:
        Writer(Path(path), schema(set()), About("box", (), (), 0, 0, Clock(1, 2, 2.9), ()))
    assert caught.value.slug == "cannot-write"


def test_the_memory_file_system_holds_files() -> None:
    assert replaceable(Path("/dev/shm/none-of-this-name"))
