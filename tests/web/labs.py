# SPDX-License-Identifier: LGPL-2.1-or-later
"""The lab of a window: whether it is up, and sessions in its kernel from their beginning to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.harness import wait_for
from tests.web.served import Asking

FUNCTIONS = "/target/lab/symbols?image=kernel"
GETSID = "kernel:__x64_sys_getsid:entry=count"
PATIENCE = 300  # seconds; the machine is emulated, and this one may be busy
#: A program that asks for its session so often as it is told, and prints 1. Python takes ten seconds to begin there.
CALLS = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words)
{
	for (long left = atol(words[count - 1]); left; left--)
		getsid(0);
	puts("1");
}
"""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program CALLS. The machine has the files of this one."""
    place = tmp_path_factory.mktemp("calls")
    (place / "calls.c").write_text(CALLS)
    subprocess.run(["cc", "-O1", "-o", place / "calls", place / "calls.c"], check=True)
    return place / "calls"


@pytest.fixture(scope="module")
def up(asking: Asking) -> Asking:
    """Requests to a window whose lab is up."""
    assert wait_for(lambda: lab_of(asking)["state"] != "starting", PATIENCE)
    assert lab_of(asking)["state"] == "up", lab_of(asking)
    return asking


def lab_of(asking: Asking) -> Any:
    return asking.get("/target/lab.json")["machine"]


def ended(asking: Asking, number: int) -> Any:
    """A session, once it is over."""
    found: dict[str, Any] = {}
    path = f"/session/{number}.json"
    assert wait_for(lambda: found.update(asking.get(path)) or (found["end"] and "report" in found), PATIENCE)
    return found


def run(asking: Asking, requests: list[str], workload: str) -> Any:
    """A session in the lab while a command runs there, once it is over."""
    begun = asking.post("/session/machine", requests=requests, workload=workload)
    assert "number" in begun, begun
    return ended(asking, begun["number"])


def descendants(pid: int) -> Iterator[int]:
    """All processes that a process has started, and those that these have, and so on."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            yield child
            yield from descendants(child)


def machines(pid: int) -> set[int]:
    return {child for child in descendants(pid) if "qemu" in Path(f"/proc/{child}/comm").read_text()}


def place_in_core(headers: str, address: int) -> int:
    """The offset of an address in /proc/kcore, by its program headers as readelf prints them."""
    for line in headers.splitlines():
        kind, *words = line.split() or [""]
        if kind == "LOAD":
            offset, start, _, size = (int(word, 16) for word in words[:4])
            if start <= address < start + size:
                return offset + address - start
    raise AssertionError(headers)


def program(asking: Asking, text: str, workload: str) -> Any:
    """A D program in the lab's kernel while a command runs there, once it is over."""
    begun = asking.post("/session/machine/d", text=text, workload=workload)
    assert "number" in begun, begun
    return ended(asking, begun["number"])
