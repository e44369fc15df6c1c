# SPDX-License-Identifier: LGPL-2.1-or-later
"""The names that an image has for users, in every command: the IMAGE of points, scopes, events and D's probes."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator

#: Names for the program itself, whatever its file is called; the same as DTrace's.
MAIN = ("a.out", "-")
_GLOB = frozenset("*?[")
_VERSION = re.compile(r"(-[0-9.]+)?\.so.*\Z")
_BEHIND = re.compile(r"(?<=\.so)\..*\Z")
_FOREIGN_ROOT = re.compile(r"/proc/\d+/root(?=/)")


def is_glob(pattern: str) -> bool:
    """Whether the pattern is a glob and not just a name."""
    return not _GLOB.isdisjoint(pattern)


def matches(pattern: str, path: str, soname: str = "", main: bool = False, link: str = "") -> bool:
    """Whether ``pattern``, a shell glob, matches a name of the image whose file is at ``path``.

    A pattern with a slash is matched with the whole path, as the process has it. Any other is matched with the file's
    name and with ``soname`` ('' if the image has none), each of them also without its version: ``libc`` names libc.so.6
    and libc-2.36.so, ``libc.so`` the former, ``python3`` names python3.11. ``main``: the image is the program itself.
    ``link``: the name of the link by which it was executed, which is one of its names then.
    """
    if "/" in pattern:
        return fnmatch.fnmatchcase(_FOREIGN_ROOT.sub("", path, count=1), pattern)
    return (main and pattern in MAIN) or any(fnmatch.fnmatchcase(name, pattern) for name in names(path, soname, link))


def names(path: str, soname: str = "", link: str = "") -> Iterator[str]:
    """The short names of an image, the file's own first; none is empty, and some may be the same."""
    for name in filter(None, (path.rpartition("/")[2], soname.rpartition("/")[2], link)):
        yield name
        yield from filter(None, (_VERSION.sub("", name), _BEHIND.sub("", name), name.partition(".")[0]))
