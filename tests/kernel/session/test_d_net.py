# SPDX-License-Identifier: LGPL-2.1-or-later
"""ip, tcp and udp in a live stock kernel, beside the kernel's counts of the same work in /proc/net."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import ran
from tests.kernel.session.test_d_programs import shell
from tests.seldom import seldom

pytestmark = pytest.mark.xdist_group("lab")
PORT = 4711
CLIENTS = 3
WORDS = 40
COUNTERS = "/proc/net/snmp /proc/net/snmp6"
#: Both ends are in one program: connections one after the other, each of which is written to and closed.
TCP = f"""
import socket
family, address, refused = socket.AF_INET6 if %(six)d else socket.AF_INET, "%(address)s", 0
server = socket.socket(family, socket.SOCK_STREAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind((address, {PORT}))
server.listen()
for _ in range({CLIENTS}):
    client = socket.create_connection((address, {PORT}))
    peer, _ = server.accept()
    for _ in range({WORDS}):
        client.sendall(b"word")
        peer.recv(4, socket.MSG_WAITALL)
    client.close()
    assert not peer.recv(1)
    peer.close()
server.close()
try:
    socket.create_connection((address, {PORT + 1}))
except ConnectionRefusedError:
    pass
"""
UDP = f"""
import socket
family, address = socket.AF_INET6 if %(six)d else socket.AF_INET, "%(address)s"
server, client = (socket.socket(family, socket.SOCK_DGRAM) for _ in range(2))
server.bind((address, {PORT}))
for n in range({WORDS}):
    client.sendto(b"x" * n, (address, {PORT}))
    server.recv(100)
"""


@pytest.fixture(scope="module", autouse=True)
def loopback(guest: Guest) -> Iterator[None]:
    shell(guest, "ip link set lo up")
    yield
    shell(guest, "ip link set lo down")


def counters(guest: Guest) -> Counter[str]:
    """The kernel's counters by protocol and name: ``TcpInSegs``, ``Udp6InDatagrams``."""
    found: Counter[str] = Counter()
    names: list[str] = []
    for line in shell(guest, f"cat {COUNTERS}").splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            found[first] = int(rest[0])
        elif rest[0].lstrip("-").isdigit():
            found.update({first[:-1] + name: int(value) for name, value in zip(names, rest, strict=True)})
        else:
            names = rest
    return found


VERSIONS = pytest.mark.parametrize("version", seldom([4, 6], 1))


def work(script: str, version: int) -> list[str]:
    given = {"six": version == 6, "address": "::1" if version == 6 else "127.0.0.1"}
    return ["/usr/bin/python3", "-c", script % given]


@VERSIONS
def test_tcp_segments_are_those_that_the_kernel_counts(kernel: KernelTarget, guest: Guest, version: int) -> None:
    text = """
        tcp:::send { @sent["sent", args[2]->ip_ver] = count(); }
        tcp:::receive { @got["got", args[2]->ip_ver] = count(); }
        tcp:::connect-request { @asked["asked", args[2]->ip_ver] = count(); }
        tcp:::accept-established { @accepted["accepted", args[2]->ip_ver] = count(); }
        ip:::send /(args[2]->ip_ver == 4 ? args[4]->ipv4_protostr : args[5]->ipv6_nextstr) == "TCP"/ {
            @named[args[2]->ip_ver == 6 || args[4]->ipv4_flags == 4 ? "named" : "divided", args[2]->ip_ver] = count(); }
        END { printa("%s %d %@d\\n", @named); }
        END { printa("%s %d %@d\\n", @sent); printa("%s %d %@d\\n", @got); printa("%s %d %@d\\n", @asked);
            printa("%s %d %@d\\n", @accepted); }"""
    before = counters(guest)
    done = ran(kernel, text, work(TCP, version))
    counted = counters(guest) - before
    found = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in done.lines}
    assert found == {
        f"sent {version}": counted["TcpOutSegs"], f"got {version}": counted["TcpInSegs"],
        f"named {version}": counted["TcpOutSegs"],
        f"asked {version}": counted["TcpActiveOpens"], f"accepted {version}": counted["TcpPassiveOpens"],
    }  # fmt: skip
    assert counted["TcpOutSegs"] > CLIENTS * WORDS and counted["TcpActiveOpens"] == CLIENTS + 1
    assert not done.errors and done.restored


