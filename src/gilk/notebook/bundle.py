# SPDX-License-Identifier: LGPL-2.1-or-later
"""The script of a widget: the window's own modules, with the few that differ in a notebook, in one text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final

_IMPORT: Final = re.compile(r' from "\./([\w.]+)";')
#: Names of the browser that a page in a notebook must not use: they belong to the notebook. talk.js has others.
_OWN: Final = ("location", "history", "addEventListener", "dispatchEvent")
_STYLE: Final = """
.gilk { display: block; min-height: 0; padding: 0.5rem; max-height: 80vh; overflow: auto; position: relative; }
"""


@cache
def script(entry: str) -> str:
    """The script of the widget whose page is in the module ``entry``."""
    sources = [[name, text] for name, text in _ordered(entry, {}).items()]
    loader = _text("widget.js")
    assert loader.count("SOURCES = [];") == 1 and loader.count('STYLE = "";') == 1
    filled = loader.replace("SOURCES = [];", f"SOURCES = {json.dumps(sources)};")
    return filled.replace('STYLE = "";', f"STYLE = {json.dumps(_style())};")


def _ordered(name: str, found: dict[str, str]) -> dict[str, str]:
    """``found`` with the module ``name``, after all those that it imports."""
    text = "".join(_adapted(name))
    for other in _IMPORT.findall(text):
        if other not in found:
            _ordered(other, found)
    found[name] = text
    return found


def _adapted(name: str) -> Iterator[str]:
    """The text of a module, which uses the widget's names in place of the browser's."""
    text = _text(name)
    used = [each for each in _OWN if re.search(rf"(?<![.\w]){each}\b", text)]
    if used and f"{used[0]}" not in "".join(_imported(text)) and name != "talk.js":
        yield f'import {{ {", ".join(used)} }} from "./talk.js";\n'
    yield text


def _imported(text: str) -> list[str]:
    return re.findall(r"^import .*$", text, re.MULTILINE)


def _text(name: str) -> str:
    """The text of a module: the notebook's, or if it has none of that name the window's."""
    own = files("gilk.notebook") / "assets" / name
    return (own if own.is_file() else files("gilk.web") / "assets" / name).read_text()


def _style() -> str:
    """The window's style, for the root of a widget."""
    text = (files("gilk.web") / "assets" / "style.css").read_text()
    return text.replace(":root", ":host").replace("body {", ".gilk {") + _STYLE
