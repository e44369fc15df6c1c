# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names of functions in the form for users: those of C++ and Rust as in their source (image/demangle.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gilk.image.demangle import learn, readable, readable_in, readable_names, show_mangled
from gilk.render.text import cell

__all__ = ["learn", "named", "readable", "readable_in", "show_mangled", "with_names"]

Json = dict[str, Any]


def named(text: str) -> str:
    """A name, or a text that contains names, in readable form and safe for a terminal."""
    return cell(readable_in(text))


def with_names(found: Json) -> Json:
    """The object; if it contains mangled names, with another member ``names`` that has the readable form of each."""
    names = readable_names(_texts(found))
    return {**found, "names": names} if names else found


def _texts(value: Any) -> Iterator[str]:
    """All keys and strings in a JSON value, without recursion, since trees may be deeper than Python's stack."""
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
