# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where tests put what outlives them: programs that were built, bytecode, kernels that were fetched.

A checkout may lie where nothing can be written, and so may the home directory.
"""

from __future__ import annotations

import os
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


def kernels_place() -> Path:
    """Of kernels for virtual machines, 85 MB each: where gilk itself keeps them, unless it cannot."""
    from gilk.errors import GilkError
    from gilk.lab.kernels import store

    try:
        path = store()
        if os.access(path, os.W_OK):
            return path
    except (GilkError, OSError):
        pass
    return build_place() / "kernels"


if __name__ == "__main__":
    from gilk.lab.kernels import find

    os.environ.setdefault("GILK_KERNELS", str(kernels_place()))
    print("kernel:", find(notify=print).release)
