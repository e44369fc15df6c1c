# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cache of byte strings returns the bytes that were put there, or nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gilk import private
from gilk.cache import blobs
from gilk.cache.blobs import load_blob, store_blob


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(private, "_passed", {})
    return tmp_path / "cache" / "kind"


def test_a_stored_blob_comes_back_under_its_key_only() -> None:
    store_blob("kind", b"key", b"content")
    assert load_blob("kind", b"key") == b"content"
    assert load_blob("kind", b"other") is None
    assert load_blob("unkind", b"key") is None


@pytest.mark.parametrize("damage", [b"", b"x", b"content", bytes(32) + b"content", None])
def test_a_damaged_or_exchanged_blob_is_not_loaded(place: Path, damage: bytes | None) -> None:
    store_blob("kind", b"key", b"content")
    store_blob("kind", b"other", b"code of another program")
    mine, theirs = (place / blobs._name(key) for key in (b"key", b"other"))
    mine.write_bytes(theirs.read_bytes() if damage is None else damage)
    assert load_blob("kind", b"key") is None


def test_a_directory_that_others_can_write_to_is_not_used(place: Path) -> None:
    store_blob("kind", b"key", b"content")
    os.chmod(place.parent, 0o777)
    assert load_blob("kind", b"key") is None
    store_blob("kind", b"new", b"content")
    os.chmod(place.parent, 0o700)
    assert load_blob("kind", b"new") is None


def test_the_oldest_blobs_are_removed_to_make_room(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setattr(blobs, "MOST", 3)
    for n in range(6):
        store_blob("kind", b"%d" % n, b"content")
        os.utime(place / blobs._name(b"%d" % n), (n, n))
    kept = [n for n in range(6) if load_blob("kind", b"%d" % n) is not None]
    assert kept == [3, 4, 5]
    assert len(list(place.iterdir())) == 3


def test_a_blob_that_is_too_large_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "LARGEST", 10)
    store_blob("kind", b"key", bytes(11))
    assert load_blob("kind", b"key") is None
