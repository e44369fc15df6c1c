# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``tcp``: segments, and connections that come and go. Types: library/kernel/net.d.

A segment counts as sent where its IP header is complete: the header of version 6 is made between ip6_xmit() and
ip6_output(); forwarded packets pass the latter without a socket. Sockets that only answer with a reset are SOCK_RAW, 3,
and belong to no process. In states 6 and 12, TIME_WAIT and NEW_SYN_RECV, a packet's socket is not a whole struct sock.
"""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.d.probes import Description
from gilk.providers.kernel import table
from gilk.providers.kernel.probe import HasKernel, KernelProbe

_OURS = "args[1] == NULL ? (struct sock *)NULL : args[1]->sk_type == 3 ? (struct sock *)NULL : args[1]"
_SENT = f"args[2]; {_OURS}; args[2]; {_OURS}; args[2]"
_THEIRS = "whole_socket[args[0]->sk]"
_GOT = f"args[0]; {_THEIRS}; args[0]; {_THEIRS}; args[0]"
_STATE = "0; args[0]; args[0]; args[0]; 0; (int)arg1; (int)arg2"
_TCP = "args[0]->sk_protocol == 6"
_ASKS = "(skb_tcp_flags[args[1]] & 0x12) == 2"  # SYN is set, and ACK is not
_REFUSED = "args[1]; args[0]; args[1]; args[0]; args[1]"
_ROWS = table.rows(f"""
    state-change        | t:inet_sock_set_state | {_TCP}                             | {_STATE}
    connect-established | t:inet_sock_set_state | {_TCP} && (int)arg1 == 2 && (int)arg2 == 1 | {_STATE}
    accept-established  | t:inet_sock_set_state | {_TCP} && (int)arg1 == 3 && (int)arg2 == 1 | {_STATE}
    connect-request     | e:tcp_connect         |                                    | 0; args[0]; args[0]; args[0]; 0
    connect-refused     | e:tcp_reset           | args[0]->__sk_common.skc_state == 2 | {_REFUSED}
    accept-refused      | e:tcp_v4_send_reset   | {_ASKS}                            | args[1]; 0; args[1]; 0; args[1]
    accept-refused      | e:tcp_v6_send_reset   | {_ASKS}                            | args[1]; 0; args[1]; 0; args[1]
    send                | e:__ip_local_out      | skb_protocol4[args[2]] == 6        | {_SENT}
    send                | e:ip6_output          | args[1] != NULL && skb_protocol6[args[2]] == 6 | {_SENT}
    receive             | e:tcp_v4_rcv          |                                    | {_GOT}
    receive             | e:tcp_v6_rcv          |                                    | {_GOT}
""")
NOT_SEEN: dict[str, str] = {}


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes of the table."""
    return table.probes("tcp", _ROWS, target, description)
