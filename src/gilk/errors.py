# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every error a user can see.

Each carries a *slug*, the name of its paragraph in docs/errors.md, and a hint
when there is something the user can do about it.

    GilkError
    ├── UsageError        the request itself is wrong            exit 2
    ├── ImageError        a file or region cannot be read        exit 3
    ├── TargetError       a live process refuses or has gone     exit 4
    │   ├── MachineGone   another machine has, or is silent
    │   └── MemoryTaken   it has mapped memory itself where a plan counted on room
    ├── CompileError      an instrument does not compile         exit 5
    └── StoreError        samples cannot be written or read      exit 6
"""

from __future__ import annotations


class GilkError(Exception):
    """Base of all errors with a slug; ``str()`` is one line, without the hint."""

    exit_status = 1

    def __init__(self, slug: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.slug = slug
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        """Errors cross the pipe between client and keeper."""
        return type(self), (self.slug, self.message, self.hint)


class UsageError(GilkError):
    exit_status = 2


class ImageError(GilkError):
    exit_status = 3


class TargetError(GilkError):
    exit_status = 4


class MachineGone(TargetError):
    """The machine that a link led to cannot be asked any more, whatever for."""


class MemoryTaken(TargetError):
    """`no-room`, for now: where things lie is known anew, and another plan avoids it."""


class OutOfMemory(TargetError):
    """`refused-by-kernel`, for want of memory: less of it may be had."""


class CompileError(GilkError):
    exit_status = 5


class StoreError(GilkError):
    exit_status = 6
