# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keys of the cache: digests of all that an entry follows from, such as gilk's own code.

The key of a finding about an image has the image's content (`Image.content`) in it, too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from gilk.digest import digest, stamp
from gilk.version import VERSION

PACKAGE = Path(__file__).resolve().parents[1]


def made_of(facts: object, files: Iterable[Path]) -> bytes:
    """A digest of ``facts``, by their repr(), and of files, by their stamps: it changes whenever one of the files is
    written or replaced. The files are not read. Raises OSError."""
    return digest(repr(facts).encode() + stamp(files)).digest()


@functools.cache
def sources(*parts: str) -> str:
    """A digest of gilk's version and of the code in ``parts``, which are packages, or files in one. The decoder of
    instructions counts as part of each."""
    return made_of(VERSION, [*_decoder(), *package_files(*parts)]).hex()[:32]


def package_files(*parts: str) -> list[Path]:
    """The Python files of packages of gilk, or of files in one."""
    return [file for part in parts for file in files_of(PACKAGE / part, "*.py")]


def files_of(place: Path, pattern: str = "*") -> list[Path]:
    """All files below the directory ``place`` that match ``pattern``, sorted; or ``place`` itself if it is no
    directory."""
    return sorted(file for file in place.rglob(pattern) if file.is_file()) if place.is_dir() else [place]


def _decoder() -> list[Path]:
    """The files of iced-x86, which need not be imported for that."""
    found = find_spec("iced_x86")
    return files_of(Path(found.origin).parent) if found is not None and found.origin is not None else []
