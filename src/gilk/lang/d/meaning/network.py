# SPDX-License-Identifier: LGPL-2.1-or-later
"""Linux' structs for network addresses, for programs and processes that do not declare them."""

from __future__ import annotations

from gilk.lang.types import Array, Integer, Member, Record

_BYTE, _U16, _U32 = (Integer(f"uint{8 * size}_t", size, False, rank) for rank, size in enumerate((1, 2, 4)))
_IN6_U = Record(
    "union", "(anon in6_u)", "", 16, 4,
    (
        Member("u6_addr8", Array(_BYTE, 16), 0),
        Member("u6_addr16", Array(_U16, 8), 0),
        Member("u6_addr32", Array(_U32, 4), 0),
    ),
)  # fmt: skip
IN = Record("struct", "in_addr", "", 4, 4, (Member("s_addr", _U32, 0),))
IN6 = Record("struct", "in6_addr", "", 16, 4, (Member("in6_u", _IN6_U, 0),))
#: The structs by kind and tag.
RECORDS = {f"struct {each.tag}": each for each in (IN, IN6)}
#: Names of types that stand for such a struct, whether it is Linux' or the program's own.
TYPES = {"in6_addr_t": Record("struct", "in6_addr", complete=False)}
