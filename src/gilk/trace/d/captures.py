# SPDX-License-Identifier: LGPL-2.1-or-later
"""Packets in the format of capture files (pcap), which tcpdump and Wireshark read; draft-ietf-opsawg-pcap describes
it."""

from __future__ import annotations

import struct
from typing import Final

from gilk.trace.d.values import Packet

_NANOSECONDS: Final = 0xA1B23C4D  # the magic number of files whose times have nine digits
_LONGEST: Final = 1 << 18  # bytes of a packet in a file, for readers that prepare room
#: Kinds of headers whose number in files differs from D's: PCAP_IP.
_IN_FILES: Final = {12: 101}


def head(link: int) -> bytes:
    """The beginning of a file of packets whose outermost header is of the kind ``link``, a PCAP_ constant of D."""
    return struct.pack("<IHHiIII", _NANOSECONDS, 2, 4, 0, 0, _LONGEST, _IN_FILES.get(link, link) & 0xFFFFFFFF)


def entry(packet: Packet) -> bytes:
    seconds, rest = divmod(packet.time, 10**9)
    return struct.pack("<IIII", seconds & 0xFFFFFFFF, rest, len(packet.data), packet.length) + packet.data
