# SPDX-License-Identifier: LGPL-2.1-or-later
"""A kernel by way of a relay: reads are correct, commands behave, and nonsense is refused."""

from __future__ import annotations

import errno
import hashlib
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.errors import MachineGone, TargetError
from gilk.lab import VM
from gilk.targets.framing import MessageKind
from gilk.targets.kernel.channel import Channel
from gilk.targets.kernel.link import LocalLink, RelayLink, start_relay
from gilk.targets.kernel.relay import bundle

HEADER = struct.Struct("<IIB")  # as framing.py describes it, written independently
FILE, CORE, CONTROL, SPAWN, INPUT, LEND = 1, 2, 4, 7, 8, 11
HELLO, PART, DONE, FAIL, EXIT = 64, 65, 66, 67, 71
LIMIT = 120  # seconds


@pytest.fixture(scope="module")
def link() -> Iterator[RelayLink]:
    with start_relay() as relay:
        yield relay


class TestHere:
    """A relay on this machine, whose answers the system itself can check."""

    def test_the_link_reports_the_kernel_release(self, link: RelayLink) -> None:
        assert link.release == os.uname().release

    def test_files_of_unknown_and_of_large_size_are_read(self, link: RelayLink, tmp_path: Path) -> None:
        large = tmp_path / "large"
        large.write_bytes(os.urandom(5_000_001))
        assert link.read_file(str(large)) == large.read_bytes()
        assert link.read_file("/proc/version") == Path("/proc/version").read_bytes()
        assert LocalLink().read_file(str(large)) == large.read_bytes()

    def test_a_file_that_claims_a_wrong_size_is_read(self, link: RelayLink, tmp_path: Path) -> None:
        """The file is not read; the relay goes on."""
        sparse = tmp_path / "sparse"
        sparse.touch()
        os.truncate(sparse, 1 << 40)
        for each in (link, LocalLink()):
            with pytest.raises(OSError, match="larger than 1024 MiB") as caught:
                each.read_file(str(sparse))
            assert caught.value.errno == errno.EFBIG
        assert link.run(["true"]) == (0, b"", b"")

    def test_output_of_an_endless_command_is_limited(self, link: RelayLink, monkeypatch: pytest.MonkeyPatch) -> None:
        """The command is killed; the relay goes on."""
        monkeypatch.setattr("gilk.targets.kernel.link.LARGEST_ANSWER", 1 << 20)
        with pytest.raises(OSError, match="what sh wrote") as caught:
            link.run(["sh", "-c", "exec yes"])
        assert caught.value.errno == errno.EFBIG
        assert link.run(["true"]) == (0, b"", b"")

    def test_requests_that_do_not_wait_for_one_another_are_answered_in_order(
        self, link: RelayLink, tmp_path: Path
    ) -> None:
        """There are more than may be under way at once, with long and short answers. The first error is raised, and
        the answers behind it are no answers to later requests."""
        files = [tmp_path / str(number) for number in range(1000)]
        for number, file in enumerate(files):
            file.write_bytes(b"%d" % number * (number % 7) * 1000)
        names = [os.fsencode(file) for file in files]
        asked = link.channel.ask_all(MessageKind.FILE, names, LIMIT)
        assert asked == [file.read_bytes() for file in files]
        files[500].unlink()
        files[500].mkdir()
        files[501].unlink()
        with pytest.raises(OSError, match="not a regular file"):
            link.channel.ask_all(MessageKind.FILE, names, LIMIT)
        assert link.channel.ask_all(MessageKind.FILE, names[:2], LIMIT) == asked[:2]
        assert link.channel.ask_all(MessageKind.FILE, [], LIMIT) == []

    def test_a_missing_file_is_an_error(self, link: RelayLink) -> None:
        for each in (link, LocalLink()):
            with pytest.raises(FileNotFoundError):
                each.read_file("/nonesuch")

    def test_a_request_without_a_driver_is_an_error_and_the_link_stays(self, link: RelayLink) -> None:
        with pytest.raises(OSError) as caught:
            link.control(0, b"")
        assert caught.value.errno == errno.EBADF
        assert link.run(["true"]) == (0, b"", b"")

    def test_status_output_and_errors_of_a_command_are_returned(self, link: RelayLink) -> None:
        script = ["sh", "-c", "echo out; echo err >&2; exit 3"]
        assert link.run(script) == (3, b"out\n", b"err\n") == LocalLink().run(script)

    def test_death_by_a_signal_has_the_status_of_a_shell(self, link: RelayLink) -> None:
        script = ["sh", "-c", "kill -TERM $$"]
        shell = subprocess.run(["sh", "-c", "sh -c 'kill -TERM $$'; exit $?"]).returncode
        assert link.run(script)[0] == shell == LocalLink().run(script)[0]

    def test_input_arrives_whole_while_output_comes_back(self, link: RelayLink) -> None:
        """More data goes both ways than any pipe or window holds."""
        data = os.urandom(6_000_000)
        assert link.run(["cat"], data, LIMIT) == (0, data, b"")
        assert link.run(["sha256sum"], data, LIMIT)[1].split()[0].decode() == hashlib.sha256(data).hexdigest()

    def test_unread_input_does_not_block_a_command(self, link: RelayLink) -> None:
        assert link.run(["true"], bytes(3_000_000), LIMIT)[0] == 0
        assert link.run(["head", "-c1"], b"x" * 3_000_000, LIMIT) == (0, b"x", b"")

    def test_an_unknown_command_is_an_error(self, link: RelayLink, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="nonesuch"):
            link.run(["nonesuch"])
        with pytest.raises(PermissionError):
            link.run([str(tmp_path)])

    def test_an_unknown_directory_is_an_error(self, link: RelayLink) -> None:
        with pytest.raises(FileNotFoundError, match="/not/there"):
            link.spawn(["true"], print, print, directory="/not/there")

    def test_a_command_that_does_not_end_is_killed(self, link: RelayLink) -> None:
        with pytest.raises(TargetError) as caught:
            link.run(["sh", "-c", "trap '' TERM INT; sleep 1000"], timeout=0.2)
        assert caught.value.slug == "command-timeout"
        assert link.run(["true"])[0] == 0

    def test_a_local_command_that_does_not_end_is_killed(self) -> None:
        link = LocalLink()
        link.patience = 0.2
        with pytest.raises(TargetError) as caught:
            link.run(["sh", "-c", "trap '' TERM INT; exec sleep 1000"])
        assert caught.value.slug == "command-timeout"
        link.patience = LIMIT
        assert link.run(["true"])[0] == 0

    def test_other_requests_are_answered_while_a_process_runs(self, link: RelayLink) -> None:
        out = bytearray()
        process = link.spawn(["sh", "-c", "echo ready; cat"], out.extend, out.extend)
        link.channel.until(lambda: out == b"ready\n", LIMIT)
        assert link.read_file("/proc/version") == Path("/proc/version").read_bytes()
        assert process.status is None
        process.write(b"and on\n")
        process.end_input()
        assert process.wait(LIMIT) == 0
        assert out == b"ready\nand on\n"

    def test_a_process_on_a_terminal_sees_its_size(self, link: RelayLink) -> None:
        out = bytearray()
        process = link.spawn(["sh", "-c", "stty size; read x; stty size"], out.extend, out.extend, size=(33, 77))
        link.channel.until(lambda: b"33 77" in out, LIMIT)
        process.resize(20, 10)
        process.write(b"\n")
        assert process.wait(LIMIT) == 0
        assert b"20 10" in out

    def test_a_signal_reaches_the_whole_group(self, link: RelayLink) -> None:
        out = bytearray()
        process = link.spawn(["sh", "-c", "sleep 1000 & echo $!; wait"], out.extend, out.extend)
        link.channel.until(lambda: out.endswith(b"\n"), LIMIT)
        handle = os.pidfd_open(int(out))
        process.signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 128 + signal.SIGTERM
        assert select.select([handle], [], [], LIMIT)[0]
        os.close(handle)