@pytest.mark.parametrize("version", seldom([6, 4], 1))
def test_tcp_connections_go_through_their_states(kernel: KernelTarget, version: int) -> None:
    """The expected states are those of the end that closes first."""
    text = f"""
        tcp:::state-change /args[3]->tcps_rport == {PORT}/
        {{
            printf("%s %s %d %s\\n", tcp_state_string[args[5]->tcps_state], tcp_state_string[args[3]->tcps_state],
                args[3]->tcps_rport, args[3]->tcps_raddr);
        }}"""
    done = ran(kernel, text, work(TCP, version))
    address = "::1" if version == 6 else "127.0.0.1"
    # in TIME_WAIT another socket takes the place of this one, which is closed
    states = ["syn-sent", "established", "fin-wait-1", "fin-wait-2", "closed"]
    steps = [f"state-{a} state-{b} {PORT} {address}" for a, b in itertools.pairwise(states)]
    assert done.lines[-len(steps) :] == steps and len(done.lines) % CLIENTS == 0
    assert [line for line in done.lines if not line.startswith("state-closed")] == steps * CLIENTS
    assert not done.errors


@VERSIONS
def test_refused_connections_are_reported(kernel: KernelTarget, version: int) -> None:
    text = """
        tcp:::connect-refused { printf("%s %d %d\\n", probename, args[3]->tcps_rport, args[4]->tcp_sport); }
        tcp:::accept-refused { printf("%s %d %d\\n", probename, args[4]->tcp_dport, args[4]->tcp_flags == TH_SYN ||
            args[4]->tcp_flags == (TH_SYN | TH_ECE | TH_CWR)); }
        tcp:::connect-established { @established = count(); }
        END { printa("%@d\\n", @established); }"""
    done = ran(kernel, text, work(TCP, version))
    assert done.lines == [f"accept-refused {PORT + 1} 1", f"connect-refused {PORT + 1} {PORT + 1}", str(CLIENTS)]
    assert not done.errors


@VERSIONS
def test_udp_datagrams_are_those_that_the_kernel_counts(kernel: KernelTarget, guest: Guest, version: int) -> None:
    text = f"""
        udp:::send {{ @["sent", args[2]->ip_ver, args[4]->udp_dport] = count();
            @bytes = sum(args[4]->udp_length - 8); }}
        udp:::receive {{ @["got", args[2]->ip_ver, args[3]->udps_lport] = count();
            @bytes = sum(args[2]->ip_plength - 8); }}
        ip:::send /args[2]->ip_ver == {version}/ {{ @ip["sent", args[3]->if_name, args[2]->ip_saddr] = count(); }}
        ip:::receive /args[2]->ip_ver == {version}/ {{ @ip["got", args[3]->if_name, args[2]->ip_daddr] = count(); }}
        END {{ printa("%s %d %d %@d\\n", @); printa("%@d\\n", @bytes); printa("%s %s %s %@d\\n", @ip); }}"""
    before = counters(guest)
    done = ran(kernel, text, work(UDP, version))
    counted = counters(guest) - before
    name, ip, address = ("Udp6", "Ip6", "::1") if version == 6 else ("Udp", "Ip", "127.0.0.1")
    assert counted[f"{name}OutDatagrams"] == counted[f"{name}InDatagrams"] == WORDS
    total = 2 * sum(range(WORDS))
    assert sorted(done.lines) == sorted(
        [f"sent {version} {PORT} {WORDS}", f"got {version} {PORT} {WORDS}", str(total),
         f"sent lo {address} {counted[f'{ip}OutRequests']}", f"got lo {address} {counted[f'{ip}InDelivers']}"]
    )  # fmt: skip
    assert not done.errors


#: A stream in one piece, which the kernel keeps in pages that its packets refer to.
STREAM = """
import socket
server = socket.create_server(("127.0.0.1", 4711))
client = socket.create_connection(("127.0.0.1", 4711))
peer, _ = server.accept()
client.sendall(%r)
client.shutdown(socket.SHUT_WR)
while peer.recv(1 << 16):
    pass
"""
PIECE = 2000
SENT = bytes(n * 7 % 251 for n in range(PIECE))


def test_captured_packets_have_the_bytes_that_the_program_sends(kernel: KernelTarget) -> None:
    text = f"""
        ip:::send /args[4]->ipv4_protocol == IPPROTO_TCP && args[2]->ip_plength > {PIECE}/
        {{
            @paged["paged"] = max(((struct sk_buff *)arg0)->data_len);
            pcap((struct sk_buff *)arg0, PCAP_IP);
        }}
        END {{ printa("%s %@d\\n", @paged); }}"""
    done = ran(kernel, text, ["/usr/bin/python3", "-c", STREAM % SENT], pcapsize="3k")
    assert not done.errors and done.restored
    dump = [line for line in done.lines if re.match(r" *[0-9a-f]+: ", line)]
    packet = bytes.fromhex("".join(line.partition(": ")[2][: 3 * 16] for line in dump))
    assert done.lines[-1] == f"paged {PIECE}"
    assert packet[-PIECE:] == SENT
    assert packet[0] >> 4 == 4 and int.from_bytes(packet[2:4], "big") == len(packet)
