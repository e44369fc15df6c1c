# SPDX-License-Identifier: LGPL-2.1-or-later
"""Fetches and unpacks Debian packages without installing them: nothing of this machine's set-up is touched.

apt verifies what it fetches against the archive's signature. If there are no lists of packages (in a fresh container,
or where root has never updated them), lists are fetched into the working directory.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gilk.errors import TargetError

_LIMIT: Final = 1800  # seconds for one fetch
_TOOLS: Final = {"apt-get": "apt", "apt-cache": "apt", "dpkg-deb": "dpkg", "depmod": "kmod"}


def require(*tools: str) -> None:
    """Check that these tools are installed. Raises TargetError lab-no-tool."""
    for tool in tools:
        if _path(tool) is None:
            raise TargetError("lab-no-tool", f"{tool} is not installed", f"apt-get install {_TOOLS.get(tool, tool)}")


def _path(tool: str) -> str | None:
    """The path of a tool; also outside of PATH, in the administrator's directories. None if it is not there."""
    return shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/sbin")


def tool(arguments: Sequence[str | Path], directory: Path) -> str:
    """Run a tool; returns its output. Raises TargetError lab-fetch-failed with the last lines of its standard error."""
    program = _path(str(arguments[0]))
    assert program is not None, "require() comes first"
    try:
        done = subprocess.run(
            [program, *arguments[1:]], cwd=directory, capture_output=True, text=True, timeout=_LIMIT,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TargetError("lab-fetch-failed", f"{arguments[0]} has not ended within {_LIMIT} s")
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise TargetError("lab-fetch-failed", f"{arguments[0]} fails with status {done.returncode}", said)
    return done.stdout


class Archive:
    """The distribution's packages; ``directory`` is a working directory for files that are fetched."""

    def __init__(self, directory: Path) -> None:
        require("apt-get", "apt-cache", "dpkg-deb")
        self.directory = directory
        self._options: list[str] = []

    def depends(self, package: str) -> list[str]:
        """The names of the packages that ``package`` depends on; empty when there is no such package."""
        if not self._known(package) and not self._options:
            self._update()
        if not self._known(package):
            return []
        listed = tool(["apt-cache", *self._options, "depends", package], self.directory)
        return re.findall(r"^  (?:Pre)?Depends: ([^<\s]\S*)$", listed, re.MULTILINE)

    def unpack(self, packages: Sequence[str], root: Path) -> None:
        """Fetch the packages, and lay their files out under `root`. Raises TargetError."""
        tool(["apt-get", *self._options, "-qq", "download", *packages], self.directory)
        for package in sorted(self.directory.glob("*.deb")):
            tool(["dpkg-deb", "-x", package, root], self.directory)
            package.unlink()

    def _known(self, package: str) -> bool:
        try:
            return bool(tool(["apt-cache", *self._options, "show", "--no-all-versions", package], self.directory))
        except TargetError:
            return False

    def _update(self) -> None:
        for name in ("lists/partial", "archives/partial"):
            (self.directory / name).mkdir(parents=True)
        self._options = [
            "-o", f"Dir::State::lists={self.directory}/lists",
            "-o", f"Dir::Cache={self.directory}",
        ]  # fmt: skip
        tool(["apt-get", *self._options, "-qq", "update"], self.directory)
