# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sums waits by stack up to waits by the functions that make them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gilk.trace.d.question import StackRow
from gilk.values import dataclass

#: Matches frames of the C library, of the dynamic linker and of the kernel's page.
_BELOW = re.compile(r"(libc|ld-linux|ld-musl|libpthread|linux-vdso|\[vdso\])[-.\w]*`")
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits in the system call ``call`` of the function ``caller``, the first one outside of the C library. Times
    in ns.
    """

    caller: str
    call: str
    waits: int
    time: int
    longest: int


def by_caller(stacks: Iterable[StackRow]) -> tuple[Waits, ...]:
    """The waits by caller and system call, those with the most time first."""
    found: dict[tuple[str, str], tuple[int, int, int]] = {}
    for row in stacks:
        waits, time, longest = row.numbers
        key = caller(row.stack), row.key
        before = found.get(key, (0, 0, 0))
        found[key] = before[0] + waits, before[1] + time, max(before[2], longest)
    made = (Waits(*key, *numbers) for key, numbers in found.items())
    return tuple(sorted(made, key=lambda each: (-each.time, each.caller, each.call)))


def caller(stack: tuple[str, ...]) -> str:
    """The innermost function outside of the C library; if there is none, the innermost; '' for an empty stack."""
    frame = next((line for line in stack if not _BELOW.match(line)), stack[0] if stack else "")
    return _OFFSET.sub("", frame)
