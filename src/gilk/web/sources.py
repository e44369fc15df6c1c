# SPDX-License-Identifier: LGPL-2.1-or-later
"""The source of a function, for its page: the lines that its code belongs to, and some around them.

A program may name any file as its source. So a file is shown only if it is text, and lies below a directory that the
window was given.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gilk.inputs import text_of
from gilk.web.children import ToldError
from gilk.web.grants import Grants

Json = dict[str, Any]
_MOST: Final = 8 << 20  # the most bytes of a file
_AROUND: Final = 5  # the number of lines before the first and behind the last one that has code
_MOST_LINES: Final = 3000


def lines_of(function: Json) -> dict[str, dict[int, list[int]]]:
    """The blocks that have code of each source line, by file and line, according to a function's listing; files with
    the most lines first.
    """
    found: dict[str, dict[int, list[int]]] = {}
    for block in function["blocks"]:
        for instruction in block["instructions"]:
            file, _, line = str(instruction.get("source", "")).rpartition(":")
            if file and line.isdecimal():
                blocks = found.setdefault(file, {}).setdefault(int(line), [])
                if block["index"] not in blocks:
                    blocks.append(block["index"])
    return dict(sorted(found.items(), key=lambda each: -len(each[1])))


def source(grants: Grants, function: Json, asked: str) -> Json:
    """The text of one of the files that a function's code belongs to: ``asked``, or the one with the most lines.

    Raises ToldError `no-source`, `not-granted`, UsageError `not-text`, StoreError `no-permission`.
    """
    files = lines_of(function)
    name = asked or next(iter(files), "")
    if name not in files:
        hint = "compile it with -g, or install its debug information"
        raise ToldError("no-source", "no line of that file is known to have code of the function", hint, 404)
    text = text_of(_place(grants, name), _MOST)
    if text is None:
        raise ToldError("no-source", f"{name}: there is no such file here", "", 404)
    return {"file": name, "files": list(files), **_part(text.splitlines(), files[name])}


def _part(lines: list[str], used: Mapping[int, list[int]]) -> Json:
    first = max(1, min(used) - _AROUND)
    last = min(len(lines), max(used) + _AROUND, first + _MOST_LINES - 1)
    shown = [
        {"line": number, "text": lines[number - 1], "blocks": used.get(number, [])} for number in range(first, last + 1)
    ]
    return {"lines": shown, "left_out": sum(number > last for number in used), "total": len(lines)}


def _place(grants: Grants, name: str) -> Path:
    """The real path of a source file, if it lies below a given directory; a relative name is tried in each of these.
    Raises ToldError `not-granted`.
    """
    folders = (*grants.files, *grants.experiments)
    tried = [Path(os.path.realpath(folder / name)) for folder in folders] or [Path(os.path.realpath(name))]
    inside = [path for path in tried if any(path.is_relative_to(folder) for folder in folders)]
    if not inside:
        message = f"the source {name} lies below no directory of this window's"
        raise ToldError("not-granted", message, f"gilk web --files {Path(name).parent}", 403)
    return next((path for path in inside if path.exists()), inside[0])
