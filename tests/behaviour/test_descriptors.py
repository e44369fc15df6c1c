# SPDX-License-Identifier: LGPL-2.1-or-later
"""A launched program has the files that it was given, and none of gilk's."""

from __future__ import annotations

import os

from tests.behaviour.harness import plain, run


def test_a_launched_program_has_no_file_of_gilk() -> None:
    command = ["/bin/ls", "/proc/self/fd"]
    assert run(["*:entry=count"], command).visible == plain(command).visible


def test_a_launched_program_has_every_file_that_it_was_given() -> None:
    """Such as a shell hands over with `3<file`."""
    reading, writing = os.pipe()
    os.write(writing, b"handed over\n")
    os.close(writing)
    ran = run(["*:entry=count"], ["/bin/cat", f"/dev/fd/{reading}"], pass_fds=(reading,))
    os.close(reading)
    assert (ran.status, ran.stdout) == (0, b"handed over\n"), ran.stderr
