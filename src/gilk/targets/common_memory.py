# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory that several targets and gilk have mapped. The first target, or a kernel's driver, makes it; the other targets
are handed its descriptor."""

from __future__ import annotations

import mmap
import os

from gilk.targets.base import Target
from gilk.targets.shared_memory import check_sealed


class CommonMemory:
    """Common memory of several targets. Targets keep their mappings until their keepers unmap everything."""

    def __init__(self, size: int) -> None:
        """``size`` in bytes."""
        self.size = size
        self._descriptor = -1
        self._view: mmap.mmap | None = None

    def adopt(self, descriptor: int) -> None:
        """Use the memory that the driver has made; all targets are handed its descriptor. Raises TargetError
        `not-our-memory`."""
        self._descriptor = descriptor
        check_sealed(descriptor, self.size)
        self._view = mmap.mmap(descriptor, self.size)

    def map_into(self, target: Target) -> int:
        """Map the memory into a target; returns its address there. Raises TargetError `cannot-share`, and as Tracer
        does."""
        if self._descriptor >= 0:
            return target.keeper.map_common(self._descriptor, self.size)
        self._descriptor, address = target.keeper.share_memory(self.size)
        self._view = mmap.mmap(self._descriptor, self.size)
        return address

    @property
    def there(self) -> bool:
        """Whether the memory has been made."""
        return self._view is not None

    @property
    def view(self) -> memoryview:
        """The mapping in this process; any of the targets may have written anything there."""
        assert self._view is not None, "no target has it yet"
        return memoryview(self._view)

    def close(self) -> None:
        """Close the descriptor. The mapping in this process stays readable."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
