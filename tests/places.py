# SPDX-License-Identifier: LGPL-2.1-or-later
"""The places of files that outlive a test: built programs, bytecode, fetched kernels.

The checkout and the home directory may both be read-only. As a program, this fetches a kernel if there is none, or runs
a command in an environment with such places.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@cache
def build_place() -> Path:
    """The directory build of the checkout, or a private one if the checkout is read-only. Raises PermissionError if
    another user has made the latter."""
    if os.access(ROOT, os.W_OK):
        return ROOT / "build"
    path = Path(tempfile.gettempdir()) / f"gilk-{os.geteuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if path.is_symlink() or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(f"{path} is not ours")
    return path


def settle() -> None:
    """Set, in the environment, a cache for processes without one of their own, and the place of kernels, 85 MB each.

    The kernels' place is gilk's own, unless that is read-only.
    """
    from gilk.cache.place import cache_dir
    from gilk.errors import GilkError
    from gilk.lab.kernels import store

    try:
        usable = os.access(cache_dir(), os.W_OK)
    except (GilkError, OSError):
        usable = False
    if not usable:
        os.environ["GILK_CACHE"] = str(build_place() / "cache")
    os.environ.setdefault("GILK_KERNELS", str(store()))


if __name__ == "__main__":
    from gilk.lab.kernels import find

    settle()
    if sys.argv[1:]:
        os.execvp(sys.argv[1], sys.argv[1:])
    print("kernel:", find(notify=print).release)
