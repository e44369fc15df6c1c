# SPDX-License-Identifier: LGPL-2.1-or-later
"""A disposable virtual machine: a stock kernel with this machine's files, which it sees and cannot change.

    with lab.boot(cpus=2) as vm:
        vm.run(["uname", "-r"])
        vm.link.read_file("/proc/kallsyms")

Files that it writes are kept in its own memory, except below the directories that are shared with it for writing. When
the context ends, however it ends, so does the machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Final

from gilk.errors import GilkError, MachineGone, TargetError
from gilk.lab import initramfs, qemu, silence
from gilk.lab.kernels import Notify, StockKernel, find
from gilk.lab.qemu import Machine
from gilk.targets.kernel.channel import Channel
from gilk.targets.kernel.link import RelayLink
from gilk.targets.kernel.relay import bundle

BOOT_LIMIT: Final = 180.0  # seconds; an emulated boot takes five on a machine with nothing else to do
_PLAIN: Final = Machine()
_MONITOR_LIMIT: Final = 10.0  # seconds
_TAIL: Final = 60  # lines of the console that are shown
_PANIC: Final = re.compile(r"Kernel panic - not syncing: (.*)")


class VM:
    """A machine that has been started. `link` reaches its kernel."""

    def __init__(self, kernel: StockKernel, machine: Machine, stack: ExitStack) -> None:
        self.kernel = kernel
        # Files without names: nothing is left to remove if gilk is killed.
        self._said, self._complaints, archive = (_unnamed(stack) for _ in range(3))
        shares = {tag: str(path) for tag, path in qemu.shared(machine).items()}
        python = os.path.realpath(sys.executable)  # the machine sees the same files
        archive.write(initramfs.make(kernel, python, bundle(), shares, machine.network))
        archive.flush()
        relay, far_relay = _pair(stack)
        monitor, far_monitor = _pair(stack)
        monitor.settimeout(_MONITOR_LIMIT)
        self._monitor = stack.enter_context(monitor.makefile("rwb"))
        words = qemu.command(machine, kernel, archive.fileno(), far_relay.fileno(), far_monitor.fileno())
        self.process = self._start(words, archive.fileno(), far_relay.fileno(), far_monitor.fileno())
        far_relay.close()  # else the end of QEMU would not close the sockets
        far_monitor.close()
        stack.callback(self._kill)
        self.link = RelayLink(Channel(relay.fileno(), relay.fileno(), self.ended, self.silent), self._kill)
        self._known_to_monitor = False

    def _start(self, words: list[str], *passed: int) -> subprocess.Popen[bytes]:
        """Start QEMU. It is killed when the thread that started it ends, even if gilk is killed and cleans up
        nothing."""
        if shutil.which("setpriv"):
            words = ["setpriv", "--pdeathsig", "KILL", "--", *words]
        return subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._complaints, start_new_session=True,
            pass_fds=passed,
        )  # fmt: skip

    def _kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def run(self, command: Sequence[str], given: bytes = b"", timeout: float | None = None) -> tuple[int, bytes, bytes]:
        """Run a command as root, in `/`; returns its exit status, output and error output. Raises OSError,
        TargetError."""
        return self.link.run(command, given, timeout)

    def console(self) -> str:
        """The machine's console output so far."""
        return _content(self._said).replace("\r\n", "\n")

    def monitor(self, line: str) -> str:
        """Give QEMU's monitor a command, such as `singlestep on`; returns its answer. Raises TargetError."""
        if not self._known_to_monitor:
            self._monitor.readline()  # the monitor's greeting
            self._ask_qemu("qmp_capabilities")
            self._known_to_monitor = True
        return str(self._ask_qemu("human-monitor-command", {"command-line": line}))

    def _ask_qemu(self, name: str, arguments: dict[str, str] | None = None) -> object:
        self._monitor.write(json.dumps({"execute": name, "arguments": arguments or {}}).encode() + b"\n")
        self._monitor.flush()
        while answer := self._monitor.readline():  # events may come first
            told = json.loads(answer)
            if "error" in told:
                raise TargetError("lab-monitor", f"QEMU refuses {name}: {told['error'].get('desc')}")
            if "return" in told:
                return told["return"]
        raise self.ended()

    def ended(self) -> MachineGone:
        """The error that says why the machine has ended."""
        try:
            status = self.process.wait(5)
        except subprocess.TimeoutExpired:
            status = 0
        if panic := _PANIC.search(self.console()):
            return MachineGone(
                "lab-panic", f"the virtual machine's kernel has panicked: {panic[1].strip()}", self.tail()
            )
        if status:
            complaints = _content(self._complaints).strip() or self.tail()
            return MachineGone("lab-qemu", f"QEMU has ended with status {status}", complaints)
        if not self.link.release:
            return MachineGone("lab-no-boot", "the virtual machine went down while it started", self.tail())
        return MachineGone("lab-ended", "the virtual machine has gone down", self.tail())

    def silent(self) -> str:
        """A text about a machine that does not answer any more: where its processors are, and its last messages."""
        try:
            where = silence.whereabouts(self.monitor)
        except (GilkError, OSError, ValueError) as error:  # QEMU does not answer, either
            where = str(error)
        return f"{where}\n{self.tail()}"

    def tail(self) -> str:
        """The console's last lines, with a heading."""
        lines = self.console().strip().splitlines()[-_TAIL:]
        return "\n".join(["the console's last lines:", *lines]) if lines else "it has printed nothing"


def _unnamed(stack: ExitStack) -> IO[bytes]:
    return stack.enter_context(tempfile.TemporaryFile())


def _content(file: IO[bytes]) -> str:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")


def _pair(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    near, far = socket.socketpair()
    stack.enter_context(near)
    stack.enter_context(far)
    return near, far


@contextmanager
def boot(
    machine: Machine = _PLAIN, release: str = "", limit: float = BOOT_LIMIT, notify: Notify = lambda _: None
) -> Iterator[VM]:
    """A context with a machine that runs the kernel `release`, by default the newest in the store; a kernel is fetched
    if there is none.

    Raises UsageError bad-machine, bad-release; TargetError lab-no-qemu, lab-no-kernel, lab-no-boot (after `limit`
    seconds), lab-panic, lab-qemu.
    """
    machine.check()
    qemu.program()
    kernel = find(release, notify)
    with ExitStack() as stack:
        vm = VM(kernel, machine, stack)
        if not vm.link.channel.greet(limit):
            how = ", with KVM: --emulate does without" if qemu.is_accelerated(machine) else ""
            raise TargetError("lab-no-boot", f"the virtual machine had not started after {limit:g} s{how}", vm.tail())
        yield vm
