# SPDX-License-Identifier: LGPL-2.1-or-later
"""Frames and their names."""

from __future__ import annotations

from gilk.render.d.stacks import block, frame, unresolved


def test_a_block_begins_on_a_new_line() -> None:
    assert block([b"a", b"b"], 3) == b"\n   a\n   b\n"
    assert block([]) == b"\n"


def test_frames_say_what_is_known() -> None:
    assert frame(0x4010, "libc.so.6", "read", 16) == "libc.so.6`read+0x10"
    assert frame(0x4010, "vmlinux", "schedule") == "vmlinux`schedule"
    assert frame(0x4010, "a.out") == "a.out`0x4010"
    assert frame(0x4010) == "0x4010"


def test_noresolve() -> None:
    assert (unresolved(0x4010, "a.out", 0x10), unresolved(0x4010)) == ("a.out:0x10", "0x4010")
