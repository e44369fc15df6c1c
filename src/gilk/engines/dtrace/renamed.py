# SPDX-License-Identifier: LGPL-2.1-or-later
"""The names of probes in the processes of a tree: a provider whose name ends in the number of the first process
(``pid$target``, ``postgresql$target``) is one in all of them."""

from __future__ import annotations

from dataclasses import replace

from gilk.lang.d.probes import Description, Key
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Renamed:
    """``first``: the number of the process that programs name; ``here``: of the one that is looked at."""

    first: int = 0
    here: int = 0

    def there(self, description: Description) -> Description:
        """The description of the same probes as the process itself has them."""
        return replace(description, provider=self._ending(description.provider, self.first, self.here))

    def back(self, key: Key) -> Key:
        """The name that a probe of the process goes by in the whole tree."""
        return self._ending(key[0], self.here, self.first), *key[1:]

    @staticmethod
    def _ending(name: str, old: int, new: int) -> str:
        return f"{name.removesuffix(str(old))}{new}" if old != new and name.endswith(str(old)) else name
