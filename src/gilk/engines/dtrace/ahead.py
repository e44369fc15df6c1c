# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a D program will wait for, begun before all that it takes has been imported."""

from __future__ import annotations

from contextlib import suppress

from gilk.errors import GilkError


def expect(process: bool, runs: bool) -> None:
    """``process``: there is one to be traced. ``runs``: the program will, and has to know the time.

    What is wrong with that is told when it is used.
    """
    if process:
        from gilk.targets import spawning  # here: who has no process need not wait for it

        spawning.begin()
    if runs:
        from gilk.trace import clock

        with suppress(GilkError):
            clock.begin()
