# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names of C++ and Rust functions as their source has them, demangled by binutils' c++filt.

c++filt runs as a process of its own, with little memory and a deadline, since names come from files that anybody may
have made: forty letters can mean a gigabyte (docs/decisions/demangling.md). It is started for the first name, and then
takes some ten microseconds for a name.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import resource
import select
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Sequence

_MANGLED = re.compile(r"_[ZR][\w$.]*[\w$]", re.ASCII)
_IN_TEXT = re.compile(r"(?<![\w$.])_[ZR][\w$.]*[\w$]", re.ASCII)
_LONGEST = 16 << 10  # the most bytes of a name; c++filt takes twice that
_CHUNK_BYTES, _CHUNK = 32 << 10, 512  # the most bytes, names of a chunk; a pipe holds twice the bytes
_MOST_OUTPUT = 8 << 20  # the most bytes of the answer to a chunk
_LONGEST_READABLE = 64 << 10
_MEMORY = 512 << 20  # the most memory of c++filt, in bytes
_PATIENCE = 5.0  # seconds for a chunk, which takes milliseconds
_MOST_FAILURES = 4
_MOST_KNOWN = 1 << 20


class _Shown:
    """Whether the user wants mangled names in this process."""

    mangled = False


def show_mangled(mangled: bool) -> None:
    """Set whether names are shown mangled, as the linker has them; how functions are found is not affected."""
    _Shown.mangled = mangled


def available() -> bool:
    return shutil.which("c++filt") is not None


def is_mangled(name: str) -> bool:
    """Whether the name has the form of a mangled name; it may still stand for nothing."""
    return _MANGLED.fullmatch(name) is not None


def readable(name: str) -> str:
    """``ns::f(int)`` for ``_ZN2ns1fEi``; any other name unchanged, and all names if the user wants the linker's."""
    return name if _Shown.mangled or not is_mangled(name) else _WHOLE.of((name,))[0]


def readable_in(text: str) -> str:
    """The text with each mangled name in it in its readable form."""
    return text if "_Z" not in text and "_R" not in text else _IN_TEXT.sub(lambda found: readable(found[0]), text)


def readable_names(texts: Iterable[str]) -> dict[str, str]:
    """The readable form of each mangled name in ``texts`` that has one, by the mangled name, even if the user wants the
    linker's names.
    """
    names = sorted({found for text in texts for found in _IN_TEXT.findall(text)})
    return {name: shown for name, shown in zip(names, _WHOLE.of(names), strict=True) if name != shown}


def learn(names: Iterable[str]) -> None:
    """Demangle many names at once, so that readable() knows them."""
    if not _Shown.mangled:
        _WHOLE.of([name for name in names if is_mangled(name)])


def demangled(names: Sequence[str]) -> list[str]:
    """Each of the names demangled, with its parameters, even if the user wants the linker's names; other names
    unchanged.
    """
    return _WHOLE.of(names)


def without_parameters(names: Sequence[str]) -> list[str]:
    """The same as demangled(), but without parameters and return types: ``ns::f``."""
    return _PLAIN.of(names)


class _Filter:
    """A running c++filt, which ends when its input does. Raises OSError if it cannot be started."""

    def __init__(self, program: str, options: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [program, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C"}, process_group=0,  # Ctrl-C must not reach it
        )  # fmt: skip
        resource.prlimit(self._process.pid, resource.RLIMIT_AS, (_MEMORY, _MEMORY))

    def ask(self, names: Sequence[str]) -> list[str] | None:
        """The answers for a chunk of names; None if they do not come, not in time, or are too long."""
        assert self._process.stdin is not None
        end = b"%d\n" % len(names)  # c++filt repeats this line unchanged, so the answers end before it
        try:
            self._process.stdin.write("".join(f"{name}\n" for name in names).encode() + end)
            self._process.stdin.flush()
        except OSError:
            return None
        answer = self._until(b"\n" + end)
        lines = answer.split(b"\n") if answer is not None else []
        return [line.decode("utf-8", "replace") for line in lines] if len(lines) == len(names) else None

    def _until(self, end: bytes) -> bytes | None:
        assert self._process.stdout is not None
        descriptor, found, deadline = self._process.stdout.fileno(), bytearray(), time.monotonic() + _PATIENCE
        while not found.endswith(end):
            ready = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]
            part = os.read(descriptor, 1 << 16) if ready else b""
            found += part
            if not part or len(found) > _MOST_OUTPUT:
                return None
        return bytes(found[: -len(end)])

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()

    def forget(self) -> None:
        """Close the pipes without ending the process, which belongs to the process that this one was forked from."""
        self._process.returncode = 0
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class _Names:
    """The known names in one form, whole or without parameters. A forked child starts a c++filt of its own."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self._known: dict[str, str] = {}
        self._filter: _Filter | None = None
        self._failures = 0
        self._lock = threading.RLock()
        atexit.register(self._stop)
        os.register_at_fork(after_in_child=self._forked)

    def of(self, names: Sequence[str]) -> list[str]:
        unknown = [name for name in dict.fromkeys(names) if name not in self._known and _may_ask(name)]
        if unknown:
            with self._lock:
                if len(self._known) > _MOST_KNOWN:
                    self._known.clear()
                for chunk in _chunks(unknown):
                    self._known.update(zip(chunk, self._answers(chunk), strict=True))
        return [self._known.get(name, name) for name in names]

    def _answers(self, chunk: Sequence[str]) -> Sequence[str]:
        found = self._asked(chunk)
        if found is None and len(chunk) > 1:  # one of the names has made the demangler fail; ask for each alone
            found = [(self._asked((name,)) or (name,))[0] for name in chunk]
        return [new if len(new) <= _LONGEST_READABLE else old for old, new in zip(chunk, found or chunk, strict=True)]

    def _asked(self, chunk: Sequence[str]) -> list[str] | None:
        server = self._running()
        if server is None:
            return None
        try:
            found = server.ask(chunk)
        except BaseException:  # it was interrupted: the next answer would be that to this chunk
            self._stop()
            raise
        if found is None:
            self._failures += 1
            self._stop()
        return found

    def _running(self) -> _Filter | None:
        if self._filter is None and self._failures < _MOST_FAILURES:
            program = shutil.which("c++filt")
            try:
                self._filter = _Filter(program, self._options) if program is not None else None
            except OSError:
                self._failures = _MOST_FAILURES
        return self._filter

    def _stop(self) -> None:
        if self._filter is not None:
            self._filter.close()
            self._filter = None

    def _forked(self) -> None:
        self._lock = threading.RLock()
        if self._filter is not None:
            self._filter.forget()
            self._filter = None


def _may_ask(name: str) -> bool:
    return len(name) <= _LONGEST and is_mangled(name)


def _chunks(names: Sequence[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for name in names:
        if chunk and (len(chunk) == _CHUNK or size + len(name) > _CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(name)
        size += len(name) + 1
    yield chunk


#: The option -i leaves out details of the implementation: ``std::string``, and no hashes of Rust's crates.
_WHOLE = _Names("-i")
_PLAIN = _Names("-i", "-p")
