# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process that is only looked at from outside, by samples: it may end at any moment, and is never touched."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from gilk.errors import TargetError
from gilk.image.elf import load
from gilk.image.model import Image
from gilk.targets.alive import proc_link
from gilk.targets.base import Loaded
from gilk.targets.files import Files
from gilk.targets.maps import read_maps
from gilk.targets.status import status_of

_REST = 1.0  # seconds between two looks at the mappings
_NOTHING = {b"Uid": b"0 0", b"Gid": b"0 0", b"PPid": b"0"}


class SampledProcess:
    """A process. ``name``: as the kernel has told it, for a process that has ended, or, with ``named``, for any.
    ``seen``: the images of the last look. ``images`` are shared by all processes."""

    def __init__(self, pid: int, images: SharedImages, name: bytes = b"", named: bool = False) -> None:
        self.pid, self.name, self.seen = pid, name, tuple[Loaded, ...]()
        self._named = {b"Name": name} if named else {}
        self._images, self._due = images, 0.0

    @property
    def alive(self) -> bool:
        return bool(self.pid) and os.path.exists(f"/proc/{self.pid}")

    def status(self) -> dict[bytes, bytes]:
        """The lines of /proc/PID/status; only a few, with zeros, if the process has ended."""
        with suppress(OSError):
            if self.pid:
                return {**status_of(self.pid), **self._named}
        return {**_NOTHING, b"Name": self.name}

    def root(self) -> bytes:
        with suppress(OSError):
            return os.fsencode(proc_link(self.pid, "root"))
        return b"<unknown>"

    def has(self, address: int) -> bool:
        """Whether an image of the last look has the address."""
        return any(one.start <= address < one.end for one in self.seen)

    @property
    def is_due(self) -> bool:
        """Whether the last look is long enough ago for another."""
        return time.monotonic() >= self._due

    def loaded(self) -> tuple[Loaded, ...]:
        """The images that are mapped now. Raises TargetError `no-such-process`, `no-permission`."""
        self._due = time.monotonic() + _REST
        files = Files(self.pid)
        try:
            self.seen = files.loaded(read_maps(self.pid))
        except OSError as error:
            raise TargetError("no-such-process", f"process {self.pid} has ended") from error
        finally:
            files.close()
        for one in self.seen:
            self._images.note(one.path)
        return self.seen

    def image(self, path: Path) -> Image:
        """The image of a file. Raises ImageError."""
        return self._images.image(path)


class SharedImages:
    """Images of files, each of which is read once for all processes, when a name in it is asked for."""

    def __init__(self) -> None:
        self._keys: dict[Path, tuple[int, int, int]] = {}
        self._found: dict[tuple[int, int, int], Image] = {}

    def note(self, path: Path) -> None:
        """Note which file the path leads to."""
        with suppress(OSError):
            found = path.stat()
            self._keys[path] = found.st_dev, found.st_ino, found.st_mtime_ns

    def image(self, path: Path) -> Image:
        """The image at the path. Raises ImageError."""
        key = self._keys.get(path)
        if key is None:
            return load(path)
        if key not in self._found:
            self._found[key] = load(path)
        return self._found[key]
