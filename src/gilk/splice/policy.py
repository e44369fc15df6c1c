# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a kind of target allows of a splice."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from typing import Final

from gilk.values import dataclass


class Sharing(Enum):
    """With what a pun may share the bytes that it has in common with the code behind it."""

    SETTLED = auto()  # with splices as they are planned: whoever changes one of them plans the pun again
    EITHER = auto()  # with splices of functions that come and go: it leads to its patch with and without them
    NEVER = auto()  # with no splice


@dataclass(frozen=True, slots=True)
class Policy:
    """``puns``: jumps that share bytes with what follows, which take memory at given addresses.

    ``traps``: int3 where nothing else fits. ``prefixed``: an idle prefix may fill the place of a longer call.
    ``exceptions``: ud2 and int3 mean the same at any address. ``around``: a block is cut at instructions that cannot
    be moved, too. ``whole``: a bounce lies in padding only at the head of an instruction, and only the int3 behind a
    return give a splice more room. ``lends``: only a jump may give others room, among that many bytes from its start;
    0: any splice, anywhere in what it displaces.
    """

    puns: bool
    traps: bool
    prefixed: bool
    exceptions: bool
    around: bool
    whole: bool
    lends: int
    sharing: Sharing = Sharing.SETTLED


PROCESS: Final = Policy(puns=True, traps=False, prefixed=True, exceptions=True, around=False, whole=False, lends=0)

#: For plans that are made once for all functions, of which any may be in force at a time (splice/portable.py).
PORTABLE: Final = replace(PROCESS, sharing=Sharing.NEVER)

#: For what is planned where it is put to use, besides functions that are put in and taken out at any time.
BESIDE: Final = replace(PROCESS, sharing=Sharing.EITHER)

#: The kernel writes single instructions of at most five bytes, catches int3, and looks up ud2 by its address. The
#: driver compares and fills windows of whole instructions, of at most 24 bytes (ILK_WINDOW).
KERNEL: Final = Policy(
    puns=False, traps=True, prefixed=False, exceptions=False, around=True, whole=True, lends=24
)
