# SPDX-License-Identifier: LGPL-2.1-or-later
"""Each script of examples/d/kernel prints about a busy kernel what its first lines promise."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from gilk.targets.kernel.target import KernelTarget
from tests.kernel.session.d_programs import ran

pytestmark = pytest.mark.xdist_group("lab")
SCRIPTS = Path(__file__).parents[3] / "examples" / "d" / "kernel"
WORK = ["sh", "-c", "for n in 1 2 3; do cat /proc/version | wc -c; done; cat /no/file; /no/program; sleep 0.1; true"]
#: A connection within the machine, on which a byte goes over.
CONNECTS = """
import socket, threading
server = socket.create_server(("127.0.0.1", 7777))
def answer():
    other = server.accept()[0]
    other.recv(1)
    other.close()
thread = threading.Thread(target=answer)
thread.start()
client = socket.create_connection(("127.0.0.1", 7777))
client.send(b"x")
client.recv(1)
client.close()
thread.join()"""
CONNECTED = ["sh", "-c", 'ip link set lo up; "$0" -c "$1"', sys.executable, CONNECTS]
#: The arguments of each script, and its expected output.
CASES = {
    "bitesize": ("", r"^$|bytes"),
    "cpudists": ("", r"sh, nanoseconds +\n(.*\n)*.*\|@"),
    "cswstat": ("", r"\d{4} \w+ +\d+ [\d:]+ +[1-9]\d* +\d+ +[1-9]\d*"),
    "errinfo": ("", r"cat +openat +2 +\d+"),
    "execsnoop": ("", r" cat +/\S*bin/cat\n(.*\n)*.* /no/program: error 2\n"),
    "faults": ("", r"wc +as_fault +\d+"),
    "filereads": ("", r"cat +/version +\d+|cat .*/version +\d+"),
    "hotkernel": ("", r"vmlinux`\w\S+ +\d+\n(.*\n)*vmlinux +\d+\nuser mode +\d+"),
    "kill": ("", r"signal-send +\S+ +sh +17 +\d+"),
    "kmalloc": ("", r"bytes\n(.*\n)*vmlinux`\w\S+ +\d+"),
    "modcalls": ("virtio_console", r"port_fops_read +\d+"),
    "offcpu": ("sh", r"vmlinux`schedule\+0x\w+\n(.*\n)*vmlinux`do_wait\+0x\w+\n(.*\n)*\d+ us"),
    "opensnoop": ("", r"cat +0 /proc/version\n(.*\n)*.*cat +2 /no/file\n"),
    "pidspersec": ("", r"\d{4} \w+ +\d+ [\d:]+ +[1-9]\d*\n"),
    "procsystime": ("", r"cat +read +\d+ +\d+\n"),
    "runqlat": ("", r"processor [01], nanoseconds"),
    "rwtime": ("", r"cat, read, nanoseconds "),
    "shortlived": ("", r"cat \n(.*\n)*cat +\d+ +4"),
    "syscallbyproc": ("", r"cat +read +\d+\n(.*\n)*cat +openat +2 +\d+"),
    "tcpconnect": ("", r"out +127\.0\.0\.1 +\d+ 127\.0\.0\.1 +7777\n(.*\n)*in +127\.0\.0\.1 +7777 127\.0\.0\.1 +\d+\n"),
    "tcpstates": ("", r"state-established, microseconds "),
    "timefunc": ("vfs_read", r"took, nanoseconds +\n(.*\n)+ran, nanoseconds "),
    "vfssnoop": ("", r"cat +vfs_read +[1-9]\d+ version\n"),
    "wakers": ("", r"\S+ +sh +\d+\n"),
    "xcalls": ("", r"PROGRAM +COUNT\n\S+ +\d+\n(.*\n)*.*vmlinux`native_send_call_func_\w+"),
}
#: Scripts of system calls and processes, of samples, and of signals.
EACH_RUN = {"execsnoop", "hotkernel", "kill"}


def test_scripts_run_by_their_names_on_this_machine() -> None:
    firsts = {path.name: path.read_text().partition("\n")[0] for path in SCRIPTS.glob("*.d")}
    assert firsts == dict.fromkeys(firsts, "#!/usr/bin/env -S gilk-dtrace -s") and firsts


def test_every_script_has_a_case() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.d")} == CASES.keys()


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in EACH_RUN else pytest.mark.stress) for n in CASES])
def test_a_script_prints_what_its_first_lines_promise(kernel: KernelTarget, name: str) -> None:
    given, expected = CASES[name]
    work = CONNECTED if name.startswith("tcp") else WORK
    done = ran(kernel, (SCRIPTS / f"{name}.d").read_text(), work, arguments=(given,) if given else ())
    assert not done.errors, done.errors
    assert re.search(expected, "\n".join(done.lines) + "\n"), "\n".join(done.lines)
