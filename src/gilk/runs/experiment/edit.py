# SPDX-License-Identifier: LGPL-2.1-or-later
"""Changes to an experiment's text: one value is changed, and everything else stays, comments included.

Lines are looked for in the form in which people write them. Text in another form may be misread. So the result is read
again, and unless it has the changed value and all others as before, the change is refused.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from gilk.errors import UsageError
from gilk.runs.experiment.file import table_of
from gilk.values import dataclass

Value = str | float
_HEADER: Final = re.compile(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?")
_MOST_LINES: Final = 200  # how many lines a value can have
_INSTRUMENT: Final = "instrument"


@dataclass(frozen=True, slots=True)
class TextPart:
    """The lines from ``start`` to before ``end`` of a table; ``start`` is its header's, -1 for the first table, which
    has none."""

    name: str
    start: int
    end: int


def with_value(text: str, path: Path, where: str, key: str, value: Value | None) -> str:
    """The text with a value changed. ``where``: ``""``, ``workload`` or ``instrument[2]``. ``value``: None removes the
    key.

    Raises UsageError `bad-experiment`.
    """
    lines, part = text.splitlines(), _part(text, where)
    if part is None:
        made = _with_table(lines, where, {} if value is None else {key: value})
    else:
        made = _with_line(lines, part, key, value)
    return _checked(text, "\n".join(made) + "\n", path, lambda table: _set(table, where, key, value))


def with_instrument(text: str, path: Path, values: Mapping[str, Value]) -> str:
    """The text with one more instrument at the end. Raises UsageError `bad-experiment`."""
    made = text.rstrip("\n") + "\n\n[[instrument]]\n" + "".join(f"{key} = {_written(v)}\n" for key, v in values.items())
    return _checked(text, made, path, lambda table: table.setdefault(_INSTRUMENT, []).append(dict(values)))


def without_instrument(text: str, path: Path, number: int) -> str:
    """The text without an instrument; these are counted from 1. Raises UsageError `bad-experiment`."""
    part = _part(text, f"instrument[{number}]")
    if part is None:
        raise _refused(path)
    lines = text.splitlines()
    made = lines[: part.start] + lines[_own_end(lines, part) :]
    return _checked(text, "\n".join(made) + "\n", path, lambda table: _without(table, number))


def values_of(request: str) -> dict[str, Value]:
    """The keys and values for an instrument that `gilk run -i` would be given as ``request``. Raises UsageError
    `bad-instrument`."""
    functions, strategy, chosen = request.partition("=@")
    if strategy:
        name, _, instrument = chosen.partition(":")
        return {"functions": functions, "strategy": name, **({"instrument": instrument} if instrument else {})}
    points, separator, instrument = request.rpartition("=")
    if not separator:
        raise UsageError("bad-instrument", f"{request!r} is not POINTS=INSTRUMENT", "for example 'main:entry=count'")
    return {"points": points, "instrument": instrument}


def _place(where: str) -> tuple[str, int | None]:
    """A table's name, and its number, from 1, among those of that name; None if there is only one."""
    match = re.fullmatch(r"(\w+)\[(\d+)\]", where)
    return (match[1], int(match[2])) if match else (where, None)


def _part(text: str, where: str) -> TextPart | None:
    name, number = _place(where)
    nth = 1 if number is None else number
    found = [part for part in _parts(text.splitlines()) if part.name == name]
    return found[nth - 1] if 0 < nth <= len(found) else None


def _parts(lines: list[str]) -> list[TextPart]:
    headers = [(number, match[1]) for number, line in enumerate(lines) if (match := _HEADER.match(line))]
    starts = [(-1, ""), *headers]
    ends = [number for number, _ in headers] + [len(lines)]
    return [TextPart(name, start, end) for (start, name), end in zip(starts, ends, strict=True)]


def _own_end(lines: list[str], part: TextPart) -> int:
    """The end of a table's own lines: comments and empty lines before the next header belong to what follows."""
    end = part.end
    while end > part.start + 1 and lines[end - 1].lstrip()[:1] in ("", "#"):
        end -= 1
    return end


def _with_line(lines: list[str], part: TextPart, key: str, value: Value | None) -> list[str]:
    new = [] if value is None else [f"{key} = {_written(value)}"]
    for number in range(part.start + 1, part.end):
        if re.match(rf"\s*{re.escape(key)}\s*=", lines[number]):
            end, comment = _extent(lines, number, part.end)
            return lines[:number] + [f"{line}{comment}" for line in new] + lines[end:]
    at = _own_end(lines, part)
    if at < 0 or (part.start < 0 and at == 0):
        at = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return lines[:at] + new + lines[at:]


def _extent(lines: list[str], start: int, end: int) -> tuple[int, str]:
    """The line after the value that begins at ``start``, and the comment behind the value."""
    for last in range(start, min(end, start + _MOST_LINES)):
        whole = "\n".join(lines[start : last + 1])
        if _reads(whole):
            at = [number for number, letter in enumerate(whole) if letter == "#" and _reads(whole[:number])]
            return last + 1, (re.search(r"\s*\Z", whole[: at[0]])[0] + whole[at[0] :]) if at else ""  # type: ignore[index]
    return start + 1, ""


def _reads(text: str) -> bool:
    try:
        return bool(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError):
        return False


def _with_table(lines: list[str], where: str, values: Mapping[str, Value]) -> list[str]:
    """The lines with a new table, before the instruments."""
    at = next((part.start for part in _parts(lines) if part.name == _INSTRUMENT), len(lines))
    while 0 < at < len(lines) and lines[at - 1].startswith("#"):
        at -= 1
    made = [f"[{where}]", *(f"{key} = {_written(value)}" for key, value in values.items()), ""]
    return lines[:at] + made + lines[at:]


def _written(value: Value) -> str:
    """A value as TOML. JSON's strings are TOML's, except that TOML wants DEL escaped."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(int(value) if value == int(value) else round(value, 3))


def _set(table: dict[str, Any], where: str, key: str, value: Value | None) -> None:
    name, number = _place(where)
    place = table[name][number - 1] if number is not None else table.setdefault(name, {}) if name else table
    if value is None:
        place.pop(key, None)
    else:
        place[key] = value if isinstance(value, str) else round(value, 3)


def _without(table: dict[str, Any], number: int) -> None:
    del table[_INSTRUMENT][number - 1]
    if not table[_INSTRUMENT]:
        del table[_INSTRUMENT]


def _checked(old: str, new: str, path: Path, change: Callable[[dict[str, Any]], None]) -> str:
    """``new``, if it differs from ``old`` by that change alone. Raises UsageError `bad-experiment`."""
    meant = copy.deepcopy(table_of(old, path))
    try:
        change(meant)
        found = tomllib.loads(new)
    except (tomllib.TOMLDecodeError, RecursionError, LookupError, TypeError, AttributeError):
        raise _refused(path) from None
    if found != meant:
        raise _refused(path)
    return new


def _refused(path: Path) -> UsageError:
    return UsageError("bad-experiment", f"{path}: that change is not understood in this text", "change the text itself")
