# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pages look as somebody has seen them, in light, in dark and on a narrow screen (looked_at.py)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.seldom import seldom
from tests.web.looked_at import PLACE, WIDTHS, difference, grid, picture, reference, shown
from tests.web.served import Served
from tests.web.windows import browser, context, narrow, page

__all__ = ["browser", "context", "page"]  # fixtures

NAMES = sorted(path.stem for path in PLACE.glob("*.json"))
#: Pages that look each in their own way.
EACH_RUN = {"diff", "graph", "overview"}
AGAIN = "look at it: python -m tests.web.looked_at DIRECTORY writes pictures and references"


@pytest.fixture(scope="module")
def served_pages() -> Iterator[tuple[Served, dict[str, str]]]:
    """In a directory whose name, which pages show, is as long as that of the references."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place, shown(Path(place)) as found:
        yield found


@pytest.fixture(scope="module")
def window(served_pages: tuple[Served, dict[str, str]]) -> Served:
    return served_pages[0]


@pytest.fixture(scope="module")
def addresses(served_pages: tuple[Served, dict[str, str]]) -> dict[str, str]:
    return served_pages[1]


@pytest.fixture(scope="module")
def blank(browser: Browser) -> Iterator[Page]:
    found = browser.new_page()
    yield found
    found.close()


def test_all_pages_have_references(addresses: dict[str, str]) -> None:
    assert sorted(addresses) == NAMES


@pytest.mark.parametrize("name", seldom(sorted(NAMES, key=lambda name: name not in EACH_RUN), len(EACH_RUN)))
def test_a_page_looks_as_it_was_seen(
    page: Page, blank: Page, window: Served, addresses: dict[str, str], name: str
) -> None:
    for kind in WIDTHS:
        unlike = difference(grid(blank, picture(page, window, addresses[name], kind)), reference(name, kind))
        assert not unlike, f"{name}, {kind}: {unlike}; {AGAIN}"
    narrow(page, name)


@pytest.mark.parametrize(
    "change",
    seldom(
        ["h1 { font-size: 4rem }", "main { padding-left: 6rem }", "table { display: none }", ":root { --back: #456 }"],
        1,
    ),
)
def test_negative_control_a_changed_page_is_noticed(
    page: Page, blank: Page, window: Served, addresses: dict[str, str], change: str
) -> None:
    """The style is changed by the tests' own browser, which the pages' policy does not bind."""
    picture(page, window, addresses["diff"], "light")
    page.evaluate(
        """rule => {
          const sheet = new CSSStyleSheet();
          sheet.insertRule(rule);
          document.adoptedStyleSheets = [sheet];
        }""",
        change,
    )
    assert difference(grid(blank, page.screenshot()), reference("diff", "light"))
