# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instruments in C that are written in the window, in the kernel of its lab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.web.labs import calls, ended, up
from tests.web.served import Asking, Served, served
from tests.web.windows import asking, browser, context, narrow, opened, page, suits

__all__ = ["asking", "browser", "calls", "context", "page", "up"]  # fixtures
pytestmark = pytest.mark.stress  # it starts a machine, and has kbuild make two modules

TEXT = """\
#include <linux/sched.h>
#include <gilk.h>

void asks(const struct gilk_regs *regs, unsigned int iid)
{
	ilk_log_pair_sample(current->tgid, current->pid, iid);
}
"""
ASKS = "kernel:__x64_sys_getsid:entry=mine.c:asks"


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--on", "lab", "--allow-c") as found:
        yield found


def test_records_in_the_kernel_are_of_a_program_that_calls(up: Asking, calls: Path) -> None:
    begun = up.post("/session/machine/c", requests=[ASKS], workload=f"{calls} 1000", text=TEXT)
    line = begun["command"]
    assert line.startswith("printf %s '#include <linux/sched.h>") and "gilk run --on lab" in line
    over = ended(up, begun["number"])
    assert over["report"]["restored"] is True and over["records"] == 1000 and over["printed"].strip() == "1"
    assert len(over["last"]) == 5 and all(one["value"] == one["extra"] > 1 for one in over["last"])


def test_c_that_the_kernel_cannot_have_changes_nothing(up: Asking) -> None:
    for text, slug in [(TEXT.replace("asks", "other"), "no-such-instrument"), ("\0", "bad-request"),
                       (TEXT.replace("current->pid", "current->nothing"), "does-not-compile")]:  # fmt: skip
        answer = up.post("/session/machine/c", requests=[ASKS], workload="", text=text)
        assert answer["error"]["slug"] == slug, answer


def test_an_instrument_is_written_for_the_kernel_by_mouse(page: Page, window: Served, up: Asking, calls: Path) -> None:
    opened(page, window, "/target/lab")
    typed = page.get_by_label("Points and instrument").first
    typed.fill("kernel:__x64_sys_getsid:entry=count")
    typed.press("Enter")
    page.get_by_label("Command that runs in the lab meanwhile").fill(f"{calls} 1000000000")
    page.get_by_text("Instruments in C").click()
    page.get_by_label("mine.c").fill(TEXT)
    expect(page.get_by_text("It has asks. The kernel's own build compiles it")).to_be_visible()
    page.get_by_label("Instrument of kernel:__x64_sys_getsid:entry").select_option("mine.c:asks")
    suits(page, "C for the kernel")
    narrow(page, "C for the kernel")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("table", name="Last records")).to_contain_text("__x64_sys_getsid:entry", timeout=300_000)
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_text("is what it was")).to_be_visible(timeout=300_000)
