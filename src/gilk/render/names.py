# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names of functions as they are shown: those of C++ and Rust as their source has them (image/demangle.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gilk.image.demangle import learn, readable, readable_in, readable_names, show_mangled
from gilk.render.text import cell

__all__ = ["learn", "named", "readable", "readable_in", "show_mangled", "with_names"]

Json = dict[str, Any]


def named(text: str) -> str:
    """A name, or a text with names in it, fit for a terminal."""
    return cell(readable_in(text))


def with_names(found: Json) -> Json:
    """The object with one member more if there are mangled names in it: ``names`` has the readable form of each."""
    names = readable_names(_texts(found))
    return {**found, "names": names} if names else found


def _texts(value: Any) -> Iterator[str]:
    """All keys and texts in JSON, the deepest included: trees may be deeper than Python's stack."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            yield from each
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each
