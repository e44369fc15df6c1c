# SPDX-License-Identifier: LGPL-2.1-or-later
"""Columns in the cache come back as they were, or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gilk import private
from gilk.cache import columns
from gilk.cache.columns import Columns, DamagedColumnError, Room

KEY = b"a key"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "things"


def build(room: Room) -> dict[str, Any]:
    found = room({"a": ("<i8", 1000), "b": ("u1", 3), "none": ("<i4", 0)})
    found["a"][:] = np.arange(1000)
    found["b"][:] = (1, 2, 3)
    return {"name": "thing"}


def same(found: Columns | None) -> bool:
    assert found is not None
    assert found.columns["a"].tolist() == list(range(1000))
    assert found.columns["b"].tolist() == [1, 2, 3]
    assert len(found.columns["none"]) == 0
    return found.about == {"name": "thing"}


def test_columns_are_loaded_as_they_were_made(place: Path) -> None:
    assert columns.load("things", KEY) is None
    assert same(columns.make("things", KEY, build))
    assert same(columns.load("things", KEY))
    assert columns.load("things", b"another key") is None
    assert columns.load("others", KEY) is None
    assert [each.stat().st_mode & 0o777 for each in place.iterdir()] == [0o600]
    columns.forget("things", KEY)
    assert columns.load("things", KEY) is None and not [*place.iterdir()]


def test_a_file_of_another_key_is_not_loaded(place: Path) -> None:
    columns.make("things", KEY, build)
    (file,) = place.iterdir()
    columns.make("things", b"other", build)
    (other,) = (each for each in place.iterdir() if each != file)
    os.replace(file, other)
    assert columns.load("things", b"other") is None


def test_damaged_files_are_detected(place: Path) -> None:
    """For any changed byte, and any length, nothing is returned, or an error is raised, but never other values."""
    columns.make("things", KEY, build)
    (file,) = place.iterdir()
    good, chance = file.read_bytes(), random.Random(1)
    places = [*range(64), *(chance.randrange(len(good)) for _ in range(400)), len(good) - 1]
    outcomes = set()
    for at in places:
        outcomes.add(changed(file, good[:at] + bytes([good[at] ^ 1 << chance.randrange(8)]) + good[at + 1 :]))
    for length in (0, 1, 63, 64, len(good) - 1):
        assert changed(file, good[:length]) == "none"
    assert changed(file, good + b"x") == "none"
    assert outcomes == {"none", "damaged", "same"}, "a byte between two columns is nobody's"


def changed(file: Path, data: bytes) -> str:
    file.write_bytes(data)
    found = columns.load("things", KEY)
    if found is None:
        return "none"
    try:
        return "same" if same(found) else "other"
    except DamagedColumnError:
        return "damaged"


@pytest.mark.parametrize("described", [
    {"a": [0, "O", 4, "x"]}, {"a": [1 << 60, "<i8", 1, "x"]}, {"a": [0, "<i8", 1 << 60, "x"]},
    {"a": [0, "<i8", -5, "x"]}, {"a": "text"}, {"a": [0, "no type", 1, "x"]},
    {"a": [-8, "<i8", 1, "x"]}, [], {"a": [0, None, None, None]},
])  # fmt: skip
def test_a_forged_file_with_a_valid_checksum_is_refused(place: Path, described: Any) -> None:
    """An attacker who can write there can make a seal as well, so sizes and types are checked too."""
    columns.make("things", KEY, build)
    (file,) = place.iterdir()
    text = json.dumps({"about": {}, "columns": described}).encode()
    seal = columns.digest(KEY + text).digest()
    file.write_bytes(columns._HEAD.pack(columns._MAGIC, 64, len(text), seal).ljust(64, b"\0") + text)
    found = columns.load("things", KEY)
    if found is not None:
        with pytest.raises(DamagedColumnError):
            found.columns["a"]


def test_a_link_or_a_pipe_in_place_of_the_file_is_not_followed(place: Path, tmp_path: Path) -> None:
    columns.make("things", KEY, build)
    (file,) = place.iterdir()
    os.replace(file, tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert columns.load("things", KEY) is None
    assert same(columns.make("things", KEY, build)) and not file.is_symlink()
    assert (tmp_path / "elsewhere").stat().st_size == file.stat().st_size
    file.unlink()
    os.mkfifo(file)
    assert columns.load("things", KEY) is None


def test_columns_are_made_in_memory_when_the_disk_is_full() -> None:
    """A limit on the size of files acts like a full disk: the error comes when room is asked for."""
    text = (
        "import resource, signal; from gilk.cache import columns; from tests.cache.test_columns import build, same\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "found = columns.make('things', b'a key', build)\n"
        "assert same(found) and found.why_not == 'the disk is full', found.why_not\n"
        "assert columns.load('things', b'a key') is None\n"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_directory_that_others_can_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "open"))
    monkeypatch.setattr(private, "_passed", {})  # otherwise each command of this process would report it
    found = columns.make("things", KEY, build)
    assert same(found) and found.why_not
    assert not [*(tmp_path / "open").iterdir()]


def test_an_error_of_the_builder_leaves_no_file(place: Path) -> None:
    def fails(room: Room) -> dict[str, Any]:
        room({"a": ("<i8", 10)})
        raise KeyError("mine")

    with pytest.raises(KeyError):
        columns.make("things", KEY, fails)
    assert not [*place.iterdir()]


def test_the_oldest_files_and_those_of_dead_processes_are_removed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MOST", 2)
    for number in range(4):
        columns.make("things", b"%d" % number, build)
        for file in place.iterdir():
            os.utime(file, (file.stat().st_atime - 100, file.stat().st_mtime - 100))
    dead, alive = place / ".new-dead", place / ".new-alive"
    for each in (dead, alive):
        each.write_bytes(b"x")
        each.chmod(0o600)
    with alive.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        columns.make("things", b"last", build)
    assert alive.exists() and not dead.exists()
    assert columns.load("things", b"0") is None and columns.load("things", b"last") is not None
    kept: Mapping[str, Path] = {each.name: each for each in place.iterdir() if not each.name.startswith(".")}
    assert len(kept) == 3
