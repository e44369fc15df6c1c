# SPDX-License-Identifier: LGPL-2.1-or-later
"""The start of slow work that a command will wait for, before all that the command needs is imported."""

from __future__ import annotations

from contextlib import suppress

from gilk.errors import GilkError


def expect(process: bool, runs: bool) -> None:
    """Begin slow work in the background; errors show when its results are used.

    ``process``: a process will be traced. ``runs``: a D program will run, which has to know the time.
    """
    if process:
        from gilk.targets import spawning  # imported here: commands without a process need not wait for it

        spawning.begin()
    if runs:
        from gilk.trace import clock

        with suppress(GilkError):
            clock.begin()
