# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files that freopen() names: later output is appended, and packets are captured there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gilk.engines.dtrace.outlet import Pages
from gilk.trace.d import captures
from gilk.trace.d.values import Packet

ONE, TWO, OTHER = Packet(1, 12, 3, b"one"), Packet(2, 12, 9, b"two"), Packet(3, 1, 5, b"other")


def pages(folder: Path) -> tuple[Pages, Path, bytes]:
    path = folder / "named"
    return Pages(folder / "first"), path, os.fsencode(path)


def test_output_is_appended_to_the_file_that_freopen_names(tmp_path: Path) -> None:
    outlet, path, name = pages(tmp_path)
    for text in (b"a\n", b"b\n"):
        outlet.freopen(name)
        outlet.write(text)
        outlet.freopen(b"")
        outlet.write(b"between\n")
    assert path.read_bytes() == b"a\nb\n"
    assert (tmp_path / "first").read_bytes() == b"between\n" * 2


def test_ftruncate_empties_the_file_that_freopen_names(tmp_path: Path) -> None:
    outlet, path, name = pages(tmp_path)
    outlet.freopen(name)
    outlet.write(b"gone")
    outlet.ftruncate()
    outlet.write(b"kept")
    assert path.read_bytes() == b"kept"


def test_packets_of_several_firings_are_captured_in_one_file(tmp_path: Path) -> None:
    outlet, path, name = pages(tmp_path)
    path.write_bytes(b"of an earlier run")
    for packet in (ONE, TWO):
        outlet.freopen(name)
        assert outlet.capture(packet)
        outlet.freopen(b"")
    assert path.read_bytes() == captures.head(12) + captures.entry(ONE) + captures.entry(TWO)


def test_packets_are_not_captured_where_no_file_is_named(tmp_path: Path) -> None:
    outlet, _, name = pages(tmp_path)
    assert not outlet.capture(ONE)
    outlet.freopen(name)
    outlet.freopen(b"")
    assert not outlet.capture(ONE) and (tmp_path / "first").read_bytes() == b""


def test_packets_of_different_kinds_do_not_share_a_file(tmp_path: Path) -> None:
    outlet, path, name = pages(tmp_path)
    outlet.freopen(name)
    assert outlet.capture(ONE)
    with pytest.raises(ValueError, match="kind 12, not 1"):
        outlet.capture(OTHER)
    outlet.ftruncate()
    assert outlet.capture(OTHER)
    assert path.read_bytes() == captures.head(1) + captures.entry(OTHER)
