# SPDX-License-Identifier: LGPL-2.1-or-later
"""Texts that a user names by a file, which may also be a pipe, or a device without an end."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gilk.errors import UsageError

#: Characters of a program, a file of aspects or an experiment; gilk's own are some thousand long.
MOST: Final = 4 << 20


def read_text(path: Path, most: int = MOST) -> str:
    """The text of a file of at most ``most`` characters. Bytes that are not UTF-8 are kept as they are
    (surrogateescape). Raises UsageError `too-long` if there are more, OSError.
    """
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise UsageError(
            "too-long", f"{path} has more than {most >> 20} million characters", "gilk has not read the rest"
        )
    return text
