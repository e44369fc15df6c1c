# SPDX-License-Identifier: LGPL-2.1-or-later
"""Early starts of slow work that a command will wait for, before all that it takes has been imported."""

from __future__ import annotations

from contextlib import suppress

from gilk.errors import GilkError


def expect(process: bool, runs: bool) -> None:
    """Begin. ``process``: there is one to be traced. ``runs``: a D program will, and has to know the time.

    Errors are told when the results are used.
    """
    if process:
        from gilk.targets import spawning  # here: who has no process need not wait for it

        spawning.begin()
    if runs:
        from gilk.trace import clock

        with suppress(GilkError):
            clock.begin()
