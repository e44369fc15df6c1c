# SPDX-License-Identifier: LGPL-2.1-or-later
"""Directories and files that nobody but this user and root can change: what is built or found there becomes code that
gilk runs.

The rule is that of sshd's StrictModes: every directory from / on belongs to this user or root and cannot be written by
others, or has the sticky bit, as /tmp does: in such a directory of root or this user nobody else can move this user's
files. So a directory that was found sound stays so, whatever others do meanwhile, and may be used by its name
afterwards. Files that are read here are still opened beneath their directory, and no link is followed that was not
checked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from gilk.values import dataclass

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_NOBODY = 65534  # the number that the kernel shows for users without a number, by default
_LINKS = 40  # the most links that are followed; the same number as the kernel's
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_HERE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Unsound(OSError):
    """A file or directory that others could change. ``strerror`` says who, or how."""


_passed: dict[str, None] = {}  # the messages, in their order


def pass_over(error: Unsound) -> None:
    """Note that a place is not used because of ``error``; the user is told at the end."""
    _passed[told(error)] = None


def complaints() -> list[str]:
    """Messages about the places that were passed over in this process, with the reasons."""
    return list(_passed)


def told(error: Unsound) -> str:
    return f"{error.filename} {error.strerror}"


def only_ours(file: os.stat_result) -> bool:
    """Whether the owner is this user or root, and nobody else may write to the file. (If an access list lets others
    write, the group's bit says so: acl(5).)
    """
    return not _why_not(file, sticky=False)


@dataclass(frozen=True)
class Directory:
    """A sound directory, open as ``descriptor`` until the end of a ``with`` block. ``path`` has no links in it.
    Operations in it raise OSError, and Unsound.
    """

    descriptor: int
    path: Path

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def beneath(self, name: str) -> Directory:
        """A directory in this one, which is made if it does not exist."""
        return _sound(_opened(name, _HERE, self.descriptor, make=True), self.path / name, sticky=False)

    @contextmanager
    def reading(self, name: str) -> Iterator[IO[bytes]]:
        """A regular file in the directory with only one name, which is as sound as the directory."""
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.descriptor)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                raise Unsound(0, "is no file of one name", str(self.path / name))
            _check(descriptor, self.path / name, sticky=False)
            yield file

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """A file that is in the directory, complete, after the ``with`` block."""
        fresh = f".new-{os.urandom(8).hex()}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(fresh, flags, 0o600, dir_fd=self.descriptor)
        try:
            with os.fdopen(descriptor, "w+b") as file:
                yield file
            os.replace(fresh, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except BaseException:
            os.unlink(fresh, dir_fd=self.descriptor)
            raise


def directory(path: Path, make: bool = False, shared: bool = False) -> Directory:
    """The sound directory at ``path``; with ``make`` it and those above it are made, for this user alone, if they are
    missing.

    ``shared``: others may use it too, if it is sticky. Raises Unsound, and OSError if there is none.
    """
    walk = _Walk(make)
    try:
        walk.along(os.path.abspath(path))
        return _sound(os.open(".", _HERE, dir_fd=walk.at), Path(walk.path), sticky=shared)
    finally:
        walk.close()


def _sound(descriptor: int, path: Path, sticky: bool) -> Directory:
    try:
        _check(descriptor, path, sticky)
    except BaseException:
        os.close(descriptor)
        raise
    return Directory(descriptor, path)


class _Walk:
    """A walk from / on, name by name. ``at`` is a descriptor of the directory reached so far, ``path`` its path without
    links.
    """

    def __init__(self, make: bool) -> None:
        self._make = make
        self._links = 0
        self.at = -1
        self.path = "/"

    def close(self) -> None:
        if self.at >= 0:
            os.close(self.at)

    def along(self, path: str) -> None:
        """Walk along a path; the first one must be absolute. Raises Unsound, OSError."""
        if path.startswith("/"):
            self._enter(os.open("/", _LOOK), "/")
        for name in path.split("/"):
            if name not in ("", "."):
                self._step(name)

    def _step(self, name: str) -> None:
        path = os.path.normpath(f"{self.path}/{name}") if name == ".." else f"{self.path.rstrip('/')}/{name}"
        descriptor = _opened(name, _LOOK, self.at, self._make)
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            self._follow(descriptor, path)
        else:
            self._enter(descriptor, path)

    def _enter(self, descriptor: int, path: str) -> None:
        if self.at >= 0:
            os.close(self.at)
        self.at, self.path = descriptor, path
        _check(descriptor, path, sticky=True)

    def _follow(self, link: int, path: str) -> None:
        """Follow a link, which is trusted if its owner is. (Its mode means nothing.)"""
        try:
            owner, leads = os.fstat(link).st_uid, os.readlink("", dir_fd=link)
        finally:
            os.close(link)
        self._links += 1
        if not _is_trusted(owner) or self._links > _LINKS:
            raise Unsound(0, f"is a link of user {owner}", path)
        self.along(leads)


def _opened(name: str, how: int, where: int, make: bool) -> int:
    """A descriptor of an existing or, with ``make``, a new directory."""
    try:
        return os.open(name, how, dir_fd=where)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another has made it meanwhile
        os.mkdir(name, 0o700, dir_fd=where)
    return os.open(name, how, dir_fd=where)


def _check(descriptor: int, path: Path | str, sticky: bool) -> None:
    """Check that nobody else can change the file. Raises Unsound."""
    # If root has no number in this user namespace, the nameless owner of / and of what lies in it can only be root.
    system = sticky and str(path).count("/") == 1
    if why := _why_not(os.fstat(descriptor), sticky, system):
        raise Unsound(0, why, str(path))


def _why_not(file: os.stat_result, sticky: bool, system: bool = False) -> str:
    """Why others could change the file; '' if they cannot. ``sticky``: others may write to it if it is a directory with
    the sticky bit, in which nobody can move files of others. ``system``: it may belong to a user without a number.
    """
    if not _is_trusted(file.st_uid) and not (system and _is_nameless(file.st_uid)):
        return f"belongs to user {file.st_uid}"
    if file.st_mode & _OTHERS and not (sticky and file.st_mode & stat.S_ISVTX):
        return "can be written by others"
    return ""


def _is_trusted(user: int) -> bool:
    return user == 0 or (user == os.geteuid() and not (user == _NOBODY and _is_nameless(user)))


def _is_nameless(user: int) -> bool:
    """Whether the number stands for all users that have none in this user namespace, and root is among them
    (user_namespaces(7)).
    """
    try:
        with open("/proc/sys/kernel/overflowuid", "rb") as shown, open("/proc/self/uid_map", "rb") as known:
            ranges = [tuple(map(int, line.split())) for line in known]
            outside = all(count < 0xFFFFFFFF for _, _, count in ranges)  # the initial user namespace maps all numbers
            return user == int(shown.read()) and outside and not any(first == 0 for _, first, _ in ranges)
    except (OSError, ValueError):
        return False


def temporary(suits: Callable[[str], bool] = bool) -> Path:
    """The directory for temporary files: $TMPDIR, or else /tmp or /var/tmp, the first that is sound and ``suits``.

    In a directory of another user, that user could exchange what is being built. Raises Unsound, OSError.
    """
    named = os.environ.get("TMPDIR", "")
    reason: OSError | None = None
    for place in (named, "/tmp", "/var/tmp"):
        try:
            if os.path.isabs(place) and suits(place):
                with directory(Path(place), shared=True) as found:
                    if os.access(".", os.W_OK | os.X_OK, dir_fd=found.descriptor, effective_ids=True):
                        return found.path
        except Unsound as error:
            pass_over(error)
        except OSError as error:
            reason = error
    raise reason or Unsound(0, "there is no directory for temporary files", "/tmp")
