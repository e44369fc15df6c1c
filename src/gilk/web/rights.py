# SPDX-License-Identifier: LGPL-2.1-or-later
"""Gives up root's rights: all but one in a process that reads files which anyone may have made, all of them in the
process that speaks HTTP.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from collections.abc import Mapping
from typing import Final

_DUMPABLE, _KEEP_CAPS, _NO_NEW_RIGHTS = 4, 8, 38  # prctl(2): PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS
_VERSION_3: Final = 0x20080522  # capset(2)
_READ_ALL: Final = 1 << 2  # CAP_DAC_READ_SEARCH
_libc: Final = ctypes.CDLL(None, use_errno=True)


def only_read() -> None:
    """Become the user who became root by sudo(8), and keep of root's rights only that to read all files.

    Does nothing without such a user. Raises OSError.
    """
    user, group = invoking(os.environ)
    if os.geteuid() != 0 or not user:
        return
    _done(_libc.prctl(_KEEP_CAPS, 1, 0, 0, 0))
    _become(user, group, _READ_ALL)


def give_up(user: int, group: int) -> None:
    """Become that user, with no other group and no right of root's; and undumpable, so that no other process of the
    user's can trace this one (ptrace(2)). Raises OSError.
    """
    _become(user, group, 0)
    _done(_libc.prctl(_DUMPABLE, 0, 0, 0, 0))


def may_read(user: int, group: int, path: str) -> bool:
    """Whether that user, with no other group than this, may read a file."""
    words = ("test", "-r", path)
    return subprocess.run(words, user=user, group=group, extra_groups=[], cwd="/", check=False).returncode == 0


def _become(user: int, group: int, kept: int) -> None:
    """Become that user, with these capabilities. Raises OSError."""
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    header = struct.pack("=Ii", _VERSION_3, 0)
    rights = struct.pack("=6I", kept, kept, 0, 0, 0, 0)  # effective, permitted, inheritable; upper halves
    _done(_libc.capset(header, rights))
    _done(_libc.prctl(_NO_NEW_RIGHTS, 1, 0, 0, 0))


def invoking(environment: Mapping[str, str]) -> tuple[int, int]:
    """The user and the group who became root by sudo(8); zeros without them."""
    words = environment.get("SUDO_UID", ""), environment.get("SUDO_GID", "")
    user, group = (int(word) if word.isdecimal() else 0 for word in words)
    return user, group or user


def _done(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
