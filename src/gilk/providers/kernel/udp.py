# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``udp``: datagrams, sent with complete headers, and received by a socket. Types:
library/kernel/net.d."""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.d.probes import Description
from gilk.providers.kernel import table
from gilk.providers.kernel.probe import HasKernel, KernelProbe

_ROWS = table.rows("""
    send    | e:ip_send_skb  | skb_protocol4[args[1]] == 17 | args[1]; args[1]->sk; args[1]; args[1]->sk; args[1]
    send    | e:ip6_send_skb | skb_protocol6[args[0]] == 17 | args[0]; args[0]->sk; args[0]; args[0]->sk; args[0]
    receive | e:udp_queue_rcv_one_skb | | args[1]; args[0]; args[1]; args[0]; args[1]
    receive | e:udpv6_queue_rcv_one_skb | | args[1]; args[0]; args[1]; args[0]; args[1]
""")
NOT_SEEN: dict[str, str] = {}


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes of the table."""
    return table.probes("udp", _ROWS, target, description)
