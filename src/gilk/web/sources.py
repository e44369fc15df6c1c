# SPDX-License-Identifier: LGPL-2.1-or-later
"""The source of a function, for its page: the lines that its code belongs to, and some around them.

A program may name any file as its source. So a file is shown only if it is text, and lies below a directory that the
window was given (reach_worker.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gilk.web.children import ToldError
from gilk.web.reach import ReachQuestions

Json = dict[str, Any]
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


async def source(reach: ReachQuestions, function: Json, asked: str) -> Json:
    """The text of one of the files that a function's code belongs to: ``asked``, or the one with the most lines.

    Raises ToldError `no-source`, `not-granted`, `not-text`, `no-permission`.
    """
    files = lines_of(function)
    name = asked or next(iter(files), "")
    if name not in files:
        hint = "compile it with -g, or install its debug information"
        raise ToldError("no-source", "no line of that file is known to have code of the function", hint, 404)
    text = (await reach.ask("source", name=name))["text"]
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
