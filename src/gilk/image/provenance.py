# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a cached finding follows from: the image's content, and the code that found it."""

from __future__ import annotations

import functools
import zlib
from pathlib import Path

import iced_x86
import numpy as np

from gilk.digest import digest, stamp
from gilk.image.model import Image
from gilk.version import VERSION


def content(image: Image) -> str:
    """A build-id is no promise, and a debug file brings names along: so code and names are looked at themselves."""
    code = 0
    for segment in image.segments:
        if segment.executable:
            code = zlib.crc32(segment.data, code)
    names = zlib.crc32("\0".join([span.name for span in image.spans]).encode("utf-8", "surrogateescape"))
    for ends in ([span.start for span in image.spans], [span.end for span in image.spans]):
        names = zlib.crc32(np.array(ends, np.uint64).data, names)
    return f"{image.build_id}-{code:x}-{names:x}"


@functools.cache
def sources(*parts: str) -> str:
    """Of the version, and of the code itself, which changes between versions: ``parts`` are layers, or files in one."""
    decoder = sorted(file for file in Path(iced_x86.__file__).parent.iterdir() if file.is_file())
    return digest(VERSION.encode() + stamp([*decoder, *package_files(*parts)])).hexdigest()[:32]


def package_files(*parts: str) -> list[Path]:
    """The code of layers, or of files in one."""
    places = [Path(__file__).resolve().parents[1] / part for part in parts]
    return [file for place in places for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])]
