# SPDX-License-Identifier: LGPL-2.1-or-later
"""Translates the driver's error numbers into errors for users."""

from __future__ import annotations

import errno

from gilk.errors import TargetError

_UPROBES = 4096  # ILK_D_UPROBES_MAX


def cannot_open(error: OSError) -> TargetError:
    """The error to raise when /dev/ilk could not be opened."""
    match error.errno:
        case errno.ENOENT | errno.ENXIO | errno.ENODEV:
            hint = "`gilk driver load`, as root"
            return TargetError("driver-not-loaded", "the driver is not loaded: there is no /dev/ilk", hint)
        case errno.EACCES | errno.EPERM:
            hint = "it takes root with CAP_SYS_ADMIN, and a kernel that is not locked down (Secure Boot locks it)"
            return TargetError("driver-not-allowed", "not allowed to open /dev/ilk", hint)
        case _:
            return TargetError("driver-refused", f"/dev/ilk cannot be opened: {error.strerror}")


def refused(error: OSError) -> TargetError:
    """The error to raise when the driver has refused a message."""
    match error.errno:
        case errno.EPROTO:
            hint = "`gilk driver unload`, then `gilk driver load`"
            return TargetError("driver-version", "the loaded driver is for another version of gilk", hint)
        case errno.EBUSY:
            hint = "end another session first"
            return TargetError("driver-busy", "the driver's record buffers are all in use", hint)
        case errno.ENOMEM:
            return TargetError("driver-memory", "the kernel has no memory for this", "ask for less at once")
        case errno.E2BIG:
            hint = "ask for less at once"
            return TargetError("driver-limit", "this exceeds what the driver allows one session", hint)
        case errno.ENOSPC:
            hint = "ask for less at once, or end another session first"
            return TargetError("driver-limit", "this exceeds what the driver allows all sessions together", hint)
        case _:
            return TargetError("driver-refused", f"the driver refuses a message: {error.strerror}")


def uprobe_refusal(error: OSError) -> str:
    """The reason why there is no uprobe at an instruction of a file; the text is followed by the place."""
    match error.errno:
        case errno.EOPNOTSUPP | errno.ENOEXEC:
            return "the kernel has no uprobe for the instruction"
        case errno.ENOTTY:
            return "the loaded driver is an earlier one, which has no uprobes,"
        case errno.EIO:
            return "the kernel has no uprobe for the kind of file,"
        case errno.ESTALE:
            return "the file is another one by now, or was changed,"
        case errno.EINVAL:
            return "somebody else has a uprobe, whose semaphore is not this one,"
        case errno.ESRCH:
            return "the process has ended, which had code"
        case errno.E2BIG:
            return f"a program has at most {_UPROBES} uprobes, and no more room for one"
        case errno.EPERM | errno.EACCES:
            return "the file may not be executed, with code"
        case _:
            return f"no uprobe: {error.strerror}"
