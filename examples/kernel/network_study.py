#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""When do packets arrive? tcpdump has an answer, and the kernel itself another.

    python3 examples/kernel/network_study.py [DIRECTORY [CLIENTS BURSTS]]

In a virtual machine with a stock kernel, a server sends to its clients by way of the loopback interface (GILK, section
4.4), and tcpdump watches. Instruments in C are where the driver hands a packet over (netif_rx_internal), and where IP
takes it (ip_rcv), which is next to where tcpdump sees it. All three must report the same packets, in the same order on
each connection. Their histograms and power spectra are drawn together. The last table shows that the resolution of the
clock explains intervals of zero between packets.
"""

from __future__ import annotations

import shlex
import shutil
import struct
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))
from studying import compiled, directory, figure, samples_of, save, shell, text_of

import gilk
from gilk import Kernel, c
from gilk.trace import series

PORT = 4711
PLACES = {"netif_rx_internal": "handed over", "ip_rcv": "taken by IP"}
TCPDUMP = "tcpdump"
SCRIPT = """modprobe -q af_packet || true
cd /tmp
tcpdump -Z root -i lo -n -s 96 -B 32768 --time-stamp-precision=nano -w packets.pcap tcp port {port} 2> packets.err &
until grep -q listening packets.err; do sleep 0.1; done
{program} {clients} {bursts}
sleep 1.5
kill $!
wait
grep -q '^0 packets dropped by kernel' packets.err"""
#: CLOCK_REALTIME less CLOCK_MONOTONIC; of a hundred readings of both, the one that took least time.
AHEAD = """\
from time import monotonic_ns, time_ns
looks = ((monotonic_ns(), time_ns(), monotonic_ns()) for _ in range(100))
before, now, after = min(looks, key=lambda look: look[2] - look[0])
print(now - (before + after) // 2)
"""
RESOLUTIONS = {"1 ns": 1, "1 µs": 1_000, "10 µs": 10_000, "100 µs": 100_000, "1 ms": 1_000_000, "a jiffy": 4_000_000}

Times = NDArray[np.int64]


@dataclass(frozen=True, order=True)
class Packet:
    """A packet as an observer saw it. ``time`` is in ns since gilk's session began, ``ports`` has source and
    destination port, ``numbers`` TCP's sequence and acknowledgement numbers."""

    time: int
    ports: int
    numbers: int


@dataclass(frozen=True)
class Traffic:
    """The packets that each observer has seen, in order of time."""

    seen: dict[str, list[Packet]]
    restored: bool

    def times(self, observer: str) -> Times:
        return np.array([packet.time for packet in self.seen[observer]], np.int64)

    def skew(self, observer: str) -> Times:
        """By how many ns the observer saw each of tcpdump's packets later. Raises ValueError if the packets are not
        the same."""
        mine, others = by_identity(self.seen[observer]), by_identity(self.seen[TCPDUMP])
        if {key: len(times) for key, times in mine.items()} != {key: len(times) for key, times in others.items()}:
            raise ValueError(f"tcpdump and gilk at {observer} have not seen the same packets")
        return np.array([a - b for key in others for a, b in zip(mine[key], others[key], strict=True)], np.int64)

    def connections(self, observer: str) -> dict[int, list[int]]:
        """The packets of each connection and direction, in order."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for packet in self.seen[observer]:
            found[packet.ports].append(packet.numbers)
        return dict(found)


def by_identity(packets: list[Packet]) -> dict[tuple[int, int], list[int]]:
    """The times at which each packet was seen, by its ports and numbers; there may be several, as an acknowledgement
    may be sent twice."""
    times: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for packet in packets:
        times[packet.ports, packet.numbers].append(packet.time)
    return dict(times)


def study(kernel: Kernel, program: str, clients: int, bursts: int) -> Traffic:
    before = text_of(kernel, PLACES)
    script = SCRIPT.format(port=PORT, program=program, clients=clients, bursts=bursts)
    with kernel.session(ring=4 << 20) as session:
        packet = c(Path(__file__).with_name("packets.c"), "packet")
        for probe in session.insert([kernel.function(name).entry for name in PLACES], packet):
            print(f"{probe.row.point}: {probe.tactic or probe.refusal}", flush=True)
        table = samples_of(kernel, session, ["sh", "-ec", script])
        if session.drain.drops():
            raise RuntimeError(f"{session.drain.drops()} records were dropped")
        start = session.start
    seen: dict[str, list[Packet]] = {TCPDUMP: [], **{name: [] for name in PLACES}}
    for row in table.to_pylist():
        if row["value"] is not None and PORT in (row["value"] >> 16, row["value"] & 0xFFFF):
            seen[row["function"]].append(Packet(row["time"], row["value"], row["extra"] & (1 << 64) - 1))
    capture = kernel.target.link.read_file("/tmp/packets.pcap")
    ahead = int(shell(kernel, f"python3 -ISc {shlex.quote(AHEAD)}")) + start
    seen[TCPDUMP] = sorted(captured(capture, ahead))
    return Traffic(seen, bool(session.restored) and text_of(kernel, PLACES) == before)


def captured(data: bytes, ahead: int) -> Iterator[Packet]:
    """The packets in a file of tcpdump's, with times in ns (pcap-savefile(5)), less ``ahead``."""
    if data[:4] != struct.pack("<I", 0xA1B23C4D):
        raise ValueError("this is no capture with times in nanoseconds")
    at = 24
    while at < len(data):
        seconds, rest, size, _ = struct.unpack_from("<IIII", data, at)
        tcp = at + 16 + 14 + 4 * (data[at + 16 + 14] & 15)  # behind the headers of Ethernet and IP
        source, destination, sequence, acknowledged = struct.unpack_from("!HHII", data, tcp)
        time = seconds * 1_000_000_000 + rest - ahead
        yield Packet(time, source << 16 | destination, sequence << 32 | acknowledged)
        at += 16 + size


def report(traffic: Traffic) -> None:
    same = Counter(
        traffic.connections("ip_rcv")[ports] == order for ports, order in traffic.connections(TCPDUMP).items()
    )
    print(
        f"\n{len(traffic.seen[TCPDUMP])} packets, the same for tcpdump and gilk; in the same order on {same[True]} of"
    )
    print(f"{same.total()} connections' directions.")
    for observer in PLACES:
        low, median, high = (value / 1000 for value in np.percentile(traffic.skew(observer), (1, 50, 99)))
        print(f"gilk at {observer} less tcpdump: median {median:.1f} µs; 98 in 100 from {low:.1f} to {high:.1f} µs")
    print(f"\nTime to the next packet, in µs\n{'':20}{'least':>10}{'10 %':>10}{'median':>10}{'90 %':>10}{'zero':>8}")
    for observer in traffic.seen:
        times = series.intervals(traffic.times(observer))
        numbers = "".join(f"{value / 1000:10.1f}" for value in np.percentile(times, (0, 10, 50, 90)))
        print(f"{observer:20}{numbers}{int((times == 0).sum()):8}")
    print("\nHow many of these times were zero, if the clock went on in steps of")
    print(f"{'':20}" + "".join(f"{name:>10}" for name in RESOLUTIONS))
    for observer in traffic.seen:
        parts = [(series.intervals(traffic.times(observer) // step) == 0).mean() for step in RESOLUTIONS.values()]
        print(f"{observer:20}" + "".join(f"{100 * part:8.2f} %" for part in parts))
    print(f"\nThe kernel's text is {'what it was, byte for byte' if traffic.restored else 'NOT what it was'}.")


def draw(traffic: Traffic, path: Path) -> None:
    """Draw histograms of the times from packet to packet, and power spectra of the arrivals."""
    made, (left, right) = figure(11, 4.5, columns=2)
    every = [traffic.times(observer) for observer in traffic.seen]
    start, end = int(min(times[0] for times in every)), int(max(times[-1] for times in every))
    above = np.concatenate([series.intervals(times) for times in every])
    edges = series.logarithmic_bins(float(max(above.min(), 1)) / 1000, float(above.max()) / 1000, 8)
    width = series.round_width(end - start, 1 << 14)
    for observer, times in zip(traffic.seen, every, strict=True):
        name = observer if observer == TCPDUMP else f"gilk, {observer}: {PLACES[observer]}"
        wide = {"linewidth": 2.5, "alpha": 0.5} if observer == TCPDUMP else {"linewidth": 0.9}  # the others lie over it
        left.stairs(np.histogram(series.intervals(times) / 1000, edges)[0], edges, label=name, **wide)
        frequencies, power = series.spectrum(times, width, start, end)
        slope = series.slope(frequencies, power)
        right.plot(
            frequencies,
            power,
            **{**wide, "linewidth": wide["linewidth"] * 0.6},
            label=observer + (f": f^{slope:.2f}" if slope else ""),
        )
    left.set(xscale="log", xlabel="time to the next packet in µs", ylabel="packets", title="Inter-arrival times")
    right.set(xscale="log", yscale="log", xlabel="frequency in Hz", ylabel="power density in (1/s)²/Hz")
    right.set_title("Power spectra; the slope is of their lower halves", fontsize="medium")
    for axes in (left, right):
        axes.legend(fontsize="small")
        axes.grid(True, linewidth=0.3)
    save(made, path)


def main() -> int:
    if not shutil.which(TCPDUMP):
        print("tcpdump is not installed (apt-get install tcpdump)", file=sys.stderr)
        return 1
    place = directory(sys.argv)
    clients, bursts = map(int, sys.argv[2:4]) if len(sys.argv) > 3 else (60, 60)
    with tempfile.TemporaryDirectory() as name:
        program = compiled("traffic", Path(name))
        print("starting a virtual machine with a stock kernel, and reading its code", flush=True)
        with gilk.kernel("lab") as kernel:
            traffic = study(kernel, str(program), clients, bursts)
    report(traffic)
    draw(traffic, place / "network.png")
    return 0 if traffic.restored else 1


if __name__ == "__main__":
    sys.exit(main())