class TestBadEnds:
    """Programs that are no relays, or stop being relays, are recognised."""

    @pytest.mark.parametrize(
        ("through", "limit", "slug"),
        [
            (["false"], LIMIT, "relay-gone"),
            (["sh", "-c", "sleep 1000"], 0.5, "relay-silent"),
            (["sh", "-c", "yes"], LIMIT, "relay-broken"),
        ],
    )
    def test_a_relay_that_does_not_start_raises_a_named_error(
        self, through: list[str], limit: float, slug: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("gilk.targets.kernel.link._FAREWELL", 0.2)
        with pytest.raises(TargetError) as caught:
            start_relay(through, timeout=limit)
        assert caught.value.slug == slug

    def test_a_killed_relay_is_reported(self) -> None:
        with start_relay() as link:
            pid = int(link.run(["sh", "-c", "echo $PPID"])[1])
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(TargetError) as caught:
                link.read_file("/proc/version")
        assert caught.value.slug == "relay-gone"

    def test_a_silent_relay_is_reported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A relay in a machine that hangs behaves so. One timeout is enough: later requests fail at once."""
        monkeypatch.setattr("gilk.targets.kernel.link._FAREWELL", 0.2)
        with start_relay() as link:
            pid = int(link.run(["sh", "-c", "echo $PPID"])[1])
            link.patience = 0.5
            os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            with pytest.raises(MachineGone) as caught:
                link.read_file("/proc/version")
            assert caught.value.slug == "relay-silent"
            assert 0.5 <= time.monotonic() - began < LIMIT
            os.kill(pid, signal.SIGCONT)
            for ask in (lambda: link.control(0, b""), lambda: link.drain(1), lambda: link.run(["true"])):
                with pytest.raises(MachineGone) as again:
                    ask()
                assert again.value is caught.value

    def test_a_long_answer_is_no_silence(self) -> None:
        """The whole answer takes longer than one may wait for a part of it."""
        source, theirs = os.pipe()
        asked, sink = os.pipe()

        def drip() -> None:
            for _ in range(10):
                os.write(theirs, HEADER.pack(1, 1, PART) + b"x")
                time.sleep(0.5)
            os.write(theirs, HEADER.pack(0, 1, DONE))

        thread = threading.Thread(target=drip)
        thread.start()
        assert Channel(source, sink).ask(MessageKind.FILE, b"", 4.0) == b"x" * 10
        thread.join()
        for each in (source, theirs, asked, sink):
            os.close(each)

    def test_an_answer_without_end_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The other end is no relay. Later requests fail too."""
        monkeypatch.setattr("gilk.targets.kernel.channel.LARGEST_ANSWER", 1 << 20)
        source, theirs = os.pipe()
        asked, sink = os.pipe()
        endless = "import os, struct\nwhile True: os.write(1, struct.pack('<IIB', 1000, 1, 65) + bytes(1000))"
        flood = subprocess.Popen([sys.executable, "-c", endless], stdout=theirs)
        channel = Channel(source, sink)
        for _ in range(2):
            with pytest.raises(MachineGone, match="more than 1 MiB") as caught:
                channel.ask(MessageKind.FILE, b"", LIMIT)
            assert caught.value.slug == "relay-broken"
        flood.kill()
        flood.wait()
        for each in (source, theirs, asked, sink):
            os.close(each)

    def test_processes_end_with_the_stream(self) -> None:
        with start_relay() as link:
            out = bytearray()
            link.spawn(["sh", "-c", "trap '' HUP TERM; echo $$; sleep 1000"], out.extend, out.extend)
            link.channel.until(lambda: out.endswith(b"\n"), LIMIT)
            handle = os.pidfd_open(int(out))
        assert select.select([handle], [], [], LIMIT)[0], "the process outlives the relay"
        os.close(handle)


class Raw:
    """A client that sends anything a test wants."""

    def __init__(self) -> None:
        words = [sys.executable, "-I", "-S", "-c", bundle(), "-"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.receive()[1] == HELLO

    def send(self, kind: int, tag: int, payload: bytes = b"") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(HEADER.pack(len(payload), tag, kind) + payload)
        self.process.stdin.flush()

    def receive(self) -> tuple[int, int, bytes]:
        assert self.process.stdout is not None
        size, tag, kind = HEADER.unpack(self.process.stdout.read(HEADER.size))
        return tag, kind, self.process.stdout.read(size)

    def close(self) -> tuple[int, bytes]:
        """Close the connection. Returns the relay's exit status and its complaints."""
        _, complaints = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, complaints


@pytest.fixture(scope="module")
def raw() -> Iterator[Raw]:
    client = Raw()
    yield client
    assert client.close() == (0, b"")


STRINGS = struct.pack("<I", 1) + struct.pack("<I", 1) + b"/"
NONSENSE = [
    (0, b""),
    (99, b"what"),
    (HELLO, b""),
    (CORE, b"15 bytes, short"),
    (CONTROL, b"short"),
    (LEND, b"15 bytes, short"),
    (LEND, struct.pack("<QII", 1, 4, 14) + b"/proc/version/" + bytes(7)),
    (LEND, struct.pack("<QII", 1, 0, 0xFFFFFFFF) + b"/proc/version"),
    (SPAWN, b""),
    (SPAWN, struct.pack("<HHI", 0, 0, 0xFFFFFFFF)),
    (SPAWN, struct.pack("<HH", 0, 0) + STRINGS + struct.pack("<II", 1, 50) + b"x"),
    (SPAWN, struct.pack("<HH", 0, 0) + STRINGS + struct.pack("<II", 0, 0)),
    (SPAWN, struct.pack("<HH", 0, 0) + STRINGS + STRINGS + struct.pack("<I", 0) + b"more"),
]


@pytest.mark.parametrize(("kind", "payload"), NONSENSE)
def test_malformed_requests_are_refused_and_the_relay_stays(raw: Raw, kind: int, payload: bytes) -> None:
    raw.send(kind, 7, payload)
    tag, answer, text = raw.receive()
    assert (tag, answer, int.from_bytes(text[:4], "little")) == (7, FAIL, errno.EPROTO)
    raw.send(FILE, 8, b"/proc/version")
    assert raw.receive() == (8, PART, Path("/proc/version").read_bytes())
    assert raw.receive() == (8, DONE, b"")


@settings(max_examples=300)
@given(kind=st.integers(0, 255).filter(lambda kind: kind not in range(8, 11)), payload=st.binary(max_size=80))
def test_every_request_has_one_answer(raw: Raw, kind: int, payload: bytes) -> None:
    """The three kinds that are left out get no answer."""
    raw.send(kind, 9, payload)
    kinds = [raw.receive()[1]]
    while kinds[-1] == PART:
        kinds.append(raw.receive()[1])
    assert kinds[-1] in (DONE, FAIL)


def test_messages_for_unknown_processes_are_ignored(raw: Raw) -> None:
    for kind in range(INPUT, INPUT + 3):
        raw.send(kind, 1234, b"\x01\x02\x03\x04")
    raw.send(FILE, 5, b"/nonesuch")
    assert raw.receive()[:2] == (5, FAIL)


def test_malformed_framing_ends_the_relay() -> None:
    client = Raw()
    client.send(FILE, 1, b"")
    assert client.receive()[:2] == (1, FAIL)
    assert client.process.stdin is not None
    client.process.stdin.write(HEADER.pack(0xFFFFFFFF, 1, FILE))
    client.process.stdin.flush()
    assert client.receive()[:2] == (0, FAIL)
    assert client.process.wait(LIMIT) == 0
    client.close()


class TestVirtualMachine:
    """The same through a port of a virtual machine, and requests that only a kernel of one's own can answer."""

    def test_the_machine_runs_the_requested_kernel(self, vm: VM) -> None:
        assert vm.link.release == vm.kernel.release != os.uname().release
        assert vm.run(["uname", "-r"]) == (0, vm.kernel.release.encode() + b"\n", b"")

    def test_files_are_those_that_a_program_in_the_machine_reads(self, vm: VM) -> None:
        """The file has the symbols: 4 MB, all addresses."""
        symbols = vm.link.read_file("/proc/kallsyms")
        digest = vm.run(["sha256sum", "/proc/kallsyms"])[1].split()[0].decode()
        assert hashlib.sha256(symbols).hexdigest() == digest
        assert len(symbols.splitlines()) > 90_000

    def test_kernel_memory_is_what_sysfs_and_proc_show(self, vm: VM) -> None:
        """The type information is in memory and in a file of sysfs; the banner is in /proc/version."""
        place = {line.split()[2]: int(line.split()[0], 16) for line in vm.link.read_file("/proc/kallsyms").splitlines()}
        types = (place[b"__start_BTF"], place[b"__stop_BTF"] - place[b"__start_BTF"])
        version = vm.link.read_file("/proc/version")
        found = vm.link.read_core([types, (place[b"linux_banner"], len(version)), (place[b"_stext"], 0)])
        assert found == [vm.link.read_file("/sys/kernel/btf/vmlinux"), version, b""]

    @pytest.mark.parametrize("address", [0, 1 << 47, 0xFFFF_FFFF_FFFF_F000])
    def test_unmapped_kernel_memory_is_an_error(self, vm: VM, address: int) -> None:
        with pytest.raises(OSError) as caught:
            vm.link.read_core([(address, 4096)])
        assert caught.value.errno == errno.EFAULT

    def test_input_and_output_pass_unchanged(self, vm: VM) -> None:
        data = os.urandom(2_000_000)
        assert vm.run(["cat"], data, LIMIT) == (0, data, b"")
