# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds the user at the other end of a TCP connection within this machine, in /proc/net/tcp (proc_net(5))."""

from __future__ import annotations

import ipaddress
import os
import struct
from pathlib import Path

_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_LOCAL, _REMOTE, _USER = 1, 2, 7  # columns

Address = tuple[str, int]


def user_of(client: Address, server: Address) -> int | None:
    """The owner of the socket ``client`` that is connected to ``server``; None if the kernel shows none."""
    version = ipaddress.ip_address(client[0]).version
    wanted = _shown(client), _shown(server)
    for line in _TABLES[version].read_text().splitlines()[1:]:
        fields = line.split()
        if (fields[_LOCAL], fields[_REMOTE]) == wanted:
            return int(fields[_USER])
    return None


def _shown(address: Address) -> str:
    """The address as the kernel prints it: its words as they lie in memory, and the port as a number."""
    packed = ipaddress.ip_address(address[0]).packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def trusted_users() -> frozenset[int]:
    """This user, root, and the user who became root by sudo(8) to start this process."""
    invoking = os.environ.get("SUDO_UID", "")
    by_sudo = {int(invoking)} if os.geteuid() == 0 and invoking.isdecimal() else set()
    return frozenset({os.geteuid(), 0} | by_sudo)
