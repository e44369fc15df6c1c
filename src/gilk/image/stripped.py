# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs without names for most of their functions, and where names are to be had."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_NAMELESS = re.compile(r"sub_[0-9a-f]+")
_NAMED = 4  # images in a sentence


def nameless(address: int) -> str:
    """The name of a function that has none."""
    return f"sub_{address:x}"


def is_stripped(names: Iterable[str]) -> bool:
    """Whether most of some functions of a program have no names."""
    known = list(names)
    return 2 * sum(_NAMELESS.fullmatch(name) is not None for name in known) > len(known)


def remark(functions: Mapping[str, Iterable[str]]) -> list[str]:
    """A sentence about those images that are stripped, if there are such. ``functions``: their names, by image."""
    images = [image for image, names in functions.items() if is_stripped(names)]
    if not images:
        return []
    more = f" and {len(images) - _NAMED} more" if len(images) > _NAMED else ""
    verb, whose = ("is", "its") if len(images) == 1 else ("are", "their")
    sentence = (
        f"{', '.join(images[:_NAMED])}{more} {verb} stripped: functions are called sub_ADDRESS; for their names, and "
        f"for source lines, install {whose} debug symbols (on Debian a package ...-dbgsym), "
        "or run `debuginfod-find debuginfo FILE`"
    )
    return [sentence]
