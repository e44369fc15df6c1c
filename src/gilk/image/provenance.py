# SPDX-License-Identifier: LGPL-2.1-or-later
"""The origin of a cached finding: the image's content, and the code that found it."""

from __future__ import annotations

import functools
from pathlib import Path

import iced_x86

from gilk.digest import digest, stamp
from gilk.image.model import Image
from gilk.version import VERSION


def content(image: Image) -> str:
    """Equal for two images only if everything that was read of them is equal, wherever it came from.

    Whoever makes a file chooses its build-id, and any sum that is no cryptographic digest; a debug file brings names
    along. So nothing else may stand for an image in the key of a finding: what was found of one user's file would be
    believed of another's.
    """
    return image.content.hex()


@functools.cache
def sources(*parts: str) -> str:
    """A digest of gilk's version and of its code, which changes between versions: ``parts`` are layers, or files in
    one."""
    decoder = sorted(file for file in Path(iced_x86.__file__).parent.iterdir() if file.is_file())
    return digest(VERSION.encode() + stamp([*decoder, *package_files(*parts)])).hexdigest()[:32]


def package_files(*parts: str) -> list[Path]:
    """The code of layers, or of files in one."""
    places = [Path(__file__).resolve().parents[1] / part for part in parts]
    return [file for place in places for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])]
