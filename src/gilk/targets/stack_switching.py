# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether a program switches between stacks, so that a signal handler may be suspended while other code runs."""

from __future__ import annotations

from typing import Final

from gilk.targets.base import Loaded, Target

#: Functions of the C library by which a program goes from one stack to another (makecontext(3)).
_SWITCHES: Final = frozenset(("swapcontext", "setcontext"))


def main_program(process: Target) -> Loaded | None:
    """The program's own image; None if it is not mapped."""
    return next((one for one in process.loaded() if one.main), None)


def switches_stacks(process: Target) -> bool:
    """Whether the program itself calls functions that switch stacks."""
    main = main_program(process)
    return main is not None and process.mentions(main.path, _SWITCHES)
