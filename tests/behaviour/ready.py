# SPDX-License-Identifier: LGPL-2.1-or-later
"""The command line of gilk without the start of Python: a process that has imported gilk forks for each command.

Each command runs in a process of its own, with the words, files, environment and directory that it is given, and ends
as it otherwise would. The start of `python -m gilk` is a third of a short session's processor time; tests/cli,
tests/test_docs.py and tests/jobs begin commands this way.

As a program, ``python tests/behaviour/ready.py FD`` answers on that socket until its other end is closed.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

_IMPORTED = (
    "gilk.cli.run", "gilk.cli.trace", "gilk.cli.weave", "gilk.cli.dtrace_session", "gilk.api.runs", "gilk.api.traces",
    "gilk.api.aspects", "gilk.targets.serving", "gilk.session.broker.forking", "gilk.runs.followed",
)  # fmt: skip
#: Prefixes of the variables that Python, the loader and libraries read when they start.
_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC", "GLIBC", "OPENBLAS", "OMP")
_LARGEST = 1 << 17  # bytes of a message

Environment = dict[str, str]


class ReadyGilk:
    """The process that forks, as its client sees it. It runs one command at a time."""

    def __init__(self, environment: Environment) -> None:
        self._environment = at_start(environment)
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, "-P", str(Path(__file__).resolve()), str(theirs.fileno())]
            self._process = subprocess.Popen(words, env=environment, pass_fds=(theirs.fileno(),))
        self._one = threading.Lock()

    def takes(self, words: list[str], environment: Environment) -> bool:
        """Whether the forking process started with the same environment as this command needs, and is idle."""
        same = at_start(environment) == self._environment
        return same and self.there and not self._one.locked() and len(_packed(words, environment, "")) < _LARGEST // 2

    @property
    def there(self) -> bool:
        return self._process.poll() is None

    def run(
        self, words: list[str], data: bytes | None, environment: Environment, directory: str, timeout: float | None
    ) -> tuple[int, bytes, bytes]:
        """Run a command. Returns the status, as in subprocess, standard output and standard error. ``data`` is its
        input; None for this process's own.

        Raises subprocess.TimeoutExpired, after the command has been killed.
        """
        with self._one, self._whole():
            message = _packed(words, environment, directory)
            ours, theirs = _pipes(data is not None)
            ends = array.array("i", theirs)
            self._line.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, ends)])
            for end in theirs if data is not None else theirs[1:]:
                os.close(end)
            pid = int(self._line.recv(_LARGEST))
            late = threading.Timer(timeout or threading.TIMEOUT_MAX, _kill, (pid,))
            late.daemon = True
            late.start()
            if data is not None:
                _at_work(_write, ours[0], data)
            out, err = bytearray(), bytearray()
            readers = [_at_work(_read, end, into) for end, into in zip(ours[-2:], (out, err), strict=True)]
            status = int(self._line.recv(_LARGEST))
            if not late.is_alive():
                raise subprocess.TimeoutExpired(["gilk", *words], timeout or 0)
            late.cancel()
            for reader in readers:
                reader.join()  # like subprocess, wait until nobody has the other end
            return status, bytes(out), bytes(err)

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """If the block raises, end the forking process, so that a late answer is not taken for that of the next
        command."""
        try:
            yield
        except BaseException:
            self._line.close()
            self._process.kill()
            self._process.wait()
            raise

    def close(self) -> None:
        self._line.close()
        self._process.wait()


def at_start(environment: Environment) -> Environment:
    return {name: value for name, value in environment.items() if name.startswith(_AT_START)}


def _packed(words: list[str], environment: Environment, directory: str) -> bytes:
    return json.dumps([words, environment, directory]).encode()


def _pipes(with_input: bool) -> tuple[list[IO[bytes]], list[int]]:
    """This process's ends of input, if there is one, output and errors, and the command's ends. The user of the
    former closes them."""
    ours, theirs = list[IO[bytes]](), [0]
    if with_input:
        reading, writing = os.pipe()
        ours, theirs = [os.fdopen(writing, "wb", buffering=0)], [reading]
    for _ in range(2):
        reading, writing = os.pipe()
        ours.append(os.fdopen(reading, "rb"))
        theirs.append(writing)
    return ours, theirs


def _at_work(work: Callable[..., None], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def _write(end: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), end:
        while data:
            data = data[end.write(data) :]


def _read(end: IO[bytes], into: bytearray) -> None:
    with end:
        while data := end.read1():  # type: ignore[attr-defined]
            into += data


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


# The process that forks.


def main() -> None:
    line = socket.socket(fileno=int(sys.argv[1]))
    line.set_inheritable(False)
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        message, ancillary, _, _ = line.recvmsg(_LARGEST, socket.CMSG_SPACE(3 * 4))
        if not message:
            return
        ends = array.array("i", ancillary[0][2])
        pid = os.fork()
        if not pid:
            line.close()
            _become(*json.loads(message), list(ends))
        for end in ends:
            os.close(end)
        line.send(str(pid).encode())
        line.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def _become(words: list[str], environment: Environment, directory: str, ends: list[int]) -> Any:
    """Become the command, in a fork. The process ends with it."""
    from gilk.cli.main import run

    for number, end in enumerate(ends):
        os.dup2(end, number)
    os.closerange(3, max(ends) + 1)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv[1:] = words
    sys.exit(run())


if __name__ == "__main__":
    main()
