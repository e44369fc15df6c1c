# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``ip``: packets that leave for a device, and that came for this machine. Types: library/kernel/net.d."""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.d.probes import Description
from gilk.providers.kernel import table
from gilk.providers.kernel.probe import HasKernel, KernelProbe

_ROWS = table.rows("""
    send    | e:ip_finish_output  | | args[2]; args[1]; args[2]; args[2]->dev; args[2]; args[2]
    send    | e:ip6_finish_output | | args[2]; args[1]; args[2]; args[2]->dev; args[2]; args[2]
    receive | e:ip_local_deliver  | | args[0]; args[0]->sk; args[0]; args[0]->dev; args[0]; args[0]
    receive | e:ip6_input         | | args[0]; args[0]->sk; args[0]; args[0]->dev; args[0]; args[0]
""")
NOT_SEEN = {
    **dict.fromkeys(("drop-in", "drop-out"), "the kernel has many places where it drops packets: rawtp:skb::kfree_skb"),
}


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes of the table."""
    return table.probes("ip", _ROWS, target, description)
