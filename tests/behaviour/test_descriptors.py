# SPDX-License-Identifier: LGPL-2.1-or-later
"""A launched program has the files that it was given, and none of gilk's."""

from __future__ import annotations

from tests.behaviour.harness import plain, run


def test_a_launched_program_has_no_file_of_gilk() -> None:
    command = ["/bin/ls", "/proc/self/fd"]
    assert run(["*:entry=count"], command).visible == plain(command).visible
