# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cache keeps arrays, for its owner only, and never fails."""

from __future__ import annotations

import errno
import os
import pwd
import stat
from pathlib import Path

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gilk import private
from gilk.cache import place as cache
from gilk.cache.arrays import load_arrays, store_arrays
from gilk.cache.place import cache_dir
from gilk.errors import ImageError

ARRAYS = {
    "starts": numpy.arange(1000, dtype=numpy.uint64),
    "names": numpy.array(["main", "étoile"]),
    "none": numpy.empty(0),
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(private, "_passed", {})
    return tmp_path / "cache"


def test_stored_arrays_are_loaded() -> None:
    assert load_arrays("any/key\0at all") is None
    store_arrays("any/key\0at all", ARRAYS)
    found = load_arrays("any/key\0at all")
    assert found is not None and found.keys() == ARRAYS.keys()
    assert all(
        numpy.array_equal(found[name], ARRAYS[name]) and found[name].dtype == ARRAYS[name].dtype for name in ARRAYS
    )
    assert load_arrays("another key") is None


def test_only_the_owner_can_read_the_cache(place: Path) -> None:
    store_arrays("key", ARRAYS)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    (file,) = place.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_directory_that_others_can_write_to_is_refused(place: Path) -> None:
    store_arrays("key", ARRAYS)
    place.chmod(0o770)
    with pytest.raises(ImageError) as caught:
        cache_dir()
    assert caught.value.slug == "cache-unusable"
    assert load_arrays("key") is None
    store_arrays("key", ARRAYS)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_directory_of_someone_else_is_refused(place: Path) -> None:
    os.chown(cache_dir(), 4711, 4711)
    with pytest.raises(ImageError, match=f"{place} belongs to user 4711"):
        cache_dir()


def test_a_file_in_place_of_the_cache_directory_is_refused(place: Path) -> None:
    place.touch()
    with pytest.raises(ImageError):
        cache_dir()
    store_arrays("key", ARRAYS)
    assert load_arrays("key") is None


@pytest.mark.parametrize("base", ["/x", "", "x"])
def test_environment_variables_choose_the_cache_directory(
    base: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The place is the base directory, if its path is absolute; otherwise the named home, or the one that the system
    knows."""
    monkeypatch.delenv("GILK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    monkeypatch.setenv("HOME", str(tmp_path))
    own = Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".cache" / "gilk"
    named = [Path("/x/gilk")] if base == "/x" else []
    assert list(cache.places()) == [*named, tmp_path / ".cache" / "gilk", own]
    monkeypatch.delenv("HOME")
    assert list(cache.places()) == [*named, own]
    monkeypatch.setenv("GILK_CACHE", "/y")
    assert list(cache.places()) == [Path("/y")]


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=8), st.booleans())
def test_a_damaged_file_is_ignored_or_loads_intact(place: Path, offset: int, change: bytes, cut: bool) -> None:
    store_arrays("key", ARRAYS)
    (file,) = place.iterdir()
    data = file.read_bytes()
    offset %= len(data)
    file.write_bytes(data[:offset] + (b"" if cut else change + data[offset + len(change) :]))
    found = load_arrays("key")
    assert found is None or all(isinstance(array, numpy.ndarray) for array in found.values())


def test_a_full_disk_stores_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(numpy, "savez", full)
    store_arrays("key", ARRAYS)
    assert list(place.iterdir()) == []
    assert load_arrays("key") is None


def test_pickles_are_neither_stored_nor_loaded(place: Path) -> None:
    with pytest.raises(ValueError):
        store_arrays("key", {"object": numpy.array([object()])})
    store_arrays("key", ARRAYS)
    (file,) = place.iterdir()
    with file.open("wb") as stream:
        numpy.savez(stream, object=numpy.array([print], dtype=object))
    assert load_arrays("key") is None
