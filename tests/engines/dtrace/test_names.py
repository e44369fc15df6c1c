# SPDX-License-Identifier: LGPL-2.1-or-later
"""The names of frames."""

from __future__ import annotations

from gilk.engines.dtrace.names import frame, unresolved


def test_frames_are_written_with_module_function_and_offset_if_known() -> None:
    assert frame(0x4010, "libc.so.6", "read", 16) == "libc.so.6`read+0x10"
    assert frame(0x4010, "vmlinux", "schedule") == "vmlinux`schedule"
    assert frame(0x4010, "a.out") == "a.out`0x4010"
    assert frame(0x4010) == "0x4010"


def test_with_noresolve_frames_are_written_as_addresses() -> None:
    assert (unresolved(0x4010, "a.out", 0x10), unresolved(0x4010)) == ("a.out:0x10", "0x4010")
