# SPDX-License-Identifier: LGPL-2.1-or-later
"""The documentation that came with gilk; no network is needed."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from gilk.web.children import ToldError

#: The directories of the documentation: in an installed package, and in a checkout of the sources.
_PLACES: Final = (Path(__file__).parent / "docs", Path(__file__).parents[3] / "docs")
_NAME: Final = re.compile(r"[A-Za-z0-9-]+(/[A-Za-z0-9-]+)?")
_HIDDEN: Final = frozenset(("decisions",))


def place() -> Path:
    """The directory of the documentation. Raises ToldError `no-manual`."""
    found = next((each for each in _PLACES if (each / "errors.md").is_file()), None)
    if found is None:
        raise ToldError("no-manual", "this installation of gilk came without its documentation", "", 404)
    return found


@cache
def texts() -> dict[str, str]:
    """The texts of all pages by their names. Raises ToldError `no-manual`."""
    root = place()
    found = {path.relative_to(root).with_suffix("").as_posix(): path for path in sorted(root.rglob("*.md"))}
    shown = (name for name in found if _NAME.fullmatch(name) and name.partition("/")[0] not in _HIDDEN)
    return {name: found[name].read_text() for name in shown}


def pages() -> list[str]:
    return list(texts())


def titles() -> dict[str, str]:
    """The first heading of each page."""
    found = {name: re.search(r"^# (.*)", text, re.MULTILINE) for name, text in texts().items()}
    return {name: heading[1] if heading is not None else name for name, heading in found.items()}


def page(name: str) -> str:
    """The text of a page. Raises ToldError `no-such-page`, `no-manual`."""
    if name not in texts():
        raise ToldError("no-such-page", f"there is no page {name!r}", "the first page of the help lists them", 404)
    return texts()[name]


def paragraph(page_name: str, heading: str) -> str:
    """The text below a heading of a page, '' if there is none."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page(page_name), re.MULTILINE | re.DOTALL)
    return found[1].strip() if found is not None else ""
