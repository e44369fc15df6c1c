# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks in print."""

from __future__ import annotations

from gilk.render.d.stacks import block


def test_a_block_begins_on_a_new_line() -> None:
    assert block([b"a", b"b"], 3) == b"\n   a\n   b\n"
    assert block([]) == b"\n"
