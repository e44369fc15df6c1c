# SPDX-License-Identifier: LGPL-2.1-or-later
"""Coverage in formats of other programs: lcov's tracefiles, and DynamoRIO's drcov."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from gilk.image.demangle import readable
from gilk.trace.coverage import FunctionCoverage, SourceCoverage

_MOST_BLOCK = 0xFFFF  # in bytes: drcov's blocks have 16 bits for their size


def lcov(sources: Sequence[SourceCoverage]) -> Iterator[str]:
    """A tracefile (geninfo(1)): the functions and lines of each file, with the number of times that they ran."""
    for source in sources:
        yield f"TN:\nSF:{_word(source.file)}\n"
        for line, name, _ in source.functions:
            yield f"FN:{line},{_word(readable(name))}\n"
        for _, name, calls in source.functions:
            yield f"FNDA:{calls},{_word(readable(name))}\n"
        yield f"FNF:{len(source.functions)}\nFNH:{sum(calls > 0 for _, _, calls in source.functions)}\n"
        for line, count in sorted(source.lines.items()):
            yield f"DA:{line},{count}\n"
        yield f"LF:{len(source.lines)}\nLH:{sum(count > 0 for count in source.lines.values())}\nend_of_record\n"


def drcov(functions: Sequence[FunctionCoverage]) -> Iterator[str | bytes]:
    """The blocks that ran (drcov, version 2), as offsets in the mapping of each image."""
    images = list(dict.fromkeys((each.path, each.low, each.high, each.bias) for each in functions))
    yield "DRCOV VERSION: 2\nDRCOV FLAVOR: gilk\n"
    yield f"Module Table: version 2, count {len(images)}\nColumns: id, base, end, entry, path\n"
    for number, (path, low, high, _) in enumerate(images):
        yield f"{number}, {low:#018x}, {high:#018x}, {0:#018x}, {_word(str(path))}\n"
    numbers = {image: number for number, image in enumerate(images)}
    rows = [
        struct.pack("<IHH", block.start + each.bias - each.low, min(block.end - block.start, _MOST_BLOCK),
                    numbers[each.path, each.low, each.high, each.bias])
        for each in functions for block in each.blocks if block.count
    ]  # fmt: skip
    yield f"BB Table: {len(rows)} bbs\n"
    yield b"".join(rows)


def _word(text: str) -> str:
    """The text on one line, with unprintable characters replaced."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
