# SPDX-License-Identifier: LGPL-2.1-or-later
"""Debian's source packages, and its packages of tests, fetched by apt without touching this machine's own package
lists."""

from __future__ import annotations

import platform
import subprocess
import tarfile
from pathlib import Path

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_MIRROR = "http://deb.debian.org/debian"


class UnavailableError(Exception):
    """The sources cannot be fetched: there is no apt, no network, or this is not Debian."""


class Archive:
    """The archive of the release that this machine runs, as apt sees it from ``directory``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        release = platform.freedesktop_os_release()
        if release.get("ID") != "debian" or not Path(_KEYRING).exists():
            raise UnavailableError("not a Debian machine with the keyring of its archive")
        (directory / "lists" / "partial").mkdir(parents=True)
        name = release["VERSION_CODENAME"]
        lines = (f"{kind} [signed-by={_KEYRING}] {_MIRROR} {name} main\n" for kind in ("deb", "deb-src"))
        (directory / "archive.list").write_text("".join(lines))
        self._apt("update")

    def source(self, package: str) -> Path:
        """Fetch the source of a package. Returns the top directory of the upstream source, without Debian's patches."""
        self._apt("source", "--download-only", package)
        packed = next(self.directory.glob(f"{package}_*.orig.tar.*[!c]"))
        with tarfile.open(packed) as tar:
            top = tar.getnames()[0].split("/")[0]
            tar.extractall(self.directory, filter="tar")
        return self.directory / top

    def binary(self, package: str) -> Path:
        """Fetch a package and unpack it, without installing it. Returns the directory."""
        self._apt("download", package)
        unpacked = self.directory / package
        subprocess.run(["dpkg", "-x", str(next(self.directory.glob(f"{package}_*.deb"))), str(unpacked)], check=True)
        return unpacked

    def _apt(self, *words: str) -> None:
        where = {"sourcelist": "archive.list", "sourceparts": "none"}
        options = [f"Dir::Etc::{name}={self.directory / file}" for name, file in where.items()]
        options += [f"Dir::State::Lists={self.directory / 'lists'}", "Acquire::http::Timeout=30"]
        command = ["apt-get", "-qq", *(word for option in options for word in ("-o", option)), *words]
        try:
            done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, timeout=600)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(str(error)) from None
        if done.returncode or "Failed to fetch" in done.stderr:
            raise UnavailableError(f"apt-get {' '.join(words)}: {done.stderr.strip()[-500:]}")
