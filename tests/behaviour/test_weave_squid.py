# SPDX-License-Identifier: LGPL-2.1-or-later
"""Debian's squid with the process's part of accounting.aspect; read(2) takes the place of the kernel's vfs_read.
tests/kernel/session/test_weave_squid_kernel.py tests the kernel's part."""

from __future__ import annotations

import ipaddress
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gilk
from tests.behaviour.advised import aspects
from tests.behaviour.harness import differences, leftovers, wait_for
from tests.behaviour.test_weave import EXAMPLES
from tests.programs import squid

ACCOUNTING = (EXAMPLES / "accounting.aspect").read_text()
MANAGER = "HttpRequest::manager(CbcPointer<ConnStateData> const&, RefCount<AccessLogEntry> const&)"
KERNEL = re.compile(r"K: call\(.*?(?=\n  A:)", re.DOTALL)
#: An element for reads of regular files by the library's read().
READ = """A: call(ssize_t libc:read(int fd, void *buf, size_t count)) && return(n)
     && if (pid() == who) && if (regular(fd)) then after { if (n > 0) add(bytes, client, n); } *;"""
REGULAR = """%{ #include <sys/stat.h>
static int regular(int fd) { struct stat one; return !fstat(fd, &one) && S_ISREG(one.st_mode); } %}
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def by_client(rows: dict[bytes, int]) -> dict[str, int]:
    return {str(ipaddress.IPv6Address(key[:16]).ipv4_mapped): value for key, value in rows.items()}


@pytest.mark.stress
def test_offsets_in_the_example_are_those_in_squids_code() -> None:
    """HttpRequest::manager copies the connection's remote address into the request, beginning with its first bytes;
    the offsets are in that code."""
    words = ["objdump", "-d", "-C", "--no-show-raw-insn", f"--disassemble={MANAGER}", squid.SQUID]
    code = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    copied = re.search(r"mov +(0x\w+)\(%rax\),%rbp\n(?:.*\n){1,20}?.*movdqu (0x\w+)\(%rbp\),%xmm0", code)
    assert copied is not None, code
    assert f"AT(conn, {copied[1]}) + {copied[2]} + 8" in ACCOUNTING


@pytest.fixture
def place() -> Iterator[Path]:
    with squid.place() as path:
        yield path


@pytest.mark.stress
def test_reads_of_squid_are_accounted_to_the_client_that_caused_them(place: Path) -> None:
    """The sums are the lengths of files on disk, and what strace sees of the same requests; clients and squid's own
    log say how often each was answered."""
    port = free_port()
    asked = squid.fill(place, port)
    (place / "access").unlink()
    text, replaced = KERNEL.subn(READ, REGULAR + ACCOUNTING)
    assert replaced == 1
    with squid.squid(place, port) as server:
        assert squid.answers(port, asked) == squid.asked_for()
        with gilk.attach(server.pid) as target, gilk.weave(aspects(place, text), target) as weaving:
            assert squid.answers(port, asked) == squid.asked_for()
            assert wait_for(lambda: weaving.counts()[0].matches[2] > 0)
            found, counts = sums(weaving), weaving.counts()[0]
        trace = by_strace(place, server.pid, port, asked)
        assert (differences(server.pid), leftovers(server.pid)) == ([], [])
    assert found == squid.read_by_strace(trace)
    assert found == {client: size * squid.OBJECTS[client][1] for client, size in squid.stored(place).items()}
    assert counts.begun == counts.matches[0] == len(asked)
    assert squid.logged((place / "access").read_text()) == {
        client: 3 * amount for client, amount in squid.asked_for().items()
    }


def sums(weaving: Any) -> dict[str, int]:
    (table,) = weaving.tables()
    return by_client({row.key: row.sum for row in table.rows})


def by_strace(place: Path, pid: int, port: int, asked: list[tuple[str, str]]) -> str:
    """strace's output about the reads while these requests are answered."""
    path = place / "strace"
    with subprocess.Popen(
        ["strace", "-y", "-e", "trace=read", "-o", path, "-p", str(pid)], stderr=subprocess.PIPE
    ) as one:
        assert one.stderr is not None and b"attached" in one.stderr.readline()
        squid.answers(port, asked)
        one.terminate()
        one.wait(240)
    return path.read_text()
