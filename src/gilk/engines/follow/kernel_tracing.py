# SPDX-License-Identifier: LGPL-2.1-or-later
"""A trace of a kernel that is there before it and after it."""

from __future__ import annotations

from gilk.engines.follow.tracing import Tracing
from gilk.runs.guest import KernelGuest
from gilk.values import dataclass


@dataclass
class KernelTracing(KernelGuest, Tracing):
    """A trace of the kernel of a machine that others go on to use."""
