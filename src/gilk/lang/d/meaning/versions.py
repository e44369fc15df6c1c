# SPDX-License-Identifier: LGPL-2.1-or-later
"""The versions of D that introduced its variables and functions: a program for an older version may declare these
names.
"""

from __future__ import annotations

from gilk.lang.d.meaning.builtins import BUILTINS
from gilk.lang.d.meaning.functions import FUNCTIONS

#: The versions are those of DTrace for Linux. Names without an entry have been there from the beginning.
_SINCE = {
    name: version
    for version, names in (
        ((1, 1), "freopen index rindex strchr strrchr strstr strtok substr"),
        ((1, 2), "func mod setopt sym uaddr ucaller ufunc umod ustackdepth usym"),
        ((1, 3), "htonl htonll htons ntohl ntohll ntohs"),
        ((1, 5), "inet_ntoa inet_ntoa6 inet_ntop link_ntop"),
        ((1, 6), "stddev"),
        ((1, 6, 4), "llquantize pcap"),
    )
    for name in names.split()
}
#: Names of gilk's own, for its libraries; a program for DTrace may declare these names.
_OWN = frozenset(
    ("argumentsof", "fdflags", "fdmount", "fdoffset", "fdpath", "pathof", "threadname", "threadnice", "threadpriority")
)


def is_taken(name: str, version: str) -> bool:
    """Whether the name has a meaning in that version of D, such as "1.2"; "" is the newest."""
    if name in _OWN or (name not in BUILTINS and name not in FUNCTIONS):
        return False
    return not version or tuple(map(int, version.split("."))) >= _SINCE.get(name, (1,))
