# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every error that a user can see.

Each carries a *slug*, the name of its paragraph in docs/errors.md, and a hint if there is something the user can do
about it.

    GilkError
     ├── UsageError      the request itself is wrong              exit 2
     ├── ImageError      a file or region cannot be read          exit 3
     ├── TargetError     a live process refuses or has gone       exit 4
     │   ├── MachineGone   another machine has gone, or is silent
     │   ├── MemoryTaken   the process has mapped memory where a plan counted on room
     │   └── OutOfMemory   the kernel has no memory for it
     ├── CompileError    an instrument does not compile           exit 5
     └── StoreError      samples cannot be written or read        exit 6
"""

from __future__ import annotations


class GilkError(Exception):
    """The base of all errors with a slug; ``str()`` is one line, without the hint."""

    exit_status = 1

    def __init__(self, slug: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.slug = slug
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        """Make errors picklable: they cross the pipe between client and keeper."""
        return type(self), (self.slug, self.message, self.hint)


class UsageError(GilkError):
    exit_status = 2


class ImageError(GilkError):
    exit_status = 3


class TargetError(GilkError):
    exit_status = 4


class MachineGone(TargetError):
    """The machine at the other end of a link does not answer any more, for whatever reason."""


class MemoryTaken(TargetError):
    """The error `no-room` of a plan whose memory was taken: the mappings have been read again, and another plan avoids
    them.
    """


class OutOfMemory(TargetError):
    """The error `refused-by-kernel` for lack of memory: a smaller request may succeed."""


class CompileError(GilkError):
    exit_status = 5


class StoreError(GilkError):
    exit_status = 6


def keeper_gone(why: str) -> TargetError:
    """The error `keeper-gone` for a process of gilk's that was killed, or does not answer."""
    return TargetError("keeper-gone", why, "gilk restore puts its code right")


def failed(owner: str, failure: BaseException) -> TargetError:
    """The error `keeper-gone` for a process of gilk's, the ``owner`` of a session, that an error of its own has ended.
    It names the last places in gilk from which that was raised."""
    import traceback  # imported here: it is seldom needed, and every command imports this module

    places = [
        f"{each.filename.rpartition('/')[2]}:{each.lineno}" for each in traceback.extract_tb(failure.__traceback__)
    ]
    return TargetError(
        "keeper-gone", f"{owner} has failed: {type(failure).__name__}: {failure} ({' '.join(places[-3:])})"
    )
