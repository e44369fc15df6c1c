# SPDX-License-Identifier: LGPL-2.1-or-later
"""Refuses a library that would end this process where addresses are scarce (``ulimit -v``).

Libraries that find no room as they are mapped raise an error, which gilk reports. Arrow's allocator begins a thread
instead, and the loader aborts the process if there is no room for that.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

from gilk.own_threads import has_room, is_limited

_LIBRARY: Final = "pyarrow"
_NEEDS: Final = 128 << 20  # bytes of addresses; it has mapped most of them when its first thread begins


class _Refuses(MetaPathFinder):
    """A finder that comes before all others, and finds nothing itself."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:  # fmt: skip
        """Return None, so that the next finder is asked. Raises MemoryError."""
        if name == _LIBRARY and not has_room(_NEEDS):
            raise MemoryError(f"no addresses are left for {_LIBRARY}")
        return None


def refuse_libraries() -> None:
    """From now on raise MemoryError at the import of the library if there is no room for it."""
    if is_limited():
        sys.meta_path.insert(0, _Refuses())
