# SPDX-License-Identifier: LGPL-2.1-or-later
"""The types of the kernel that gilk runs on, for programs that are not about a kernel: they may name its structs, and
ask how large these are and where their members lie."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.errors import ImageError

if TYPE_CHECKING:
    from gilk.engines.dtrace.btf_types import BtfTypes

#: The name that stands before those of its structs, and that programs may write.
NAME = "vmlinux"
_PLACE = Path("/sys/kernel/btf/vmlinux")


@cache
def own_kernel() -> BtfTypes | None:
    """The types, which are read once; None if the kernel does not tell them."""
    from gilk.engines.dtrace.btf_types import BtfTypes  # imported here: few programs need it
    from gilk.image.kernel.btf import Btf

    try:
        return BtfTypes(NAME, Btf(_PLACE.read_bytes()))
    except (OSError, ImageError):
        return None
