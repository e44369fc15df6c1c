# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cache of the figures of whole images."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from gilk.cache.arrays import Array, load_arrays, store_arrays
from gilk.cache.key import sources
from gilk.digest import digest
from gilk.image import debug, header, notes, remembered, symbols
from gilk.image.source import open_source
from gilk.splice.figures import ABOUT, SurveyTable
from gilk.splice.tactics.table import OUTCOMES
from gilk.values import dataclass
from gilk.version import VERSION

SOURCES: Final = ("analysis", "arch", "image", "engines/scan", "splice")


@dataclass(frozen=True, slots=True)
class TableKey:
    """The key of a whole image's table in the cache."""

    build_id: str
    text: str


def key_of(path: Path) -> TableKey:
    """The key, made from all that a scan reads of the file and of its debug file. Raises ImageError.

    gilk's own code counts, too, since a version may be under development.
    """
    with open_source(path) as source:
        head = header.parse(source)
        state = digest(remembered.content_of(head, header.segments(head)))
        table = symbols.symtab(head)
        if table is None or not len(table.rows):
            table = debug.debug_table(head)
            if table is not None:
                state.update(b"%d;" % len(table.strings) + table.strings + table.rows.tobytes())
        return TableKey(notes.build_id(head), f"survey-{VERSION}-{sources(*SOURCES)}-{state.hexdigest()}")


def recall(key: TableKey) -> SurveyTable | None:
    kept = load_arrays(key.text)
    return checked(kept) if kept is not None else None


def keep(key: TableKey, table: SurveyTable) -> None:
    store_arrays(key.text, {"names": table.names, "about": table.about, "counts": table.counts})


def checked(kept: dict[str, Array]) -> SurveyTable | None:
    """The table in the arrays; None if they are no table."""
    try:
        names, about, counts = kept["names"], kept["about"], kept["counts"]
    except KeyError:
        return None
    shapes = about.shape == (len(about), ABOUT) and counts.shape == (len(about), 2, len(OUTCOMES))
    types = names.dtype == np.uint8 and about.dtype == np.int64 and counts.dtype == np.int32
    return SurveyTable(names, about, counts) if shapes and types else None
