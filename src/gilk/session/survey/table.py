# SPDX-License-Identifier: LGPL-2.1-or-later
"""The result of a scan as compact arrays, one row a function, kept in the cache for whole images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gilk.analysis.model import Function
from gilk.cache.arrays import Array, load_arrays, store_arrays
from gilk.cache.key import sources
from gilk.digest import digest
from gilk.image import debug, header, notes, remembered, symbols
from gilk.image.source import open_source
from gilk.splice.tactics.table import OUTCOMES
from gilk.values import dataclass
from gilk.version import VERSION

PRE, POST = 0, 1
_ABOUT: Final = 4  # address, size, blocks, unresolved
SOURCES: Final = ("analysis", "arch", "image", "session/survey", "splice")
_ADDRESSES: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class Row:
    """A function. ``address`` is link-time, ``size`` in bytes; ``unresolved``: indirect jumps of unknown target.

    ``pre`` and ``post`` have, of each tactic and each refusal that occurs, the number of points.
    """

    image: str
    name: str
    address: int
    size: int
    blocks: int
    unresolved: int
    pre: dict[str, int]
    post: dict[str, int]


@dataclass(frozen=True, slots=True)
class Table:
    """``about`` is functions by (address, size, blocks, unresolved); ``counts`` functions by side by outcome.

    Addresses in the upper half, a kernel's, are kept as negative numbers.
    """

    names: NDArray[np.uint8]
    about: NDArray[np.int64]
    counts: NDArray[np.int32]

    @classmethod
    def of(cls, functions: Sequence[Function], pre: NDArray[np.int32], post: NDArray[np.int32]) -> Table:
        names = "\0".join(function.name for function in functions).encode()
        about = [(_signed(f.start), f.end - f.start, len(f.blocks), len(f.indirect)) for f in functions]
        return cls(
            np.frombuffer(names, np.uint8),
            np.array(about, np.int64).reshape(len(functions), _ABOUT),
            np.stack((pre, post), axis=1),
        )

    def __len__(self) -> int:
        return len(self.about)

    def split(self, whose: NDArray[np.int64], shares: int) -> list[Table]:
        """The rows of each share; ``whose`` says of each row in which it is."""
        names = self.names.tobytes().split(b"\0")
        chosen = [np.flatnonzero(whose == share) for share in range(shares)]
        joined = [np.frombuffer(b"\0".join([names[row] for row in rows.tolist()]), np.uint8) for rows in chosen]
        return [Table(text, self.about[rows], self.counts[rows]) for text, rows in zip(joined, chosen, strict=True)]

    @property
    def blocks(self) -> int:
        return int(self.about[:, 2].sum())

    @property
    def unresolved(self) -> int:
        """Functions with an indirect jump whose targets are not known."""
        return int(np.count_nonzero(self.about[:, 3]))

    def totals(self, side: int) -> dict[str, int]:
        """Points by outcome, all outcomes."""
        return dict(zip(OUTCOMES, map(int, self.counts[:, side].sum(axis=0)), strict=True))

    def rows(self, image: str) -> Iterator[Row]:
        names = self.names.tobytes().decode(errors="replace").split("\0")
        for name, about, counts in zip(names, self.about.tolist(), self.counts, strict=False):
            address, size, blocks, unresolved = about
            pre, post = _present(counts[PRE]), _present(counts[POST])
            yield Row(image, name, address % _ADDRESSES, size, blocks, unresolved, pre, post)


def _signed(address: int) -> int:
    return address - _ADDRESSES if address >= _ADDRESSES >> 1 else address


def _present(counts: NDArray[np.int32]) -> dict[str, int]:
    return {OUTCOMES[i]: int(counts[i]) for i in np.flatnonzero(counts)}


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a whole image's table."""

    build_id: str
    text: str


def key_of(path: Path) -> Key:
    """From what is read of the file, and of its debug file, as they are. Raises ImageError.

    So does gilk's own code count, of which a version may be under development.
    """
    with open_source(path) as source:
        head = header.parse(source)
        state = digest(remembered.content_of(head, header.segments(head)))
        table = symbols.symtab(head)
        if table is None or not len(table.rows):
            table = debug.debug_table(head)
            if table is not None:
                state.update(b"%d;" % len(table.strings) + table.strings + table.rows.tobytes())
        return Key(notes.build_id(head), f"survey-{VERSION}-{sources(*SOURCES)}-{state.hexdigest()}")


def recall(key: Key) -> Table | None:
    kept = load_arrays(key.text)
    return checked(kept) if kept is not None else None


def keep(key: Key, table: Table) -> None:
    store_arrays(key.text, {"names": table.names, "about": table.about, "counts": table.counts})


def checked(kept: dict[str, Array]) -> Table | None:
    """None when the arrays are not of a table."""
    try:
        names, about, counts = kept["names"], kept["about"], kept["counts"]
    except KeyError:
        return None
    shapes = about.shape == (len(about), _ABOUT) and counts.shape == (len(about), 2, len(OUTCOMES))
    types = names.dtype == np.uint8 and about.dtype == np.int64 and counts.dtype == np.int32
    return Table(names, about, counts) if shapes and types else None
