# SPDX-License-Identifier: LGPL-2.1-or-later
"""Windows without a lab, and labs that end with their window or cannot be started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.behaviour.harness import wait_for
from tests.web.labs import FUNCTIONS, GETSID, PATIENCE, lab_of, machines
from tests.web.served import Asking, served


def test_the_machine_ends_with_the_window(tmp_path: Path) -> None:
    """The server is killed while the machine starts, which nobody then waits for."""
    with served(tmp_path, "--on", "lab") as window:
        found: set[int] = set()
        assert wait_for(lambda: bool(found.update(machines(window.process.pid)) or found))
        window.process.kill()
        assert wait_for(lambda: all(not Path(f"/proc/{machine}").exists() for machine in found), PATIENCE)


def test_a_window_has_a_lab_only_if_it_was_given_one(tmp_path: Path) -> None:
    with served(tmp_path, "--pid", str(os.getpid())) as window:
        asking = Asking(window)
        assert asking.get("/index.json")["machine"] is None
        for answer in (
            asking.get("/target/lab.json"), asking.post("/machine/start"), asking.post("/machine/end"),
            asking.post("/session/machine", requests=[GETSID], workload="true"),
            asking.post("/session/machine/d", text="BEGIN { }", workload="true"),
            asking.get("/target/lab/d/check.json"), asking.get("/target/here.json"), asking.get("/target/ssh:a.json"),
            asking.post("/session/machine/trace", start="now", stop="exit", scope=[], depth=0, workload="true"),
            asking.post("/preview", target="lab", requests=[GETSID]), asking.post("/survey", target="lab", image=""),
        ):  # fmt: skip
            assert answer["error"]["slug"] == "not-granted", answer
        assert machines(window.process.pid) == set()


def test_a_machine_that_cannot_be_started_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with served(tmp_path, "--on", "lab") as window:
        asking = Asking(window)
        assert wait_for(lambda: lab_of(asking)["state"] == "over")
        assert lab_of(asking)["why"]["slug"] == "lab-no-qemu"
        assert asking.get(f"{FUNCTIONS.replace('?', '.json?')}")["error"]["slug"] == "machine-is-over"
        assert asking.post("/machine/end")["state"] == "over"
