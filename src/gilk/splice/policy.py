# SPDX-License-Identifier: LGPL-2.1-or-later
"""The freedoms and limits of splices in each kind of target: processes, plans for templates, and the kernel."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from typing import Final

from gilk.values import dataclass


class PunSharing(Enum):
    """The code with which a pun may share the last bytes of its displacement."""

    SETTLED = auto()  # with splices as they are planned: if one of them changes, the pun is planned again
    EITHER = auto()  # with splices of functions that come and go: the pun leads to its patch with and without them
    NEVER = auto()  # with code that no splice changes


@dataclass(frozen=True, slots=True)
class Policy:
    """The freedoms and limits of splices in a kind of target. ``any_address``: memory can be had at any address that is
    free. ``catches_int3``: an int3 that is written over code leads to the patch. ``idle_prefixes``: prefixes without
    meaning may fill the place of a longer instruction. ``exceptions``: ud2 and int3 mean the same at any address.
    ``cut_at_fixed``: a block is also cut at instructions that cannot be moved. ``whole_instructions``: a bounce lies in
    padding only at the head of an instruction, and only the int3 behind a return give a splice more room.
    ``max_borrow``: only a tactic that lends may give room to others, among that many bytes from its start; 0: any
    splice may, anywhere in the bytes that it displaces.
    """

    any_address: bool
    catches_int3: bool
    idle_prefixes: bool
    exceptions: bool
    cut_at_fixed: bool
    whole_instructions: bool
    max_borrow: int
    sharing: PunSharing = PunSharing.SETTLED


PROCESS: Final = Policy(
    any_address=True, catches_int3=False, idle_prefixes=True, exceptions=True, cut_at_fixed=False,
    whole_instructions=False, max_borrow=0,
)  # fmt: skip

#: The policy for plans made once for all functions, any of which may be in force at a time (splice/template.py).
PORTABLE: Final = replace(PROCESS, sharing=PunSharing.NEVER)

#: The policy for plans that are made in a target in which functions of a template are put in and taken out at any time.
BESIDE: Final = replace(PROCESS, sharing=PunSharing.EITHER)

#: The kernel writes single instructions of at most five bytes, catches int3, and looks up ud2 by its address. The
#: driver compares and fills windows of whole instructions, of at most 24 bytes (ILK_WINDOW).
KERNEL: Final = Policy(
    any_address=False, catches_int3=True, idle_prefixes=False, exceptions=False, cut_at_fixed=True,
    whole_instructions=True, max_borrow=24,
)  # fmt: skip
