# SPDX-License-Identifier: LGPL-2.1-or-later
"""A window that instruments the kernel of another machine, which it reaches over ssh."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.behaviour.harness import wait_for
from tests.kernel.driver.driving import Guest
from tests.kernel.session.ssh import SshIntoGuest
from tests.web.served import Asking, Served, served
from tests.web.windows import asking, browser, context, narrow, opened, page, suits

__all__ = ["asking", "browser", "context", "page"]  # fixtures

HOST = "ssh:the-machine"
MADE = "__x64_sys_getpgid"  # nothing else on an idle machine calls it
POINT = f"kernel:{MADE}:entry"
PATIENCE = 300  # seconds; the machine is emulated


@pytest.fixture(scope="module")
def ssh(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshIntoGuest]:
    with SshIntoGuest(guest, tmp_path_factory.mktemp("ssh")) as ssh:
        yield ssh


@pytest.fixture(scope="module")
def window(ssh: SshIntoGuest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{ssh.directory}:{os.environ['PATH']}")
        with served(tmp_path_factory.mktemp("web"), "--on", HOST) as found:
            yield found


@pytest.fixture
def up(asking: Asking) -> Asking:
    """Requests to the window, which is connected to the machine."""
    if state(asking)["state"] == "over":
        asking.post("/machine/start")
    assert wait_for(lambda: state(asking)["state"] != "starting", PATIENCE)
    assert state(asking)["state"] == "up", state(asking)
    return asking


def state(asking: Asking) -> Any:
    return asking.get(f"/target/{HOST}.json")["machine"]


def session(asking: Asking, number: int) -> Any:
    return asking.get(f"/session/{number}.json")


def test_the_kernel_of_another_machine_is_looked_at(up: Asking, guest: Guest) -> None:
    found = state(up)
    assert (found["name"], found["title"], found["release"]) == (HOST, "the kernel of the-machine", guest.release)
    assert up.get("/index.json")["machine"]["state"] == "up"
    found = up.get(f"/target/{HOST}/symbols.json?image=kernel&q={MADE}")
    assert MADE in {one["name"] for one in found["rows"]}
    assert found["command"] == "ssh the-machine gilk scan kernel 'kernel:*' --list"


def test_calls_are_counted_there_until_the_instrument_is_taken_out(up: Asking, ssh: SshIntoGuest, calls: Path) -> None:
    before = ssh.text(MADE)
    begun = up.post("/session/machine", requests=[f"{POINT}=count"], workload="")
    assert begun["command"] == f"gilk run --on {HOST} -i {POINT}=count"
    assert f'gilk.kernel("{HOST}")' in begun["python"]
    assert ssh.text(MADE) != before
    ssh.run(str(calls), "50")
    assert wait_for(lambda: session(up, begun["number"]).get("counts") == {POINT: 50})
    over = up.post("/session/end", session=begun["number"])
    assert over["report"]["restored"] is True and ssh.text(MADE) == before


def test_a_program_in_d_runs_there(up: Asking, ssh: SshIntoGuest, calls: Path) -> None:
    begun = up.post("/session/machine/d", text="syscall::getpgid:entry { @made = count(); }", workload="")
    ssh.run(str(calls), "7")
    up.post("/session/end", session=begun["number"])
    (table,) = session(up, begun["number"])["aggregations"]
    assert [row["values"] for row in table["rows"]] == [[7]]


def test_an_instrument_is_put_into_the_kernel_by_mouse(
    page: Page, window: Served, up: Asking, ssh: SshIntoGuest
) -> None:
    before = ssh.text(MADE)
    opened(page, window, "/")
    page.get_by_role("link", name="The machine").click()
    expect(page.get_by_role("heading", name="The kernel of the-machine")).to_be_visible()
    typed = page.get_by_label("Points and instrument").first
    typed.fill(f"{POINT}=count")
    typed.press("Enter")
    page.get_by_text("As a command").click()
    expect(page.get_by_text(f"gilk run --on {HOST} -i '{POINT}=count'")).to_be_visible()
    expect(page.get_by_label("Command that runs")).to_have_count(0)
    suits(page, "a machine")
    narrow(page, "a machine")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("button", name="Take out")).to_be_visible(timeout=1000 * PATIENCE)
    assert ssh.text(MADE) != before
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_text("is what it was")).to_be_visible(timeout=1000 * PATIENCE)
    assert ssh.text(MADE) == before


def test_the_window_runs_no_commands_there(up: Asking, tmp_path: Path) -> None:
    command = f"touch {tmp_path / 'ran'}"
    for path, given in (
        ("", {"requests": [f"{POINT}=count"]}), ("/d", {"text": "BEGIN { exit(0); }"}),
    ):  # fmt: skip
        answer = up.post(f"/session/machine{path}", **given, workload=command)
        assert answer["error"]["slug"] == "only-in-the-lab", answer


def test_a_session_ends_with_the_connection(up: Asking, ssh: SshIntoGuest) -> None:
    before = ssh.text(MADE)
    begun = up.post("/session/machine", requests=[f"{POINT}=count"], workload="")
    assert ssh.text(MADE) != before
    assert up.post("/machine/end")["state"] == "over"
    assert session(up, begun["number"])["end"] and ssh.text(MADE) == before
    assert up.get(f"/target/{HOST}/symbols.json?image=kernel")["error"]["slug"] == "machine-is-over"


@pytest.mark.stress
def test_a_killed_window_leaves_nothing_in_the_kernel(up: Asking, ssh: SshIntoGuest, window: Served) -> None:
    before = ssh.text(MADE)
    up.post("/session/machine", requests=[f"{POINT}=count"], workload="")
    assert ssh.text(MADE) != before
    window.process.kill()
    assert wait_for(lambda: ssh.text(MADE) == before, PATIENCE)
