# SPDX-License-Identifier: LGPL-2.1-or-later
"""Recognises programs in which most functions have no names, and tells the user where to find names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_NAMELESS = re.compile(r"sub_[0-9a-f]+")
_NAMED = 4  # the most images that a remark names
_WHERE = "(on Debian a package ...-dbgsym), or run `debuginfod-find debuginfo FILE`"


def nameless(address: int) -> str:
    """The name that gilk gives to a function at ``address`` without a name."""
    return f"sub_{address:x}"


def is_stripped(names: Iterable[str]) -> bool:
    """Whether most of the functions with these names have no name of their own."""
    known = list(names)
    return 2 * sum(_NAMELESS.fullmatch(name) is not None for name in known) > len(known)


def remark(functions: Mapping[str, Iterable[str]]) -> list[str]:
    """A sentence about those images that are stripped, in a list; [] if there are none. ``functions``: their names, by
    image.
    """
    images = [image for image, names in functions.items() if is_stripped(names)]
    if not images:
        return []
    more = f" and {len(images) - _NAMED} more" if len(images) > _NAMED else ""
    verb, whose = ("is", "its") if len(images) == 1 else ("are", "their")
    sentence = (
        f"{', '.join(images[:_NAMED])}{more} {verb} stripped: functions are called sub_ADDRESS; for their names, and "
        f"for source lines, install {whose} debug symbols {_WHERE}"
    )
    return [sentence]


def without_functions(image: str) -> str:
    """A sentence about an image in which gilk has found no function at all."""
    return (
        f"{image} is stripped, and has no unwind tables that show where its functions are: install its debug symbols "
        f"{_WHERE}"
    )
