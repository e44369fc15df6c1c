# SPDX-License-Identifier: LGPL-2.1-or-later
"""The names of probes in a tree of processes: a provider whose name ends in the first process's number (``pid$target``,
``postgresql$target``) is the same in all processes."""

from __future__ import annotations

from dataclasses import replace

from gilk.lang.d.probes import Description, Key
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Renamed:
    """Maps names between processes. ``first``: the pid in the program text; ``here``: the pid of the process that is
    looked at."""

    first: int = 0
    here: int = 0

    def there(self, description: Description) -> Description:
        """The description with the process's own number in the provider."""
        return replace(description, provider=self._ending(description.provider, self.first, self.here))

    def back(self, key: Key) -> Key:
        """The name of a process's probe in the whole tree."""
        return self._ending(key[0], self.here, self.first), *key[1:]

    @staticmethod
    def _ending(name: str, old: int, new: int) -> str:
        return f"{name.removesuffix(str(old))}{new}" if old != new and name.endswith(str(old)) else name
