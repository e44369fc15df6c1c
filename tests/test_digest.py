# SPDX-License-Identifier: LGPL-2.1-or-later
"""The stamp of a file changes whenever its content may have changed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from gilk.digest import digest, stamp


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("one")
    return path


def test_an_unchanged_file_keeps_its_stamp(file: Path) -> None:
    before = stamp([file])
    file.read_text()
    assert stamp([file]) == before


def test_a_write_with_its_time_put_back_changes_the_stamp(file: Path) -> None:
    before, state = stamp([file]), file.stat()
    file.write_text("two")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert stamp([file]) != before


def test_a_replaced_file_changes_the_stamp(file: Path, tmp_path: Path) -> None:
    before, state = stamp([file]), file.stat()
    other = tmp_path / "other"
    other.write_text("two")
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    other.replace(file)
    assert stamp([file]) != before


def test_a_missing_file_has_no_stamp(file: Path) -> None:
    file.unlink()
    with pytest.raises(FileNotFoundError):
        stamp([file])


def test_a_digest_is_the_standard_librarys() -> None:
    assert digest(b"gilk").digest() == hashlib.blake2b(b"gilk", digest_size=32).digest()
