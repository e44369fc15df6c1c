# SPDX-License-Identifier: LGPL-2.1-or-later
"""Gives up root's rights, in a process that reads files which anyone may have made."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping
from typing import Final

_KEEP_CAPS, _NO_NEW_RIGHTS = 8, 38  # prctl(2): PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS
_VERSION_3: Final = 0x20080522  # capset(2)
_READ_ALL: Final = 1 << 2  # CAP_DAC_READ_SEARCH


def only_read() -> None:
    """Become the user who became root by sudo(8), and keep of root's rights only that to read all files.

    Does nothing without such a user. Raises OSError.
    """
    user, group = _invoking(os.environ)
    if os.geteuid() != 0 or not user:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    _done(libc.prctl(_KEEP_CAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    header = struct.pack("=Ii", _VERSION_3, 0)
    rights = struct.pack("=6I", _READ_ALL, _READ_ALL, 0, 0, 0, 0)  # effective, permitted, inheritable; upper halves
    _done(libc.capset(header, rights))
    _done(libc.prctl(_NO_NEW_RIGHTS, 1, 0, 0, 0))


def _invoking(environment: Mapping[str, str]) -> tuple[int, int]:
    """The user and the group who became root by sudo(8); zeros without them."""
    words = environment.get("SUDO_UID", ""), environment.get("SUDO_GID", "")
    user, group = (int(word) if word.isdecimal() else 0 for word in words)
    return user, group or user


def _done(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
