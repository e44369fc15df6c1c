# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where tests put what outlives them: programs that were built, bytecode, kernels that were fetched.

A checkout may lie where nothing can be written, and so may the home directory. As a program, this fetches a kernel if
there is none, or runs a command in an environment with such places.
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
    """build in the checkout, or one of the user's own. Raises PermissionError when another user has made that."""
    if os.access(ROOT, os.W_OK):
        return ROOT / "build"
    path = Path(tempfile.gettempdir()) / f"gilk-{os.geteuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if path.is_symlink() or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(f"{path} is not ours")
    return path


def settle() -> None:
    """Name, in the environment, the cache for what has none of its own, and where kernels are, 85 MB each.

    gilk's own place for them, unless nothing can be written there.
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
