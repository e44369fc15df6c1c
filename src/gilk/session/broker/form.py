# SPDX-License-Identifier: LGPL-2.1-or-later
"""The forms of answers of servers that may belong to another user, and answer anything."""

from __future__ import annotations

from typing import Any, Final

#: A type; a list with the form of its elements; or a dictionary with the forms of members that must be there.
Form = Any
_MOST: Final = 1 << 64  # numbers are printed, and some are added up
#: The answers of others about a weaving, and about a window (engines/aspect/asking.py, api/windows.py).
WEAVING: Final[Form] = {
    "file": str, "began": float, "pids": [int], "aspects": [{"name": str, "on": bool, "matches": [int]}], "told": int,
}  # fmt: skip
WEAVING_SHOWN: Final[Form] = WEAVING | {
    "processes": [{"pid": int, "functions": int, "notes": [str]}], "reports": [{"pid": int, "text": str}],
}  # fmt: skip
WINDOW: Final[Form] = {"address": str, "since": float, "sessions": int}
WINDOW_KEY: Final[Form] = {"address": str}
_LATEST: Final = 1 << 40  # seconds: a time that the C library can show


def has_form(value: object, form: Form) -> bool:
    """Whether a value, read from JSON, has a form. float stands for a time in seconds."""
    if isinstance(form, dict):
        return isinstance(value, dict) and all(name in value and has_form(value[name], form[name]) for name in form)
    if isinstance(form, list):
        return isinstance(value, list) and all(has_form(each, form[0]) for each in value)
    if form is float:
        return type(value) in (int, float) and 0 <= value < _LATEST  # type: ignore[operator]
    if form is int:
        return type(value) is int and abs(value) < _MOST
    return isinstance(value, form)
