# SPDX-License-Identifier: LGPL-2.1-or-later
"""Capture files of pcap(), read by tcpdump."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

from gilk.trace.d import captures
from gilk.trace.d.values import Packet

IP, ETHER = 12, 1


def datagram(payload: bytes, port: int) -> bytes:
    """An IPv4 packet with a UDP datagram; checksums are 0."""
    inner = struct.pack(">HHHH", 4711, port, 8 + len(payload), 0) + payload
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(inner), 1, 0, 64, 17, 0, b"\x7f\0\0\1", b"\x7f\0\0\2") + inner


def read(path: Path, *options: str) -> list[str]:
    command = ["tcpdump", "-n", "-tt", "--nano", *options, "-r", str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"TZ": "UTC", "PATH": "/usr/bin:/bin:/usr/sbin"}
    )
    return done.stdout.splitlines()


def test_tcpdump_reads_times_lengths_and_headers(tmp_path: Path) -> None:
    whole = datagram(b"a" * 1000, 4712)
    packets = [
        Packet(1_700_000_000_123_456_789, IP, 28 + 5, datagram(b"hello", 4713)),
        Packet(1_700_000_001_000_000_001, IP, len(whole), whole[:100]),
    ]
    path = tmp_path / "out.pcap"
    path.write_bytes(captures.head(IP) + b"".join(map(captures.entry, packets)))
    assert read(path) == [
        "1700000000.123456789 IP 127.0.0.1.4711 > 127.0.0.2.4713: UDP, length 5",
        "1700000001.000000001 IP 127.0.0.1.4711 > 127.0.0.2.4712: UDP, length 1000",
    ]


def test_tcpdump_reads_packets_of_ethernet(tmp_path: Path) -> None:
    path = tmp_path / "out.pcap"
    data = bytes(6) + bytes(6) + b"\x08\0" + datagram(b"", 1)
    path.write_bytes(captures.head(ETHER) + captures.entry(Packet(10**9, ETHER, len(data), data)))
    assert read(path, "-e") == [
        "1.000000000 00:00:00:00:00:00 > 00:00:00:00:00:00, ethertype IPv4 (0x0800), length 42: "
        "127.0.0.1.4711 > 127.0.0.2.1: UDP, length 0"
    ]
