# SPDX-License-Identifier: LGPL-2.1-or-later
"""A real browser, and pages in it that have come to rest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.render.browser import CHROMIUM, FLAGS

expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "no Chromium: tools/setup test installs it"
    with sync_playwright() as playwright:
        flags = [flag for flag in FLAGS if not flag.startswith(("--headless", "--window-size"))]
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield found
        found.close()


def ready(page: Page) -> None:
    expect(page.locator("body[data-ready=yes]")).to_be_attached()
